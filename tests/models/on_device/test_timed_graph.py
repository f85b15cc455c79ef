"""Machine graphs on the pipelines of a device: an access uses the pipeline of each level that it reaches."""

from dataclasses import replace

import loopy as lp
import pytest

import loopyperf
from loopyperf.device import description as described
from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import MissingNumberError
from loopyperf.idg import Idg, Instruction
from loopyperf.models.timing import InstructionTimes, NeededNumbers
from loopyperf.pipeline import Execution, simulate
from loopyperf.pipeline.timed_graph import Shared, Timed, TimedGraph
from loopyperf.pipeline.timed_program import Served
from tests.kernels import floats, make_kernel

ALU, NEAR, FAR = (Timed(name, issue, 20) for name, issue in (("alu", 1), ("near", 2), ("far", 10)))
SERVED = Served({"L1": 1.0, "L2": 0.5, "DRAM": 0.25}, {"L1": 1.0, "L2": 1.0, "DRAM": 0.5})


def test_dependents_of_an_access_wait_for_all_its_pipelines() -> None:
    graph = Idg.from_edges(["load", "alu"], [(0, 1), (1, 0, 1)], trips=3)
    timed = TimedGraph.of(graph, [[NEAR, FAR], [ALU]])
    places = timed.graph.body[-1].body
    assert [timed.graph.instructions[place].subsystem for place in places] == ["near", "far", "alu"]
    near, far, alu = places
    sources = {(edge.source, edge.target, edge.distance) for edge in timed.graph.edges}
    assert {(near, alu, (0,)), (far, alu, (0,)), (alu, near, (1,)), (alu, far, (1,))} <= sources


def test_warps_are_as_slow_as_the_slowest_level() -> None:
    graph = Idg.from_edges(["load"], [], trips=100)
    timed = TimedGraph.of(graph, [[NEAR, FAR]])
    found = simulate(timed.graph, timed.lambdas, Execution(8, 1, 1))
    assert found.cycles == pytest.approx(8 * 100 * 10, rel=0.01)


def test_levels_move_the_shares_that_reach_them() -> None:
    timing = InstructionTimes(load_device("v100"))
    coalesced, strided = (timing.memory("load", SERVED, NeededNumbers(8, lines)) for lines in (2, 8))
    assert [each.pipeline for each in coalesced] == ["load/store", "L2", "DRAM"]
    # 256 bytes at 128 per cycle; one line per cycle if the lanes are far apart, with no change at other levels.
    assert [each[0].lambdas.issue for each in (coalesced, strided)] == [2, 8]
    assert coalesced[1:] == strided[1:]
    whole = Served(dict.fromkeys(SERVED.asked, 1.0), SERVED.waited)
    moved = [each.lambdas.issue for each in timing.memory("load", whole, NeededNumbers(8, 2))]
    assert [each.lambdas.issue for each in coalesced] == pytest.approx([moved[0], moved[1] / 2, moved[2] / 4])
    assert len({each.lambdas.completion for each in coalesced}) == 1


@pytest.mark.parametrize(
    ("device", "cycles"),
    [
        ("v100", (1, 2, 4)),  # 32 units issue a warp per cycle; banks transfer 128 bytes
        ("rtx-2080-ti", (2, 4, 8)),  # 16 units; banks transfer 64 bytes per cycle
        ("rtx-3090", (2, 2, 4)),  # 16 units; banks transfer 128 bytes per cycle
    ],
)
def test_local_memory_access_takes_the_longer_of_address_and_data(device: str, cycles: tuple[int, ...]) -> None:
    timing = InstructionTimes(load_device(device))
    alone, *others = (timing.local_memory(wavefronts) for wavefronts in (1, 2, 4))
    assert tuple(each.issue for each in (alone, *others)) == cycles
    per_wavefront = cycles[-1] / 4
    assert [each.latency - alone.latency for each in others] == [per_wavefront, 3 * per_wavefront]


