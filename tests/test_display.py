"""Display of results in terminals and notebooks: well-formed and escaped HTML, and short text."""

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import Prediction
from loopyperf.calibration.fits import ResidualSummary
from loopyperf.calibration.residual_model import Record, Score, TrainingRecord
from loopyperf.device.description import Throughput
from loopyperf.device.device_library import bundled_fits
from loopyperf.display import Shown
from loopyperf.errors import LoopyperfError, unanswered
from loopyperf.idg import Idg
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime
from loopyperf.predict.counters import ComparedCounter
from loopyperf.predict.validate import Validation
from tests.explain.pages.report_kernels import two_launches
from tests.kernels import doubled, triangle

V100 = {"device": "nvidia-v100"}


@cache
def estimate() -> lpp.Estimate:
    return lpp.estimate(doubled(), n=1_000_000, device="amd-r9-fury")


def batch() -> lpp.Estimate:
    return lpp.estimate(doubled(), n=np.array([16, 1_000_000]), device="amd-r9-fury")


@cache
def ranking() -> lpp.Ranking:
    variants = {f"<b>{group} & more": doubled(group=group) for group in (1, 64, 4096)}
    return lpp.rank(variants, n=4096, model="roofline", **V100)


def long_ranking() -> lpp.Ranking:
    """Return a ranking of 2,000 variants that take 1, 2, ... 2,000 µs."""
    one = ranking().estimates[ranking().best]
    estimates = {f"variant {place}": replace(one, seconds=1e-6 * place) for place in range(1, 2001)}
    return replace(ranking(), estimates=estimates, variants=dict.fromkeys(estimates), failures={})


def fit() -> lpp.Fit:
    return lpp.Fit(
        model="linear",
        device="Made <Up> & Co",
        slug="made-up",
        counting="executed",
        weights={"f32 mul": 4e-11, "launches": 2e-6},
        ranges={"launches": (1.0, 8.0)},
        residual_summary=ResidualSummary(geometric_mean=0.2, root_mean_square=0.3, worst=1.0),
        source="a < b",
    )


def learned() -> lpp.ResidualModel:
    return lpp.ResidualModel(
        Record(
            model="learned",
            device="Made Up",
            slug="made-up",
            counting="executed",
            base="overlap",
            recipe="svr",
            parameters={"C": 1.0, "gamma": 0.1, "epsilon": 0.02},
            told=("groups",),
            amounts=(),
            scores={"base": Score(0.3, 0.0), "svr": Score(0.1, 0.7)},
            errors=(0.1,),
            rows=tuple(TrainingRecord(name, "", 1e-3, 0.1, (1.0,)) for name in ("one", "two")),
            source="a < b",
        )
    )


def counted() -> lpp.CountersComparison:
    predicted = lpp.counters(doubled(), n=4096, **V100)
    pairs = (("a < b", 1.0, 1.0), ("c", 1.0, 0.8))
    return lpp.CountersComparison(predicted, tuple(ComparedCounter("doubled", *each) for each in pairs), ())


def plain_graph() -> Idg:
    return Idg.from_edges(["comp", "mem<"], [(0, 1)], trips=1000)


def grouped(group: int) -> lp.TranslationUnit:
    return doubled(group=group)


