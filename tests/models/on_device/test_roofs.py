"""The data of roofline charts: roofs from device parameters, launches with flop and bytes known by hand."""

from collections.abc import Callable
from dataclasses import replace

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import MemoryLevel
from loopyperf.errors import MissingNumberError, ParameterError
from loopyperf.explain.roofline_chart import PredictedLaunch, roofline_of
from loopyperf.pipeline.timed_program import TimedLaunch
from loopyperf.units import duration, in_percent
from tests.kernels import doubled, floats, make_kernel, two_launches

V100 = lpp.load_device("nvidia-v100")
N = 2**22


def test_roofs_follow_from_the_device_parameters() -> None:
    found = lpp.roofline(doubled(), n=N, device=V100)
    cycles = V100.cores * V100.clock
    # 64 lanes of single precision, 32 of double, 16 of special functions; 4 issues of 32 lanes; L1 and local memory are
    # one pipeline of 128 B per cycle.
    assert found.peaks == pytest.approx(
        {
            "f32 multiply-adds": 2 * 64 * cycles,
            "f64 multiply-adds": 2 * 32 * cycles,
            "special functions": 16 * cycles,
            "issue limit": 2 * 4 * 32 * cycles,
        }
    )
    assert found.bandwidths["local and L1"] == pytest.approx(128 * cycles)
    # The kernel loads as much as it stores.
    assert found.bandwidths["DRAM"] == pytest.approx(V100.level("DRAM").copy_bandwidth)
    assert list(found.bandwidths) == ["local and L1", "L2", "DRAM"]


@pytest.mark.parametrize("group", [16, 256])
def test_stream_moves_eight_bytes_per_flop_through_all_levels(group: int) -> None:
    (launch,) = lpp.roofline(doubled(group=group), n=N, device=V100).launches
    # A multiplication, a load and a store of 4 bytes for each of n elements, in full warps and in half warps.
    assert launch.flops == N
    assert launch.moved == pytest.approx({"local and L1": 8 * N, "L2": 8 * N, "DRAM": 8 * N})
    assert launch.intensities == pytest.approx(dict.fromkeys(launch.moved, 1 / 8))


def test_stream_is_at_the_dram_roof() -> None:
    found = lpp.roofline(doubled(group=256), n=N, device=V100)
    (launch,) = found.launches
    assert (launch.bound, launch.roof, launch.memory) == ("DRAM", "DRAM", "DRAM")
    # The busiest core has 205 groups, the mean core 204.8; latencies are rounded to 1/64 of a cycle.
    assert launch.attainable == pytest.approx(found.bandwidths["DRAM"] / 8, rel=0.01)


def test_time_equals_the_roofline_estimate() -> None:
    found = lpp.roofline(doubled(), n=N, device=V100)
    estimate = lpp.estimate(doubled(), n=N, device=V100, model="roofline")
    assert sum(launch.seconds for launch in found.launches) + V100.launch_overhead == pytest.approx(estimate.seconds)


def sums() -> lp.TranslationUnit:
    """Return sums of a·(a + 2), a thousand times: multiply-adds on little data."""
    code = "b[i] = sum(j, a[i]*(a[i] + 2))"
    arrays = [lp.GlobalArg("a, b", np.float32, shape="n"), ...]
    known = {"name": "sums", "assumptions": "n >= 256 and n mod 256 = 0", "lang_version": (2018, 2)}
    unit = lp.make_kernel("{[i, j]: 0 <= i < n and 0 <= j < 1000}", code, arrays, **known)
    return lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.parametrize("device", ["nvidia-v100", "nvidia-a100", "amd-r9-fury"])
@pytest.mark.parametrize("build", [lambda: doubled(group=256), sums])
def test_no_launch_lies_above_its_roof(build: Callable[[], lp.TranslationUnit], device: str) -> None:
    found = lpp.roofline(build(), n=2**20, device=device)
    assert found.model == "pipeline"
    (launch,) = found.launches
    assert launch.performance == launch.flops / launch.predicted
    assert launch.attainable == launch.flops / launch.seconds
    assert launch.share == pytest.approx(launch.performance / launch.attainable)
    assert 0 < launch.share <= 1 + 1e-9
    slopes = [each * launch.intensities[memory] for memory, each in found.bandwidths.items() if memory in launch.moved]
    roofs = [*slopes, *([found.peaks[launch.roof]] if launch.roof in found.peaks else [])]
    assert launch.performance <= min(roofs) * (1 + 1e-9)


def test_compute_bound_launch_has_only_an_arithmetic_roof() -> None:
    (launch,) = lpp.roofline(sums(), n=2**20, device=V100).launches
    assert (launch.bound, launch.roof, launch.memory) == ("alu", "f32 multiply-adds", "")


def test_predicted_times_exclude_the_launch_overhead() -> None:
    device = replace(V100, launch_overhead=1e-3)
    found = lpp.roofline(two_launches(), n=2**20, device=device)
    estimate = lpp.estimate(two_launches(), n=2**20, device=device, model="pipeline")
    assert sum(launch.predicted for launch in found.launches) == pytest.approx(float(estimate) - 2e-3)


def test_predictor_replaces_device_and_simulator() -> None:
    options = {"device": "nvidia-v100", "model": "volkov"}
    found = lpp.roofline(doubled(), n=N, predictor=lpp.predictor(**options))
    assert (found.model, found.device) == ("volkov", "nvidia-v100")
    (launch,) = found.launches
    assert launch.predicted + V100.launch_overhead == pytest.approx(float(lpp.estimate(doubled(), n=N, **options)))
    assert launch.seconds == lpp.roofline(doubled(), n=N, device=V100).launches[0].seconds
    with pytest.raises(ParameterError, match="predictor= already has a device"):
        lpp.roofline(doubled(), n=N, device=V100, predictor=lpp.predictor(**options))


