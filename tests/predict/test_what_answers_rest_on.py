"""What an answer says of itself beside the time: what was stated, what is counted, why there is no interval."""

import json

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.result import Breakdown, BreakdownRow
from tests.kernels import doubled, triangle

ASKED = {"n": 4096, "device": "nvidia-v100"}


def rows() -> lp.TranslationUnit:
    """Sums of rows of which only data say how long they are."""
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
    "estimate of a device": lambda: lpp.estimate(rows(), typical={"j": 27}, model="roofline", **ASKED),
    "estimate by a fit": lambda: lpp.estimate(rows(), typical={"j": 27}, n=4096, device="amd-r9-fury"),
    "compare": lambda: lpp.compare(rows(), typical={"j": 27}, models=["roofline"], **ASKED),
    "explain": lambda: lpp.explain(rows(), typical={"j": 27}, models=["roofline"], **ASKED),
    "trace": lambda: lpp.trace(rows(), typical={"j": 27}, **ASKED),
    "split": lambda: lpp.split(rows(), typical={"j": 27}, devices=["nvidia-v100"], model="roofline", n=4096),
}
WITHOUT_JSON = ("trace", "split")
"""the one is a file of its own"""


@pytest.mark.parametrize("name", ANSWERS)
def test_what_was_stated_of_data_is_in_the_answer(name: str) -> None:
    answer = ANSWERS[name]()
    assert answer.typical == {"j": 27}
    assert "rows(n=4096, typically j=27)" in str(answer)
    assert "rows(n=4096, typically j=27)" in repr(answer)
    if name not in WITHOUT_JSON:
        assert json.loads(json.dumps(answer.to_dict()))["typical"] == {"j": 27}


def test_what_was_stated_for_a_ranking_is_in_it() -> None:
    ranking = lpp.rank({"one": rows()}, typical={"j": 27}, model="roofline", **ASKED)
    assert repr(ranking).startswith("<Ranking 1 variant (n=4096, typically j=27) on nvidia-v100")
    assert json.loads(json.dumps(ranking.to_dict()))["typical"] == {"j": 27}


def test_where_nothing_was_stated_nothing_is_said() -> None:
    answer = lpp.estimate(doubled(), model="roofline", **ASKED)
    assert (answer.typical, answer.to_dict()["typical"]) == ({}, {})
    assert "typically" not in str(answer)


def test_what_is_counted_is_said() -> None:
    by_counts = lpp.estimate(doubled(), n=4096, device="amd-r9-fury")
    by_simulation = lpp.estimate(doubled(), model="pipeline", **ASKED)
    assert [line.split()[0] for line in str(by_counts).splitlines()[1:2]] == ["property"]
    assert "  pipeline  " in str(by_simulation)
    assert "executions on a core" in str(by_simulation)


@pytest.mark.parametrize("model", ["roofline", "pipeline", "volkov"])
def test_a_device_answers_no_sizes_with_no_times(model: str) -> None:
    none = lpp.estimate(doubled(), n=np.zeros((0, 2), int), device="nvidia-v100", model=model)
    assert none.seconds.shape == (0, 2)
    assert "doubled(n=none) on nvidia-v100, model" in str(none)
    assert " ".join(str(none).split()).startswith(none.inputs + ": 0 run times")
    assert "all costs" not in str(none)


def test_an_array_of_one_size_is_one_run_time() -> None:
    one = lpp.estimate(doubled(), n=np.array([[4096]]), device="nvidia-v100", model="roofline")
    assert "doubled(n=4096) on nvidia-v100, model roofline: 1 run time 371 ns, bound by" in repr(one)


@pytest.mark.parametrize("model", ["roofline", "mwp-cwp", "gpuperf", "pipeline"])
def test_no_row_of_an_answer_by_a_description_is_without_time(model: str) -> None:
    answer = lpp.estimate(doubled(), n=2**24, device="nvidia-v100", model=model)
    assert all(row.seconds > 0 for row in answer.breakdown.rows)


def test_why_nobody_knows_how_far_a_description_is_off_is_a_note() -> None:
    answer = lpp.estimate(doubled(), model="roofline", **ASKED)
    assert answer.why_no_interval == "the model is not calibrated on this device"
    assert f"no prediction interval: {answer.why_no_interval}" in answer.to_dict()["notes"]