SHOWN: dict[str, tuple[Callable[[], object], list[str]]] = {
    # 62,500 groups at 3.75 ns each, by the fit's weights
    "an estimate": (estimate, ["doubled(n=1000000) on amd-r9-fury", "62,500", "3.75 ns", "234 µs"]),
    "an estimate of an array": (batch, ["doubled(n=16..1000000)", "1 to 62,500"]),
    "counts": (lambda: lpp.count(doubled()), ["doubled, executed counting", "f32 mul", "$n$"]),
    "a ranking": (ranking, ["3 variants", "<b>64 & more", "4096 work-items does not fit on a core"]),
    "a long ranking": (long_ranking, ["variant 9", "1,988 rows omitted", "variant 1998", "2 ms"]),
    "a fit": (fit, ["Made <Up> & Co", "40 ps", "2 µs", "8", "source: a < b"]),
    "a fit of the library": (
        lambda: lpp.load_fit(bundled_fits() / "amd-r9-fury" / "linear.json"),
        ["AMD Radeon R9 Fury", "8.27 ps"],
    ),
    "a device": (lambda: lpp.load_device("nvidia-v100"), ["nvidia-v100", "80 cores", "issue_limit"]),
    "a graph": (plain_graph, ["mem<", "1,000", "1 loop"]),
    "graphs of a kernel": (lambda: lpp.instruction_graph(triangle(), n=100), ["triangle", "launch", "load b32"]),
    "a comparison": (
        lambda: lpp.compare(doubled(), n=4096, models=["roofline", "linear"], **V100),
        ["roofline", "cycles", "no prediction: linear: no fit for device 'nvidia-v100'"],
    ),
    "a comparison over the occupancy": (
        lambda: lpp.compare_occupancies(doubled(), n=4096, models=["roofline", "linear"], **V100),
        ["warps", "32", "no prediction: linear: does not depend on the number of resident groups"],
    ),
    "a validation": (
        lambda: Validation(
            (Prediction("a < b", {"n": 1}, 1.1e-3, 1e-3, (1e-3, 2e-3)), Prediction("c", {"n": 1}, 1e-3, 2e-3)),
            (),
            "made-up",
            "linear",
            fit(),
            0.024,
            None,
            {"d": "no weights for f64 add; calibrate"},
        ),
        [
            "2 measurements on made-up, model linear",
            "a < b",
            "10 %",
            "50 %",
            "noise floor: 2.4 %",
            "no prediction: d: no weights",
        ],
    ),
    "advice": (
        lambda: lpp.advise(two_launches(), n=4096, **V100),
        ["chain(n=4096) on nvidia-v100, model pipeline", "dominated by launch", "do more work per launch"],
    ),
    "roofs": (
        lambda: lpp.roofline(two_launches(), n=4096, **V100),
        ["2 launches", "flop/B, DRAM", "chain_0", "809 GB/s", "14.1 Tflop/s"],
    ),
    "bounds of throughput": (
        lambda: lpp.throughput_bounds(doubled(), **V100),
        ["80 cores of nvidia-v100", "DRAM", "$"],
    ),
    "a trace": (
        lambda: lpp.trace(doubled(), n=4096, events=500, **V100),
        ["doubled(n=4096) on nvidia-v100", "launch", "cycles"],
    ),
    "a launch of a trace": (
        lambda: lpp.trace(doubled(), n=4096, events=500, **V100).launches[0],
        ["doubled, one core executing", "busy", "dependency", "stall reason", "alu 1", "integer 3"],
    ),
    "what a core did": (
        lambda: lpp.trace(doubled(), n=4096, events=500, **V100).launches[0].profile,
        ["one core executing", "cycles", "issue limit", "warp cycles", "idle, by stall reason"],
    ),
    "counters beside a profile": (
        counted,
        ["2 metrics, predicted and measured", "+25.0%"],
    ),
    "a search": (
        lambda: lpp.search(grouped, {"group": (16, 32, 4096)}, n=4096, model="roofline", **V100),
        ["3 of 3 points by exhaustive (n=4096)", "group=16", "no prediction: group=4096: ", "4096 work-items"],
    ),
    "an explanation": (
        lambda: lpp.explain(doubled(), n=4096, device=["nvidia-v100", "<nobody's> & co"], models=["roofline"]),
        ["NVIDIA Tesla V100", "share of peak", "no prediction: <nobody's> & co: no device called"],
    ),
    "an explanation of one device": (
        lambda: lpp.explain(doubled(), n=4096, models=["roofline", "sampled"], **V100).devices[0],
        ["on NVIDIA Tesla V100 PCIe", "no prediction: sampled: this model executes part"],
    ),
    "a difference": (
        lambda: lpp.diff(doubled(), doubled(group=64), n=2**22, **V100),
        ["doubled(n=4194304) on nvidia-v100", "before", "groups", "65,536", "rows with differences below 1 %"],
    ),
    "a report": (
        lambda: lpp.report(doubled(), n=4096, models=["roofline"], **V100),
        ["doubled(n=4096)", "share of peak", "save(path)"],
    ),
    "a split": (
        lambda: lpp.split(doubled(), n=16_000, devices=["nvidia-v100", "nvidia-titan-v"], model="roofline"),
        ["1,000 groups", "nvidia-titan-v", "%"],
    ),
    "a learned model": (
        learned,
        ["svr on overlap", "2 measurements of 2 classes", "30.0 %", "70 %", "a < b"],
    ),
}
"""name -> function that makes the result, and texts that its display contains"""


