"""The pipeline model on kernels of known time: bound by a bandwidth, a throughput or a latency."""

from dataclasses import replace
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.models import pipeline
from loopyperf.models.traffic import apportioned
from loopyperf.stages.cache import CACHE
from tests.profiles import timed_on

V100 = lpp.load_device("nvidia-v100")
CORES, CLOCK = 80, 1.38e9


def kernel(
    domain: str | list[str], code: str, *arguments: Any, group: int = 256, dtype: Any = np.float32
) -> lp.TranslationUnit:
    """Return a kernel of *code* with ``i`` split into groups."""
    unit = lp.make_kernel(domain, code, [*arguments, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    unit = lp.add_and_infer_dtypes(unit, dict.fromkeys(("a", "b"), dtype)) if not arguments else unit
    return lp.split_iname(unit, "i", group, outer_tag="g.0", inner_tag="l.0")


def seconds(unit: lp.TranslationUnit, device: Device | str = V100, **sizes: int) -> float:
    return float(lpp.estimate(unit, model="pipeline", device=device, **sizes))


def simulate_less(monkeypatch: pytest.MonkeyPatch, issues: int) -> None:
    """Limit the simulation to parts of about *issues* instructions, never the whole, and clear the cache."""
    monkeypatch.setattr(pipeline, "MAX_SIMULATED", 0)
    monkeypatch.setattr(pipeline, "SHORTENED_ISSUES", issues)
    CACHE.clear()
    seconds(kernel("{[i]: 0<=i<n}", "b[i] = a[i]", *_arrays("n")), n=1)  # the stages of the latest kernel are kept


# {{{ what bounds a kernel


def test_large_copy_is_bound_by_dram_bandwidth() -> None:
    # 2 · 4 bytes for each of 2^26 elements at the 809 GB/s of copying.
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i]", *_arrays("n"))
    estimate = lpp.estimate(unit, model="pipeline", device=V100, n=2**26)
    assert float(estimate) == pytest.approx(8 * 2**26 / 809e9, rel=0.03)
    assert estimate.bound == "DRAM"


def test_data_that_fit_into_l2_do_not_come_from_dram() -> None:
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i] + a[i+1]", *_arrays("n + 1"))
    small, large = (seconds(unit, replace(V100, launch_overhead=0.0), n=n) for n in (2**18, 2**26))
    assert small < large / 2**8 * 1.5


def test_long_sums_are_bound_by_arithmetic() -> None:
    # 2048 multiply-adds per work-item: 64 per cycle and core.
    code = "b[i] = reduce(sum, k, a[i]*1.5f) {id=sum}"
    unit = kernel("{[i,k]: 0<=i<n and 0<=k<2048}", code, *_arrays("n"))
    estimate = lpp.estimate(unit, model="pipeline", device=V100, n=2**18)
    additions = 2**18 * 2048 / (64 * CORES * CLOCK)
    assert additions <= float(estimate) <= 1.6 * additions  # the rest is loop control
    assert estimate.bound.startswith("alu")


def test_nested_loops_are_shortened_to_limit_simulated_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    # 7^5 reductions of 8 terms by one work-item; 20,000 instructions cover only a few iterations of the outer loops.
    domain = "{[i,c,d,e,f,g,k]: 0 <= i < 32 and 0 <= c,d,e,f,g < 7 and 0 <= k < 8}"
    unit = kernel(domain, "b[i,c,d,e,f,g] = sum(k, a[k,c,d]*a[e,f,k])", group=32)
    issued: list[int] = []
    monkeypatch.setattr(pipeline, "simulated", counting_issues(pipeline.simulated, issued))
    whole = seconds(unit)
    all_issued = sum(issued)
    simulate_less(monkeypatch, 20_000)
    issued.clear()
    assert seconds(unit) == pytest.approx(whole, rel=0.015)
    assert sum(issued) < 0.25 * all_issued


def counting_issues(simulate: Any, issued: list[int]) -> Any:
    def counted(*arguments: Any, **options: Any) -> Any:
        issued.append((found := simulate(*arguments, **options)).instructions)
        return found

    return counted


def test_dependent_loads_of_one_warp_take_their_latencies() -> None:
    # A chain of 100 loads, each from a different line: 100 latencies of memory.
    code = "<> t = 0 {id=start}\n for k\n t = m[32*t + k] {id=chase,dep=start}\n end\n b[i] = t {dep=chase}"
    index = lp.GlobalArg("m", np.int32, shape=(2**24,))
    unit = kernel("{[i,k]: 0<=i<32 and 0<=k<100}", code, index, lp.GlobalArg("b", np.int32, shape=(32,)), group=32)
    cycles = seconds(unit, replace(V100, launch_overhead=0.0)) * CLOCK
    assert 100 * 212 <= cycles <= 100 * 480


# }}}


# {{{ launches, grids, warp classes