def test_measured_load_sets_the_time_without_bank_conflicts() -> None:
    known = load_device("rtx-3090")
    timed = described.InstructionTiming(slug=known.slug, place="instructions.load local b32", issue=3.0)
    timing = InstructionTimes(replace(known, instructions=(*known.instructions, timed)))
    assert [timing.local_memory(wavefronts).issue for wavefronts in (1, 2, 4)] == [3, 3, 4]


@pytest.mark.parametrize(
    ("device", "cycles"),
    [("v100", (1, 1, 2, 4)), ("rtx-2080-ti", (2, 2, 4, 8)), ("rtx-3090", (2, 2, 2, 4))],
)
def test_cache_hit_takes_the_longer_of_address_and_data(device: str, cycles: tuple[int, ...]) -> None:
    timing, hits = InstructionTimes(load_device(device)), Served({"L1": 1.0}, {"L1": 1.0})
    # one word for all lanes, one word for each, 8 bytes by half warps, 16 bytes by quarter warps
    asked = (NeededNumbers(1, 1, 1), NeededNumbers(4, 1, 1), NeededNumbers(8, 2, 2), NeededNumbers(16, 4, 4))
    assert tuple(each.issue for (each,) in (timing.memory("load", hits, one) for one in asked)) == cycles


def test_levels_that_no_sector_reaches_take_no_time() -> None:
    timing = InstructionTimes(load_device("v100"))
    hits = Served({"L1": 1.0, "L2": 0.0, "DRAM": 0.0}, SERVED.waited)
    assert [each.pipeline for each in timing.memory("load", hits, NeededNumbers(8, 2))] == ["load/store"]


def test_partly_written_sectors_take_l2_longer_than_whole_ones() -> None:
    timing = InstructionTimes(load_device("v100"))
    times = []
    for partial in (0.0, 0.5, 1.0):
        found = timing.memory("store", replace(SERVED, partial=partial), NeededNumbers(32, 32))
        (l2,) = (each.shared.cycles for each in found if each.pipeline == "L2" and each.shared)
        times.append(l2)
    assert [each / times[0] for each in times] == pytest.approx([1, 1 + 2 * 0.5 * 3, 1 + 2 * 3])


def test_core_stores_a_sector_per_cycle() -> None:
    # docs/accuracy/h200.md: stores with strides of 12 and 16 B, to 12 and 16 sectors, which the core combines.
    timing, waited = InstructionTimes(load_device("nvidia-h200")), {"L1": 1.0, "L2": 1.0}
    for sectors, lines, measured in ((12, 3, 11), (16, 4, 16)):
        combined = Served({"L1": 1.0, "L2": lines / sectors}, waited)
        _, stored = timing.memory("store", combined, NeededNumbers(sectors, lines, lines))
        assert stored.issue == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize(
    ("device", "integers"),
    [("v100", "integer"), ("rtx-2070", "integer"), ("rtx-3090", "integer"), ("h100", "integer"), ("gtx-1060", "alu")],
)
def test_integers_except_products_have_their_own_lanes_since_volta(device: str, integers: str) -> None:
    timing = InstructionTimes(load_device(device))
    pipelines = {
        (kind, dtype): timing.arithmetic(Instruction(kind, dtype, "alu")).pipeline
        for kind, dtype in [("add", "f32"), ("fma", "f32"), ("mul", "i32"), ("fma", "u32")]
    }
    assert set(pipelines.values()) == {"alu"}
    others = [
        ("add", "i32"),
        ("shift", "i32"),
        ("integer", "i64"),
        ("compare", "f32"),
        ("min/max", "f32"),
        ("move", ""),
    ]
    assert {timing.arithmetic(Instruction(*each, "alu")).pipeline for each in others} == {integers}
    assert timing.arithmetic(Instruction("compare", "f64", "fp64")).pipeline == "fp64"