def test_html_is_a_well_formed_table_with_the_figures(subtests: pytest.Subtests) -> None:
    for name, (make, words) in SHOWN.items():
        with subtests.test(name=name):
            page = ElementTree.fromstring(make()._repr_html_())
            assert [table.tag for table in page.iter("table")]
            read = " ".join("".join(page.itertext()).split())
            assert [word for word in words if word not in read] == []


def test_html_sets_alignment_but_no_colors(subtests: pytest.Subtests) -> None:
    for name, (make, _) in SHOWN.items():
        with subtests.test(name=name):
            html = make()._repr_html_()
            flush = set(re.findall(r'style="([^":]*): ([^"]*)"', html))
            assert {value for name, value in flush if name == "text-align"} <= {"left", "right"}
            assert {name for name, _ in flush} <= {"text-align", "margin", "margin-left"}
            assert re.findall(r"<style|color|background", html) == []


def test_repr_is_one_line_and_str_is_short(subtests: pytest.Subtests) -> None:
    for name, (make, _) in SHOWN.items():
        with subtests.test(name=name):
            answer = make()
            assert re.fullmatch(rf"<{type(answer).__name__} .*>|<{type(answer).__name__}: .*>", repr(answer))
            assert len(repr(answer)) < 250
            assert len(str(answer).splitlines()) < 30
            assert len(str(answer)) < 3000


def test_report_texts_fit_into_80_columns(subtests: pytest.Subtests) -> None:
    for name, (make, words) in SHOWN.items():
        with subtests.test(name=name):
            answer = make()
            if isinstance(answer, Shown):
                assert max(map(len, str(answer).splitlines())) <= 80
                read = " ".join(str(answer).split())
                assert [word for word in words if "$" not in word and word not in read] == []


def test_device_prints_its_main_parameters_and_html_has_all() -> None:
    v100 = lpp.load_device("nvidia-v100")
    printed, page = str(v100), "".join(ElementTree.fromstring(v100._repr_html_()).itertext())
    assert "1,380 MHz" in printed
    assert f"{len(v100.table.rows)} numbers in total: see .table" in " ".join(printed.split())
    assert [row[0] for row in v100.table.rows if row[0] not in page] == []
    assert "memory.L2.size" not in printed
    assert repr(v100) == "<Device nvidia-v100: NVIDIA Tesla V100 PCIe, Volta, 80 cores, 1,380 MHz>"


def test_common_reason_is_printed_once_for_all_models() -> None:
    v100 = lpp.load_device("nvidia-v100")
    without = replace(v100, throughput=Throughput(slug=v100.slug, place="throughput"))
    bare = lpp.compare(doubled(), n=4096, device=without)
    assert len(bare.refusals) == 16
    text = " ".join(str(bare).split())
    assert text.count("lacks throughput.f32") == 1
    assert all(name in text for name in bare.refusals)
    assert len(str(bare).splitlines()) <= 17