def test_fit_of_pipelines_predicts_launches_without_overhead() -> None:
    unit = doubled(group=256)
    (known,) = lpp.roofline(unit, n=N, device=V100).launches
    weights = {"DRAM": 2.0, "launches": 1e-2, "further launches": 1.0}
    fit = lpp.Fit(
        model="linear", device="V100", slug="nvidia-v100", counting="executed", weights=weights, basis="pipelines"
    )
    found = lpp.roofline(unit, n=N, predictor=lpp.predictor(device="nvidia-v100", fit=fit))
    # DRAM takes twice its modeled time; the fit has no other weights.
    assert found.launches[0].predicted == pytest.approx(2 * known.seconds)
    assert found.model == "linear"


def test_predictor_without_launch_times_raises() -> None:
    with pytest.raises(ParameterError, match=r"needs the time of each launch, which 'linear' does not predict"):
        lpp.roofline(doubled(), n=N, predictor=lpp.predictor(device="amd-r9-fury", model="linear"))


def test_unpredictable_launch_is_drawn_on_its_roof_with_a_note() -> None:
    def failing_model(launch: TimedLaunch) -> PredictedLaunch:
        raise MissingNumberError("latency of DRAM is unknown")

    kernel = lpp.timed_program(doubled(), n=N, device=V100)
    found = roofline_of(kernel, "pipeline", failing_model)
    (launch,) = found.launches
    assert (launch.predicted, launch.share, launch.share_in_words) == (None, None, "")
    assert launch.performance == launch.attainable > 0
    assert "doubled is drawn on its roof: 'pipeline' cannot predict it: latency of DRAM is unknown" in found.notes
    assert "without launch overhead" in found.report_text().answer
    assert "pipeline" not in found.report_text().answer


def test_negative_prediction_is_rejected_with_a_note() -> None:
    kernel = lpp.timed_program(doubled(), n=N, device=V100)
    found = roofline_of(kernel, "linear", lambda _: (-1e-3, ()))
    assert found.launches[0].predicted is None
    assert "doubled is drawn on its roof: 'linear' predicts -1 ms" in found.notes


def test_report_text_lists_predicted_times_shares_and_roofs() -> None:
    found = lpp.roofline(doubled(group=256), n=N, device=V100)
    (launch,) = found.launches
    assert launch.share_in_words == f"{100 * launch.share:.0f} % of its roof (DRAM)"
    printed = str(found)
    predicted, least = (duration(each) for each in (launch.predicted, launch.seconds))
    assert f"{predicted} predicted by pipeline, at least {least} without launch overhead" in " ".join(printed.split())
    row = next(line.split() for line in printed.splitlines() if line.startswith("  doubled"))
    assert row == ["doubled", "DRAM", "DRAM", *predicted.split(), *least.split(), *in_percent(launch.share).split()]


def test_launch_bound_by_a_resource_without_roof_is_reported() -> None:
    stream = lpp.roofline(doubled(group=256), n=N, device=V100)
    assert stream.below_all_roofs == ""
    # Lanes run down a column: each of three loads needs 16 lines, and the load/store units process one per cycle.
    rows = make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[j, i] = a[i, j] + a[i, j+1] + a[i, j+2]",
        floats("a", "n, n+2"),
        floats("b", "n, n"),
        ...,
        name="rows",
        assumptions="n mod 16 = 0 and n >= 16",
    )
    rows = lp.split_iname(rows, "i", 16, outer_tag="g.1", inner_tag="l.0")
    found = lpp.roofline(lp.split_iname(rows, "j", 16, outer_tag="g.0", inner_tag="l.1"), n=2048, device=V100)
    (launch,) = found.launches
    assert (launch.bound, launch.roof, launch.memory) == ("load/store", "", "local and L1")
    assert found.below_all_roofs == "load/store has no roof; the attainable performance of rows is below all roofs"
    slopes = [launch.intensities[memory] * each for memory, each in found.bandwidths.items()]
    assert launch.attainable < 0.9 * min(slopes)
    assert found.below_all_roofs in str(found).replace("\n    ", " ")


def test_copy_has_no_flop() -> None:
    copy = make_kernel("{[i]: 0 <= i < n}", "b[i] = a[i]", floats("a,b", "n"), ...)
    (launch,) = lpp.roofline(
        lp.split_iname(copy, "i", 256, outer_tag="g.0", inner_tag="l.0"), n=N, device=V100
    ).launches
    assert (launch.flops, launch.performance, launch.attainable) == (0, 0, 0)


def without_bandwidth(level: MemoryLevel) -> MemoryLevel:
    return replace(level, bandwidth=None, sustained_bandwidth=None, bandwidth_per_core=None)


def test_unknown_bandwidth_is_assumed_from_a_related_device() -> None:
    device = replace(V100, memory=tuple(without_bandwidth(x) if x.name == "L2" else x for x in V100.memory))
    found, known = (lpp.roofline(doubled(), n=N, device=each) for each in (device, V100))
    assert found.bandwidths["L2"] == pytest.approx(known.bandwidths["L2"])
    (reported,) = (note for note in found.notes if "L2" in note)
    assert reported.startswith("assumed throughputs of nvidia-v100: L2 2.45 TB/s (2.7 times")