@pytest.mark.parametrize(("groups", "balance"), [(1, 1 / 80), (40, 1 / 2), (80, 1), (81, 81 / 160), (160, 1)])
def test_use_of_shared_levels_scales_with_the_number_of_groups(groups: int, balance: float) -> None:
    unit = make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", floats("x,y", "n"), ..., target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")
    roofline = loopyperf.roofline(unit, n=256 * groups, device="v100")
    (found,) = roofline.launches
    assert found.moved["DRAM"] == 256 * groups * 8
    if groups > 1:  # a single group is bound by issue
        assert found.seconds == pytest.approx(found.moved["DRAM"] / roofline.bandwidths["DRAM"], rel=0.01)
    every = InstructionTimes(load_device("v100")).memory("load", SERVED, NeededNumbers(8, 2))
    timings = [every, [each.balanced(balance, {}) for each in every]]
    assert timings[0][0] == timings[1][0]
    for level, share in ((1, 1 / 2), (2, 1 / 4)):  # a core takes at most one line per cycle
        shared, own = (float(each[level].issue) for each in timings)
        assert own == pytest.approx(max(shared * balance, share * 8 * 32 / 128))


def test_groups_start_at_the_rate_of_the_device() -> None:
    # 80 cores, half a group per cycle: a core starts one every 160 cycles, one of its 4 warps every 40.
    assert InstructionTimes(load_device("v100")).start(4) == Timed("start", 40, 350, shared=Shared("", 40, 1 / 64))
    assert InstructionTimes(load_device("h100-pcie")).start(4) == Timed(
        "start", 1 / 64, 437, shared=Shared("", 0, 1 / 64)
    )
    assert InstructionTimes(load_device("gtx-280")).start(4) is None
    graph = Idg.from_edges(["alu"], [])
    timed = TimedGraph.of(graph, [[ALU]], Timed("start", 40, 350))
    found = simulate(timed.graph, timed.lambdas, Execution(4, 32, 1000))
    assert found.cycles == pytest.approx(160 * 1000, rel=0.01)


def test_assumed_latency_is_recorded_with_its_share_of_the_total() -> None:
    device = load_device("rtx-3090")
    near = {"L1": 1.0, "L2": 0.0, "DRAM": 0.0}
    timing = InstructionTimes(device)
    (hit,) = timing.memory("load", Served(near, near), NeededNumbers(8, 2))
    assert (list(timing.substituted), hit.assumed_latency) == ([], 0)
    half = {"L1": 1.0, "L2": 0.5, "DRAM": 0.5}
    (*_, farthest) = timing.memory("load", Served(half, half), NeededNumbers(8, 2))
    here, there = device.level("L1").latency, load_device("a40").level("DRAM").latency
    assert farthest.lambdas.completion == pytest.approx(0.5 * here + 0.5 * there)
    assert farthest.assumed_latency == pytest.approx(0.5 * there / (0.5 * here + 0.5 * there))
    latencies = [each.number for each in timing.substituted if each.of == "latency of memory"]
    assert latencies == [f"DRAM {there:.3g} cycles"]


def test_unmeasured_arithmetic_takes_the_assumed_time_of_additions() -> None:
    # Lemeire's table 5 has multiplications of integers, but no additions.
    device = load_device("tesla-c2050")
    timing = InstructionTimes(device)
    (addition, product) = (timing.arithmetic(Instruction(kind, "i32", "alu")) for kind in ("add", "mul"))
    assert addition.lambdas == Lambdas(1, device.completion_latency("mul", "f32"))
    assert product.lambdas == Lambdas(2, 18)
    assert (addition.assumed_latency, product.assumed_latency) == (1, 0)
    assert [(each.number, each.as_what) for each in timing.substituted] == [("add i32 18 cycles", "as 'add f32'")]


def test_integer_division_uses_float_reciprocal_and_conversions() -> None:
    timing = InstructionTimes(load_device("tesla-c2050"))
    for kind in ("mufu", "convert"):
        integer, real = (timing.arithmetic(Instruction(kind, dtype, "alu")) for dtype in ("i32", "f32"))
        assert integer.lambdas == real.lambdas


def test_missing_latency_of_a_special_function_raises() -> None:
    with pytest.raises(MissingNumberError, match="'pow f32'"):
        InstructionTimes(load_device("tesla-c2050")).arithmetic(Instruction("pow", "f32", "sfu"))