def test_thousands_of_failures_are_summarized() -> None:
    (sentence,) = unanswered({f"variant {place}": "it is wrong; mend it" for place in range(2000)})
    assert sentence.endswith("variant 19 and 1,980 more: it is wrong")


def test_repr_of_estimate_computes_the_breakdown_once() -> None:
    # The repr shows whether the time is complete, which needs the breakdown; it is computed on first use only.
    executed: list[str] = []

    def why() -> ModelTime:
        executed.append("why")
        rows = (BreakdownRow("adds", "", 1, 1e-3, 1e-3),)
        return ModelTime(1e-3, Breakdown(rows), left_out=("f32 pow", "barriers", "launches"))

    later = lpp.Estimate.explained_later("k", {"n": 1}, "d", "m", "executed", 1e-3, why)
    assert (float(later), executed) == (1e-3, [])
    output = "k(n=1) on d, model m: at least 1 ms (without f32 pow, barriers and 1 more), bound by adds"
    assert repr(later) == f"<Estimate {output}>"
    assert (repr(later), executed) == (repr(later), ["why"])


def estimate_of(*seconds: float) -> lpp.Estimate:
    """Return an estimate whose parts take *seconds*."""
    rows = tuple(BreakdownRow(f"part {number}", "", 1, each, each) for number, each in enumerate(seconds))
    return lpp.Estimate("k", {"n": 1}, "d", "m", "executed", sum(seconds), Breakdown(rows))


def shown_parts(answer: lpp.Estimate) -> list[list[str]]:
    return [[row[0], *row[-2:]] for row in answer.report_text().tables[-1].rows]


def test_estimate_shows_small_parts_in_one_row() -> None:
    few = estimate_of(1.0, 2e-3, 3e-3, -1e-3)
    # 1 s, and 4 ms of 1.004 s
    assert shown_parts(few) == [["part 0", "1 s", "100 %"], ["3 others", "4 ms", "< 1 %"]]
    assert [row.property for row in few.breakdown.rows] == [f"part {number}" for number in range(4)]
    assert len(few.to_dict()["breakdown"]) == 4
    # -1 s of 1 s is not small
    assert shown_parts(estimate_of(2.0, -1.0)) == [["part 0", "2 s", "200 %"], ["part 1", "-1 s", "-100 %"]]
    assert [share for *_, share in shown_parts(estimate_of(1.0, -2.0))] == ["", ""]


def test_batch_shows_parts_that_are_large_at_one_size() -> None:
    sizes, large = np.array([1, 2]), np.array([1.0, 1e-3])
    rows = tuple(
        BreakdownRow(f"part {number}", "", sizes, None, each * sizes**0)
        for number, each in enumerate((large, 1e-4, 1e-5))
    )
    found = lpp.Estimate("k", {"n": sizes}, "d", "m", "executed", large + 1.1e-4, Breakdown(rows))
    assert [row[0] for row in found.report_text().tables[-1].rows] == ["part 0", "part 1", "part 2"]
    assert shown_parts(found)[1] == ["part 1", "100 µs", "< 1 % to 9 %"]


def test_records_are_numbers_in_base_units_that_add_up() -> None:
    one, several = estimate(), batch()
    assert sum(row["seconds"] for row in one.records()) == pytest.approx(float(one))
    assert sum(row["share"] for row in one.records()) == pytest.approx(1)
    rows = several.records()
    for n, seconds in zip((16, 1_000_000), several.seconds, strict=True):
        assert sum(row["seconds"] for row in rows if row["n"] == n) == pytest.approx(seconds)
    assert [row["variant"] for row in ranking().records()] == list(ranking().order)


def test_a_notebook_shows_all_counters() -> None:
    found = lpp.counters(doubled(), n=4096, **V100)
    page = ElementTree.fromstring(found._repr_html_())
    read = "".join(page.itertext())
    assert [metric for metric in found.launches[0].values if metric not in read] == []
    assert found.records()[0].keys() == {"launch", "metric", "value", "unit"}
    assert len(found.records()) == len(found.launches[0].values)


