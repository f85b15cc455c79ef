"""Test that fits are found by the name of the driver and by the name in the device catalog."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import loopyperf as lpp
from loopyperf.calibration import choice
from loopyperf.calibration.fits import save_fit
from tests.kernels import doubled

KERNEL = doubled()


@pytest.mark.parametrize("asked", ["nvidia-gtx-1060", "GeForce GTX 1060 6GB"])
@pytest.mark.parametrize("slug", ["nvidia-gtx-1060", "geforce-gtx-1060-6gb"])
def test_fit_is_found_by_either_name_of_the_device(slug: str, asked: str, make_fit, own_data: Path, tmp_path: Path):
    save_fit(make_fit(slug=slug), tmp_path / "mine.json")
    for fit in (tmp_path / "mine.json", make_fit(slug=slug)):
        assert lpp.estimate(KERNEL, n=64, device=asked, fit=fit).device == slug
    save_fit(make_fit(slug=slug), own_data / "fits" / slug / "linear.json")
    for model in ("linear", None):
        answer = lpp.estimate(KERNEL, n=64, device=asked, model=model)
        assert (answer.device, answer.model) == (slug, "linear")


def test_local_device_uses_the_fit_under_its_other_name(make_fit, own_data: Path, monkeypatch: pytest.MonkeyPatch):
    environment = SimpleNamespace(slug="geforce-gtx-1060-6gb")
    monkeypatch.setattr(choice, "open_backend", lambda name: SimpleNamespace(environment=environment))
    assert lpp.estimate(KERNEL, n=64, model="roofline").device == "nvidia-gtx-1060"
    save_fit(make_fit(slug="nvidia-gtx-1060"), own_data / "fits" / "nvidia-gtx-1060" / "linear.json")
    assert lpp.estimate(KERNEL, n=64).model == "linear"
