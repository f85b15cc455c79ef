"""The pipeline model on kernels whose time is known: by a bandwidth, by a throughput, by a latency."""

from dataclasses import replace
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import Device, Throughput
from loopyperf.errors import MissingNumberError, OccupancyError, UnknownDeviceError
from loopyperf.models import pipeline
from loopyperf.models.traffic import shared_out
from loopyperf.stages import cache as recent
from loopyperf.stages.stages import staged
from tests.kernels import doubled

V100 = lpp.load_device("nvidia-v100")
CORES, CLOCK = 80, 1.38e9


def kernel(
    domain: str | list[str], code: str, *arguments: Any, group: int = 256, dtype: Any = np.float32
) -> lp.TranslationUnit:
    """Return a kernel of *code*, of which ``i`` is split into groups."""
    unit = lp.make_kernel(domain, code, [*arguments, ...], lang_version=(2018, 2), target=lp.PyOpenCLTarget())
    unit = lp.add_and_infer_dtypes(unit, dict.fromkeys(("a", "b"), dtype)) if not arguments else unit
    return lp.split_iname(unit, "i", group, outer_tag="g.0", inner_tag="l.0")


def seconds(unit: lp.TranslationUnit, device: Device | str = V100, **sizes: int) -> float:
    return float(lpp.estimate(unit, model="pipeline", device=device, **sizes))


def simulate_less(monkeypatch: pytest.MonkeyPatch, issues: int) -> None:
    """Let parts of about so many *issues* be simulated, never all, and forget what was answered so far."""
    monkeypatch.setattr(pipeline, "MOST", 0)
    monkeypatch.setattr(pipeline, "ISSUES", issues)
    recent.clear_memory()
    seconds(kernel("{[i]: 0<=i<n}", "b[i] = a[i]", *_arrays("n")), n=1)  # of the latest kernel the stages are kept


# {{{ what bounds a kernel


def test_a_copy_of_a_large_array_takes_what_memory_takes() -> None:
    # 2 · 4 bytes for each of 2^26 elements at the sustained 869 GB/s.
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i]", *_arrays("n"))
    estimate = lpp.estimate(unit, model="pipeline", device=V100, n=2**26)
    assert float(estimate) == pytest.approx(8 * 2**26 / 869e9, rel=0.03)
    assert estimate.bound == "DRAM"


def test_a_copy_that_fits_into_the_second_cache_does_not_come_from_memory() -> None:
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i] + a[i+1]", *_arrays("n + 1"))
    small, large = seconds(unit, n=2**18), seconds(unit, n=2**26)
    assert small < large / 2**8 * 1.5


def test_polynomials_take_what_arithmetic_takes() -> None:
    # 2048 multiply-adds by each work-item: 64 a cycle and core.
    code = "b[i] = reduce(sum, k, a[i]*1.5f) {id=sum}"
    unit = kernel("{[i,k]: 0<=i<n and 0<=k<2048}", code, *_arrays("n"))
    estimate = lpp.estimate(unit, model="pipeline", device=V100, n=2**18)
    additions = 2**18 * 2048 / (64 * CORES * CLOCK)
    assert additions <= float(estimate) <= 1.6 * additions  # loop control has its share
    assert estimate.bound.startswith("alu")


def test_loops_within_loops_are_shortened_until_few_instructions_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    # 7^5 passes of a reduction of 8 by one work-item; 20,000 instructions have room for few of the outer levels.
    domain = "{[i,c,d,e,f,g,k]: 0 <= i < 32 and 0 <= c,d,e,f,g < 7 and 0 <= k < 8}"
    unit = kernel(domain, "b[i,c,d,e,f,g] = sum(k, a[k,c,d]*a[e,f,k])", group=32)
    made: list[int] = []
    monkeypatch.setattr(pipeline, "simulated", counting_issues(pipeline.simulated, made))
    whole = seconds(unit)
    everything = sum(made)
    simulate_less(monkeypatch, 20_000)
    made.clear()
    assert seconds(unit) == pytest.approx(whole, rel=0.015)
    assert sum(made) < 0.25 * everything


def counting_issues(simulate: Any, made: list[int]) -> Any:
    def counted(*arguments: Any, **options: Any) -> Any:
        made.append((found := simulate(*arguments, **options)).instructions)
        return found

    return counted