TABULAR: dict[str, list[str]] = {
    "an estimate": ["property", "source", "count", "weight", "seconds", "share"],
    "an estimate of an array": ["n", "property", "source", "count", "weight", "seconds", "share"],
    "a ranking": ["place", "variant", "seconds", "low", "high", "bound"],
    "a comparison": ["model", "seconds", "cycles", "bound"],
    "a comparison over the occupancy": ["model", "concurrent_groups", "warps", "seconds"],
    "counters beside a profile": ["launch", "metric", "predicted", "counted", "error"],
    "a validation": ["kernel", "n", "measured", "predicted", "low", "high", "error"],
}
"""name of a result -> columns of its data frame"""
FLOATS = ("seconds", "share", "measured", "value", "counted")


@pytest.mark.parametrize(("what", "columns"), TABULAR.items(), ids=TABULAR)
def test_a_data_frame_has_the_records(what: str, columns: list[str]) -> None:
    pytest.importorskip("pandas")
    answer = SHOWN[what][0]()
    frame = answer.to_dataframe()
    assert list(frame.columns) == columns
    assert len(frame) == len(answer.records()) > 0
    assert {kind.kind for name, kind in frame.dtypes.items() if name in FLOATS} == {"f"}


def test_error_without_pandas_shows_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(LoopyperfError, match=r"pip install 'loopyperf\[dataframe\]'"):
        estimate().to_dataframe()


def test_estimate_imports_no_display_libraries() -> None:
    executed = (
        "import sys; sys.path.insert(0, 'tests'); import loopyperf as lpp; from tests.kernels import doubled; "
        "print(lpp.estimate(doubled(), n=16, device='nvidia-v100')); print(*sys.modules)"
    )
    root = Path(__file__).parents[1]
    output = subprocess.run(
        [sys.executable, "-c", executed], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert {"pandas", "rich", "tqdm", "IPython"} & set(output.splitlines()[-1].split()) == set()


def test_graph_without_loops_lists_executed_instructions() -> None:
    graph = Idg.from_edges(["comp", "comp", "mem"], [(0, 1), (1, 2)])
    assert str(graph).splitlines() == [
        "per warp: 3 instructions, 2 edges; 3 instructions executed",
        "  instruction  pipeline  executions per warp",
        "  comp         comp                        2",
        "  mem          mem                         1",
    ]


def test_graph_may_have_fractional_executions() -> None:
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        "out[i] = a[i] * 2 {if=a[i] > 0, id=positive}",
        [lp.GlobalArg("a,out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")
    graph = lpp.instruction_graph(unit, n=64, typical={"positive": 0.25})
    # The condition holds in a quarter of the cases; then a load and a store are executed.
    assert ["store", "b32", "global", "0.25"] in [line.split() for line in str(graph).splitlines()]
    assert "0.25" in "".join(ElementTree.fromstring(graph._repr_html_()).itertext())


def test_unit_cost_is_shown_if_it_is_uniform():
    alone = lpp.estimate(two_launches(), n=4096, model="pipeline", **V100)
    (ranked,) = lpp.rank({"one": two_launches()}, n=4096, model="pipeline", **V100).estimates.values()
    each = {cost.property: cost.each for cost in alone.breakdown.costs()}
    assert {cost.property: cost.each for cost in ranked.breakdown.costs()} == each
    assert None in each.values()
    both = lpp.estimate(two_launches(), n=np.array([4096, 4096]), model="pipeline", **V100)
    assert {cost.property: cost.each for cost in both.breakdown.costs()} == each
    assert "0 s" not in lpp.estimate(two_launches(), n=np.array([4096, 8192]), model="pipeline", **V100)._repr_html_()
