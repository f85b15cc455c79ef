"""Test what results report besides the time: typical values, counted quantities, reasons for missing intervals."""

import json
from dataclasses import replace

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.result import Breakdown, BreakdownRow
from tests.kernels import doubled, triangle

OPTIONS = {"n": 4096, "device": "nvidia-v100"}


def rows() -> lp.TranslationUnit:
    """Return sums over the rows of an array whose lengths depend on data."""
    unit = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "[start, end] -> {[j]: start <= j < end}"],
        """
        <> start = row_start[i]
        <> end = row_start[i+1]
        y[i] = sum(j, a[j])
        """,
        [
            lp.GlobalArg("a", np.float32, shape=None),
            lp.GlobalArg("row_start", np.int32, shape="n+1"),
            lp.GlobalArg("y", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="rows",
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")


ANSWERS = {
    "estimate of a device": lambda: lpp.estimate(rows(), typical={"j": 27}, model="roofline", **OPTIONS),
    "estimate by a fit": lambda: lpp.estimate(rows(), typical={"j": 27}, n=4096, device="amd-r9-fury"),
    "compare": lambda: lpp.compare(rows(), typical={"j": 27}, models=["roofline"], **OPTIONS),
    "explain": lambda: lpp.explain(rows(), typical={"j": 27}, models=["roofline"], **OPTIONS),
    "trace": lambda: lpp.trace(rows(), typical={"j": 27}, **OPTIONS),
    "split": lambda: lpp.split(rows(), typical={"j": 27}, devices=["nvidia-v100"], model="roofline", n=4096),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_typical_values_are_part_of_the_answer(name: str) -> None:
    answer = ANSWERS[name]()
    assert answer.typical == {"j": 27}
    assert "rows(n=4096, typically j=27)" in str(answer)
    assert "rows(n=4096, typically j=27)" in repr(answer)
    assert json.loads(json.dumps(answer.to_dict()))["typical"] == {"j": 27}


def test_typical_values_are_part_of_a_ranking() -> None:
    ranking = lpp.rank({"one": rows()}, typical={"j": 27}, model="roofline", **OPTIONS)
    assert repr(ranking).startswith("<Ranking 1 variant (n=4096, typically j=27) on nvidia-v100")
    assert json.loads(json.dumps(ranking.to_dict()))["typical"] == {"j": 27}


def test_answer_without_typical_values_does_not_mention_them() -> None:
    answer = lpp.estimate(doubled(), model="roofline", **OPTIONS)
    assert (answer.typical, answer.to_dict()["typical"]) == ({}, {})
    assert "typically" not in str(answer)


def test_table_headings_name_the_counted_quantity() -> None:
    by_counts = lpp.estimate(doubled(), n=4096, device="amd-r9-fury")
    by_simulation = lpp.estimate(doubled(), model="pipeline", **OPTIONS)
    assert [line.split()[0] for line in str(by_counts).splitlines()[1:2]] == ["property"]
    assert "  pipeline  " in str(by_simulation)
    assert "executions on a core" in str(by_simulation)


@pytest.mark.parametrize("model", ["roofline", "pipeline", "volkov"])
def test_empty_array_of_sizes_gives_no_times(model: str) -> None:
    none = lpp.estimate(doubled(), n=np.zeros((0, 2), int), device="nvidia-v100", model=model)
    assert none.seconds.shape == (0, 2)
    assert "doubled(n=none) on nvidia-v100, model" in str(none)
    assert " ".join(str(none).split()).startswith(none.inputs + ": 0 run times")
    assert "all costs" not in str(none)


def test_array_of_one_size_is_one_run_time() -> None:
    one = lpp.estimate(doubled(), n=np.array([[4096]]), device="nvidia-v100", model="roofline")
    assert "doubled(n=4096) on nvidia-v100, model roofline: 1 run time 3.52 µs, bound by" in repr(one)


@pytest.mark.parametrize("model", ["roofline", "mwp-cwp", "gpuperf", "pipeline"])
def test_breakdown_of_a_device_model_has_no_zero_rows(model: str) -> None:
    answer = lpp.estimate(doubled(), n=2**24, device="nvidia-v100", model=model)
    assert all(row.seconds > 0 for row in answer.breakdown.rows)


def test_note_explains_why_a_device_model_has_no_interval() -> None:
    answer = lpp.estimate(doubled(), model="roofline", **OPTIONS)
    assert answer.why_no_interval == "no prediction interval: the model is not calibrated on this device"
    assert answer.why_no_interval in answer.to_dict()["notes"]


def test_overlapping_counts_have_an_attributed_time(make_fit) -> None:
    weights = dict.fromkeys(lpp.count(doubled()).properties(), 1e-9)
    overlapping = lpp.estimate(doubled(), n=4096, fit=make_fit(model="overlap", sharpness=2.0, weights=weights))
    assert (overlapping.columns, overlapping.to_dict()["columns"]) == ("overlapping", "overlapping")
    assert overlapping.report_text().tables[0].headings[2:] == ("each alone", "attributed time", "share")
    row = next(each for each in overlapping.breakdown.rows if each.property == "f32 mul")
    assert row.seconds < row.count * row.weight
    assert lpp.estimate(doubled(), n=4096, fit=make_fit(weights=weights)).columns == "counts"


def test_breakdown_of_pipelines_shows_busy_times_and_factors() -> None:
    parts = Breakdown((BreakdownRow("DRAM", "load", 2e-3, 1.5, 3e-3), BreakdownRow("launches", "", 1, 4e-6, 4e-6)))
    by_pipelines = lpp.Estimate(
        "k", {"n": 1}, "d", "overlap", "executed", 3.004e-3, parts, None, (), columns="pipelines"
    )
    lines = [line.split() for line in str(by_pipelines).splitlines()]
    assert str(by_pipelines).splitlines()[1].endswith("factor  attributed time  share")
    assert ["DRAM", "2", "ms", "1.5", "times", "3", "ms", "100", "%"] in lines
    assert ["launches", "1", "4", "µs", "4", "µs", "<", "1", "%"] in lines


def test_estimate_of_0_seconds_has_no_bound() -> None:
    empty = lpp.Estimate(
        "k", {"n": 0}, "d", "m", "executed", 0.0, Breakdown((BreakdownRow("f32 mul", "", 0, 1e-9, 0.0),)), None, ()
    )
    assert empty.bound == "nothing"
    assert "all costs are 0" in str(empty)
    assert "most of it" not in str(empty)


def test_models_below_the_roofline_are_listed() -> None:
    (on,) = lpp.explain(doubled(), models=["roofline", "gpumech-rr", "pipeline"], **OPTIONS).devices
    assert on.estimates["gpumech-rr"].seconds < on.estimates["roofline"].seconds <= on.estimates["pipeline"].seconds
    assert on.under_the_roof.startswith("gpumech-rr predicts less than the ")
    assert on.under_the_roof.endswith("of the roofline: it does not include all effects of the roofline")
    compared = lpp.compare(doubled(), models=["roofline", "gpumech-rr", "pipeline"], **OPTIONS)
    assert "gpumech-rr predicts less than the " in " ".join(str(compared).split())
    assert on.under_the_roof in compared.report_text().remarks
    assert "less than" not in str(lpp.compare(doubled(), models=["gpumech-rr", "pipeline"], **OPTIONS))
    (only_above,) = lpp.explain(doubled(), models=["roofline", "pipeline"], **OPTIONS).devices
    assert only_above.under_the_roof == ""


def test_comparison_with_the_roofline_includes_launch_overhead() -> None:
    options = {"n": 1000, "models": ["linear", "roofline"]}
    device = replace(lpp.load_device("amd-r9-fury"), launch_overhead=129e-6)  # that of the fit
    (on,) = lpp.explain(triangle(), device=[device], **options).devices
    linear, roofline = (float(on.estimates[name]) for name in options["models"])
    assert linear < roofline == on.least
    assert on.under_the_roof.endswith(
        "of the roofline: it does not include all effects of the roofline, and leaves out global load 32-bit stride 0"
    )
    assert on.under_the_roof in lpp.compare(triangle(), device=device, **options).report_text().remarks
