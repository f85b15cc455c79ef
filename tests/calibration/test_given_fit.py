"""Test `fit=` in `compare`, `explain` and `report`: only the fit's own model uses it, and only on its device."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import Fit, save_fit
from loopyperf.errors import FitFileError, ParameterError
from loopyperf.models.result import Estimate
from tests.kernels import doubled
from tests.minimal_fit import FREE

V100 = "nvidia-v100"
N = 4096
MODELS = ("linear", "overlap", "roofline")


def fit_of(model: str, seconds: float, slug: str = V100) -> Fit:
    """Return a fit in which a launch takes *seconds* and all other operations take no time."""
    return Fit(model=model, device=slug, slug=slug, counting="executed", weights={**FREE, "launches": seconds})


GIVEN = fit_of("linear", 2.0)


@pytest.fixture
def own(own_data: Path) -> None:
    """User fits of both models for the V100, in which a launch takes 1 s."""
    for model in ("linear", "overlap"):
        save_fit(fit_of(model, 1.0), own_data / "fits" / V100 / f"{model}.json")


def compared(**options: object) -> Mapping[str, Estimate]:
    return lpp.compare(doubled(), n=N, **{"models": MODELS, **options}).estimates


def explained(**options: object) -> Mapping[str, Estimate]:
    (on,) = lpp.explain(doubled(), n=N, **{"models": MODELS, **options}).devices
    return on.estimates


def reported(**options: object) -> Mapping[str, Estimate]:
    (on,) = lpp.report(doubled(), n=N, **{"models": MODELS, **options}).explanation.devices
    return on.estimates


every_function = pytest.mark.parametrize("ask", [compared, explained, reported])


@every_function
@pytest.mark.usefixtures("own")
def test_given_fit_changes_only_the_estimate_of_its_model(
    ask: Callable[..., Mapping[str, Estimate]], tmp_path: Path
) -> None:
    usual = ask(device=V100)
    assert (usual["linear"].seconds, usual["overlap"].seconds) == (1.0, 1.0)
    save_fit(GIVEN, tmp_path / "fit.json")
    for fit, device in ((GIVEN, {"device": V100}), (tmp_path / "fit.json", {}), (str(tmp_path / "fit.json"), {})):
        answers = ask(fit=fit, **device)
        assert answers == {**usual, "linear": lpp.estimate(doubled(), n=N, fit=GIVEN)}
        assert answers["linear"].seconds == 2.0


def test_unusable_fits_are_refused(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    refusals = (
        (GIVEN, {"device": V100, "models": ("roofline", "volkov")}, ParameterError, "not among the models roofline"),
        (GIVEN, {"device": "nvidia-a100"}, FitFileError, "for device 'nvidia-v100', not for 'nvidia-a100'"),
        (tmp_path / "none.json", {"device": V100}, FitFileError, "cannot read the fit file"),
        (tmp_path / "list.json", {"device": V100}, FitFileError, "is not a fit file"),
    )
    for ask in (compared, explained, reported):
        for fit, options, error, message in refusals:
            with pytest.raises(error, match=message):
                ask(fit=fit, **options)


def test_fit_applies_to_its_device_and_its_model_comes_first() -> None:
    devices = (V100, "nvidia-a100", "amd-r9-fury")
    found = lpp.explain(doubled(), n=N, device=devices, fit=GIVEN, models=("linear", "pipeline"))
    assert [on.first for on in found.devices] == ["linear", "pipeline", "linear"]
    assert found.devices[0].estimate.seconds == 2.0
    assert found.devices[2].estimate == lpp.estimate(doubled(), n=N, device="amd-r9-fury")
    assert "no fit for device" in found.devices[1].refusals["linear"]


def test_explain_accepts_a_fit_of_a_device_without_parameters() -> None:
    (on,) = lpp.explain(doubled(), n=N, fit=fit_of("linear", 3.0, "made-up-1")).devices
    assert (on.device, list(on.estimates), on.estimate.seconds) == ("made-up-1", ["linear"], 3.0)