def test_counts_that_overlap_have_a_part_of_the_time(make_fit) -> None:
    weights = dict.fromkeys(lpp.count(doubled()).properties(), 1e-9)
    overlapping = lpp.estimate(doubled(), n=4096, fit=make_fit(model="overlap", sharpness=2.0, weights=weights))
    assert (overlapping.columns, overlapping.to_dict()["columns"]) == ("overlapping", "overlapping")
    assert overlapping.report_text().tables[0].headings[2:] == ("each alone", "attributed time", "share")
    row = next(each for each in overlapping.breakdown.rows if each.property == "f32 mul")
    assert row.seconds < row.count * row.weight
    assert lpp.estimate(doubled(), n=4096, fit=make_fit(weights=weights)).columns == "counts"


def test_pipelines_of_a_fit_are_busy_for_a_time_and_take_times_as_long() -> None:
    parts = Breakdown((BreakdownRow("DRAM", "load", 2e-3, 1.5, 3e-3), BreakdownRow("launches", "", 1, 4e-6, 4e-6)))
    told = lpp.Estimate("k", {"n": 1}, "d", "overlap", "executed", 3.004e-3, parts, None, (), columns="pipelines")
    lines = [line.split() for line in str(told).splitlines()]
    assert str(told).splitlines()[1].endswith("factor  attributed time  share")
    assert ["DRAM", "2", "ms", "1.5", "times", "3", "ms", "100", "%"] in lines
    assert ["launches", "1", "4", "µs", "4", "µs", "<", "1", "%"] in lines


def test_why_there_is_no_interval_is_said_of_what_was_never_fitted() -> None:
    by_simulation = lpp.estimate(doubled(), model="pipeline", **ASKED)
    assert by_simulation.interval is None
    assert "not calibrated" in by_simulation.why_no_interval
    assert "no prediction interval" in " ".join(str(by_simulation).split())


def test_what_costs_nothing_is_for_nothing() -> None:
    empty = lpp.Estimate(
        "k", {"n": 0}, "d", "m", "executed", 0.0, Breakdown((BreakdownRow("f32 mul", "", 0, 1e-9, 0.0),)), None, ()
    )
    assert empty.bound == "nothing"
    assert "all costs are 0" in str(empty)
    assert "most of it" not in str(empty)


def test_models_below_the_roofline_are_named() -> None:
    (on,) = lpp.explain(doubled(), models=["roofline", "gpumech-rr", "pipeline"], **ASKED).devices
    assert on.estimates["gpumech-rr"].seconds < on.estimates["roofline"].seconds <= on.estimates["pipeline"].seconds
    assert on.under_the_roof.startswith("gpumech-rr predicts less than the ")
    assert [name for name in on.estimates if on.is_under_the_roof(name)] == ["gpumech-rr"]
    assert on.under_the_roof.endswith("of the roofline: it does not include all effects of the roofline")
    compared = lpp.compare(doubled(), models=["roofline", "gpumech-rr", "pipeline"], **ASKED)
    assert "gpumech-rr predicts less than the " in " ".join(str(compared).split())
    assert on.under_the_roof in compared.report_text().remarks
    assert "less than" not in str(lpp.compare(doubled(), models=["gpumech-rr", "pipeline"], **ASKED))
    (alone,) = lpp.explain(doubled(), models=["roofline", "pipeline"], **ASKED).devices
    assert alone.under_the_roof == ""


def test_a_model_is_below_the_roofline_with_what_launching_takes_in_both() -> None:
    asked = {"n": 1000, "models": ["linear", "roofline"]}
    (on,) = lpp.explain(triangle(), device=["amd-r9-fury"], **asked).devices
    linear, roofline = (float(on.estimates[name]) for name in asked["models"])
    assert linear < roofline == on.least
    assert on.under_the_roof.endswith(
        "of the roofline: it does not include all effects of the roofline, and leaves out global load 32-bit stride 0"
    )
    assert on.under_the_roof in lpp.compare(triangle(), device="amd-r9-fury", **asked).report_text().remarks


def test_what_most_of_the_time_is_for_is_not_passed_over_by_advice_that_does_not_know_it() -> None:
    (on,) = lpp.explain(doubled(group=32), n=10_000_000, device="nvidia-v100", models=["pipeline"]).devices
    assert on.estimate.bound == "start"
    assert "bound by start, which GPUPerf does not model; try fewer groups that do more each" in on.beyond_advice
    (other,) = lpp.explain(doubled(group=256), n=10_000_000, device="nvidia-v100", models=["pipeline"]).devices
    assert (other.estimate.bound, other.beyond_advice) == ("DRAM", "")