def test_time_grows_in_steps_of_full_waves() -> None:
    # Groups of 1024: two per core. 160 of them are one wave of all cores, 161 start a second one.
    code = "b[i] = reduce(sum, k, a[i]*1.5f)"
    unit = kernel("{[i,k]: 0<=i<n and 0<=k<2000}", code, *_arrays("n"), group=1024)
    within, whole, more = (seconds(unit, n=1024 * groups) for groups in (81, 160, 161))
    assert within == pytest.approx(whole, rel=0.01)
    assert more > 1.4 * whole


def test_extrapolated_grid_is_close_to_the_fully_simulated_one(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i]*a[i]", *_arrays("n"))
    whole = seconds(unit, n=2**22)
    simulate_less(monkeypatch, 10_000)
    assert seconds(unit, n=2**22) != whole
    assert seconds(unit, n=2**22) == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize(("code", "order"), [("k, a[i]*b[k]", ""), ("[j,k], a[i]*b[k + 100*j]", "j,k")])
def test_group_with_many_iterations_is_extrapolated_from_fewer(
    monkeypatch: pytest.MonkeyPatch, code: str, order: str
) -> None:
    domain = "{[i,j,k]: 0<=i<n and 0<=j<300 and 0<=k<m}"
    arrays = lp.GlobalArg("a,b,c", np.float32, shape="n + m + 30000")
    unit = kernel(domain, f"c[i] = sum({code})", arrays)
    unit = lp.prioritize_loops(unit, order) if order else unit
    sizes = {"n": 2**14, "m": 1000}
    whole = seconds(unit, **sizes)
    simulate_less(monkeypatch, 10_000)
    assert seconds(unit, **sizes) != whole
    assert seconds(unit, **sizes) == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize("group", [64, 256])
@pytest.mark.parametrize("summed", ["a[k]*a[k + 1]", "1.5f*a[i]*a[i]"])
def test_many_warp_classes_are_extrapolated_from_all_of_them(
    monkeypatch: pytest.MonkeyPatch, summed: str, group: int
) -> None:
    unit = kernel("{[i,k]: 0<=i<n and 0<=1000*k<=i}", f"b[i] = sum(k, {summed})", *_arrays("n + 2"), group=group)
    whole = seconds(unit, n=2**19)
    simulate_less(monkeypatch, 20_000)
    less = lpp.estimate(unit, model="pipeline", device=V100, n=2**19)
    assert float(less) == pytest.approx(whole, rel=0.15)
    busiest = [row for row in less.breakdown.rows if row.property == less.bound]
    assert sum(float(row.seconds) for row in busiest) == pytest.approx(
        sum(float(row.count) * float(row.weight) for row in busiest)
    )


def test_launch_takes_at_least_as_long_as_its_longest_warp() -> None:
    domains = ["{[i]: 0<=i<n}", "[i] -> {[k]: 0<=k<=1000-4*i}"]
    unit = kernel(domains, "b[i] = sum(k, a[k])", *_arrays("n + 1001"))
    # Only the first of 256 groups has terms to sum: 1001 dependent additions of 4 cycles each.
    assert seconds(unit, n=2**16) >= 1001 * 4 / CLOCK


def test_times_of_launches_add_up() -> None:
    code = "b[i] = 2*a[i] {id=one}\n ... gbarrier {id=all,dep=one}\n c[j] = 3*b[j] {dep=all}"
    arrays = lp.GlobalArg("a,b,c", np.float32, shape="n")
    both = lp.make_kernel("{[i,j]: 0<=i,j<n}", code, [arrays, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    for name in "ij":
        both = lp.split_iname(both, name, 256, outer_tag="g.0", inner_tag="l.0")
    estimate = lpp.estimate(both, model="pipeline", device=V100, n=2**22)
    launches = {row.source for row in estimate.breakdown.rows if row.source.startswith("launch")}
    assert len(launches) == 2
    one = seconds(kernel("{[i]: 0<=i<n}", "b[i] = 2*a[i]", *_arrays("n")), n=2**22)
    assert float(estimate) == pytest.approx(2 * one, rel=0.01)


def test_shared_out_uses_the_largest_remainder_method() -> None:
    assert apportioned(8, [1, 1, 1]) == [3, 3, 2]
    assert apportioned(8, [1000, 1]) == [8, 0]


# }}}


def _arrays(length: str) -> tuple[Any, ...]:
    return (lp.GlobalArg("a,b", np.float32, shape=length),)


def test_registers_depend_on_the_device() -> None:
    # 60 live values, groups of 768. A Fermi core has 32,768 registers, 40 per work-item; a Volta core, twice as many.
    loads = "\n".join(f"<> v{number} = x[i + {number}*n]" for number in range(60))
    total = " + ".join(f"v{number}*v{7 * number % 60}" for number in range(60))
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"{loads}\ny[i] = {total}",
        [lp.GlobalArg("x", np.float32, shape="60*n"), lp.GlobalArg("y", np.float32, shape="n"), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 768, outer_tag="g.0", inner_tag="l.0")
    graphs = lpp.kernel_profile(unit, n=768)
    fermi, volta = (timed_on(graphs, lpp.load_device(name)).launches[0].registers for name in ("tesla-c2050", "v100"))
    assert fermi == 40
    assert 63 < volta <= 80