def test_one_warp_waits_for_each_load() -> None:
    # A chain of 100 loads, each of a line of its own: 100 latencies of memory.
    code = "<> t = 0 {id=start}\n for k\n t = m[32*t + k] {id=chase,dep=start}\n end\n b[i] = t {dep=chase}"
    index = lp.GlobalArg("m", np.int32, shape=(2**24,))
    unit = kernel("{[i,k]: 0<=i<32 and 0<=k<100}", code, index, lp.GlobalArg("b", np.int32, shape=(32,)), group=32)
    cycles = seconds(unit) * CLOCK
    assert 100 * 212 <= cycles <= 100 * 480


# }}}


# {{{ launches, grids, kinds of warps


def test_times_grow_in_steps_of_full_devices() -> None:
    # Groups of 1024: two a core. 160 of them are one wave of all cores, 161 begin a second one.
    code = "b[i] = reduce(sum, k, a[i]*1.5f)"
    unit = kernel("{[i,k]: 0<=i<n and 0<=k<2000}", code, *_arrays("n"), group=1024)
    within, whole, more = (seconds(unit, n=1024 * groups) for groups in (81, 160, 161))
    assert within == pytest.approx(whole, rel=0.01)
    assert more > 1.4 * whole


def test_an_extrapolated_grid_is_near_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = kernel("{[i]: 0<=i<n}", "b[i] = a[i]*a[i]", *_arrays("n"))
    whole = seconds(unit, n=2**22)
    simulate_less(monkeypatch, 10_000)
    assert seconds(unit, n=2**22) != whole
    assert seconds(unit, n=2**22) == pytest.approx(whole, rel=0.02)


@pytest.mark.parametrize(("code", "order"), [("k, a[i]*b[k]", ""), ("[j,k], a[i]*b[k + 100*j]", "j,k")])
def test_a_group_with_many_passes_is_extrapolated_from_fewer(
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
def test_groups_of_many_kinds_are_extrapolated_from_all_kinds(
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


def test_a_launch_takes_no_less_than_its_longest_warp() -> None:
    domains = ["{[i]: 0<=i<n}", "[i] -> {[k]: 0<=k<=1000-4*i}"]
    unit = kernel(domains, "b[i] = sum(k, a[k])", *_arrays("n + 1001"))
    # Only the first of 256 groups has anything to sum: 1001 additions, one after the other, of 4 cycles each.
    assert seconds(unit, n=2**16) >= 1001 * 4 / CLOCK


def test_launches_add_up() -> None:
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


def test_parts_are_shared_by_the_largest_remainders() -> None:
    assert shared_out(8, [1, 1, 1]) == [3, 3, 2]
    assert shared_out(8, [1000, 1]) == [8, 0]


# }}}


# {{{ what is refused


def test_a_group_that_fits_on_no_core_is_refused() -> None:
    with pytest.raises(OccupancyError, match="2,048 work-items, at most 1,024"):
        seconds(doubled(group=2048), n=2**20)


def test_a_number_that_nobody_published_and_that_is_never_assumed_is_named() -> None:
    bare = replace(V100, throughput=Throughput(slug=V100.slug, place="throughput"))
    with pytest.raises(MissingNumberError, match=r"lacks throughput\.f32"):
        lpp.estimate(doubled(), model="pipeline", device=bare, n=2**20)


def test_a_device_that_is_not_described_is_refused() -> None:
    with pytest.raises(UnknownDeviceError, match="nearest: "):
        seconds(doubled(), "nvidia-v1000", n=2**20)


# }}}


def test_the_same_kernel_takes_the_same_time() -> None:
    unit = doubled(group=256)
    assert seconds(unit, n=2**20) == seconds(unit, n=2**20)


def test_what_is_not_known_is_said() -> None:
    notes = lpp.estimate(doubled(group=256), model="pipeline", device=V100, n=2**20).notes
    assert any("launch overhead of nvidia-v100 is unknown" in note for note in notes)


def _arrays(length: str) -> tuple[Any, ...]:
    return (lp.GlobalArg("a,b", np.float32, shape=length),)


def test_registers_are_those_of_the_device() -> None:
    # 60 values at once, in groups of 768: a Fermi has 32,768 registers, 40 for each, and a Volta twice as many.
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
    fermi, volta = (
        staged(graphs, lpp.load_device(name)).timed.launches[0].registers for name in ("tesla-c2050", "v100")
    )
    assert fermi == 40
    assert 63 < volta <= 80
