"""Tests of explanations: they equal the functions that they combine, add up, and list refusals."""

import json
from dataclasses import replace
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import Fit, save_fit
from loopyperf.device.device_library import BUNDLED
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError, UnknownModelError
from loopyperf.explain.explain import paragraphs
from loopyperf.explain.explanation import line_costs
from tests.explain.pages.report_kernels import DEVICES, MODELS, two_launches
from tests.kernels import doubled
from tests.minimal_fit import FREE

SIZE = 2**20


def test_explanation_equals_the_functions_that_it_combines():
    (on,) = lpp.explain(two_launches(), n=SIZE, device="nvidia-v100", models=MODELS).devices
    compared = lpp.compare(two_launches(), n=SIZE, device="nvidia-v100", models=MODELS)
    assert {name: each.to_dict() for name, each in compared.estimates.items()} == {
        name: each.to_dict() for name, each in on.estimates.items()
    }
    assert compared.refusals == on.refusals
    assert on.roofline == lpp.roofline(two_launches(), n=SIZE, device="nvidia-v100")


def test_lines_and_properties_add_up_to_each_estimate():
    found = lpp.explain(two_launches(), n=SIZE, device=DEVICES, models=MODELS)
    estimates = [each for on in found.devices for each in on.estimates.values()]
    assert len(estimates) == 10  # three models on each of three devices, and a fit on one
    for each in estimates:
        # Lines add up rows in another order: they differ by a few units in the last place.
        assert sum(line.seconds for line in line_costs(each, found.listing)) == pytest.approx(each.seconds, rel=1e-12)
        assert sum(cost.seconds for cost in each.breakdown.costs()) == pytest.approx(each.seconds, rel=1e-12)


def test_first_model_is_the_requested_one_else_a_fit_else_pipeline():
    def first(**options: object) -> list[str]:
        return [on.first for on in lpp.explain(doubled(), n=4096, device=DEVICES[1:3], **options).devices]

    assert first() == ["pipeline", "linear"]
    assert first(model="volkov") == ["volkov", "volkov"]
    assert first(models=["volkov", "linear", "roofline"]) == ["volkov", "linear"]


def test_devices_and_models_without_estimate_have_a_reason(own_data: Path):
    found = lpp.explain(doubled(), n=4096, device=DEVICES)
    assert [on.device for on in found.devices] == list(DEVICES[:3])
    assert "no device called 'nobodys-device'; nearest" in found.refusals["nobodys-device"]
    save_fit(
        Fit(model="linear", device="Mine", slug="mine", counting="paper", weights={**FREE, "launches": 1.0}),
        own_data / "fits" / "mine" / "linear.json",
    )
    (own_data / "devices").mkdir()
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    (own_data / "devices" / "mine.toml").write_text(text.replace("\nf32 = ", "\n# "), encoding="utf-8")
    (mine,) = lpp.explain(doubled(), n=4096, device="mine").devices
    assert list(mine.estimates) == ["linear"]
    assert "lacks throughput.f32" in mine.refusals["roofline"]
    assert (mine.roofline, set(mine.gaps)) == (None, {"diagnosis", "roofline"})


def test_device_with_a_fit_only_uses_the_fit(own_data: Path):
    own = Fit(
        model="linear", device="Made Up", slug="made-up-1", counting="paper", weights={"launches": 1.0, "f32 mul": 0.0}
    )
    save_fit(own, own_data / "fits" / "made-up-1" / "linear.json")
    (on,) = lpp.explain(doubled(), n=4096, device="made-up-1").devices
    assert (list(on.estimates), on.clock, on.roofline) == (["linear"], None, None)
    assert on.estimate.seconds == 1.0


def test_data_dependent_trip_count_needs_a_typical_value():
    rows = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "[row_length] -> {[j]: 0 <= j < row_length}"],
        "<> row_length = length[i]\nout[i] = sum(j, a[j, i])",
        [
            lp.GlobalArg("length", np.int32, shape="n"),
            lp.GlobalArg("a", np.float32, shape="1000, n"),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="rows",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    for device in ("nvidia-v100", "amd-r9-fury"):
        with pytest.raises(LoopyperfError, match=rf"no model can predict .* on '{device}'.* value of row_length"):
            lpp.explain(rows, n=4096, device=device)
    (on,) = lpp.explain(rows, n=4096, device="nvidia-v100", models=["roofline"], typical={"row_length": 27}).devices
    assert on.estimate.seconds > 0


def test_invalid_arguments_are_refused():
    for options, error, words in (
        ({"device": "nobodys-device"}, UnknownDeviceError, "no device called 'nobodys-device'"),
        ({"device": []}, ParameterError, "the list of devices is empty"),
        ({"device": "nvidia-v100", "model": "best"}, UnknownModelError, "unknown model 'best'"),
        ({"device": "nvidia-v100", "models": ["linear"]}, LoopyperfError, "no model can predict .* on 'nvidia-v100'"),
        ({"device": "nvidia-v100", "parameters": {"k": 1}}, ParameterError, "superfluous|no size k"),
    ):
        with pytest.raises(error, match=words):
            lpp.explain(doubled(), n=4096, **options)
    with pytest.raises(ParameterError, match="got an array for size 'n'; pass one size at a time"):
        lpp.explain(doubled(), n=np.array([16, 32]), device="nvidia-v100")


def test_explanation_is_json_serializable():
    found = lpp.explain(two_launches(), n=SIZE, device=DEVICES, models=MODELS, about="why")
    record = json.loads(json.dumps(found.to_dict()))
    assert (record["kernel"], record["about"], record["sizes"]) == ("chain", "why", {"n": SIZE})
    assert [line["source"] for line in record["listing"]] == [line.source for line in found.listing]
    (launch, _) = record["devices"][0]["roofline"]["launches"]
    assert launch["intensities"]["DRAM"] == pytest.approx(launch["flops"] / launch["moved"]["DRAM"])


def test_lines_of_paragraphs_are_joined_except_in_formulas():
    text = "A sum,\nof rows.\n\n    s = Σ a\n      + b\n\n\nLast."
    assert paragraphs(text) == ["A sum, of rows.", "    s = Σ a\n      + b", "Last."]
    assert paragraphs("") == paragraphs("\n\n") == []


def test_first_screen_shows_at_most_three_findings():
    (on,) = lpp.explain(two_launches(), n=2**20, device="nvidia-v100").devices
    many = replace(on.diagnosis, findings=on.diagnosis.findings * 5)
    shown = str(replace(on, diagnosis=many))
    assert "3. " in shown
    assert "4. " not in shown
    assert "with smaller gains" in shown
