"""Instruction graphs from the public interface."""

import pickle

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.compiler import PASSES, lowered
from loopyperf.errors import ParameterError, UncountableError, UnknownDeviceError


def multiplication(tile: int = 16) -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<n}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        [lp.GlobalArg("a,b,c", np.float32, shape="n,n"), ...],
        assumptions=f"n mod {tile} = 0 and n >= {tile}",
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", tile, outer_tag="g.1", inner_tag="l.1")
    unit = lp.split_iname(unit, "j", tile, outer_tag="g.0", inner_tag="l.0")
    unit = lp.split_iname(unit, "k", tile)
    unit = lp.add_prefetch(unit, "a", ["i_inner", "k_inner"], default_tag="l.auto")
    return lp.add_prefetch(unit, "b", ["k_inner", "j_inner"], default_tag="l.auto")


def test_graph_of_tiled_multiplication_matches_hand_derivation() -> None:
    # n = 256 in tiles of 16: 16 tiles. Each tile has 2 loads of global memory, 2 stores and 2·16 loads of local memory,
    # 16 products, 16 sums and 2 barriers. There is one store at the end, and there are 16·16 groups of 8 warps.
    graph = lpp.instruction_graph(multiplication(), n=256)
    mix = graph.mix()
    assert mix["load", "b32"] == 16 * (2 + 32)
    assert mix["store", "b32"] == 16 * 2 + 1
    assert (mix["mul", "f32"], mix["add", "f32"], mix["barrier", ""]) == (256, 256, 32)
    ((warp_class,),) = [launch.classes for launch in graph.launches]
    assert (warp_class.warps, warp_class.is_uniform) == (16 * 16 * 8, True)
    # The sum uses that of the previous iteration; in the first iteration of a tile, the last one of the previous tile.
    carried = {(edge.distance[0], str(edge.iterations[1])) for edge in graph.edges if edge.source == edge.target}
    assert carried == {(0, "-1 + k_inner"), (1, "15")}


def test_machine_graph_has_fused_multiply_adds_and_wide_loads() -> None:
    # Each tile has 16 multiply-adds. 16 neighboring elements of a take 4 loads of 128 bits, those of b 16 loads.
    machine = lowered(lpp.instruction_graph(multiplication(), n=256)).mix()
    assert machine["fma", "f32"] == 256
    assert (machine["load", "b128"], machine["load", "b32"]) == (16 * 4, 16 * (16 + 2))
    assert ("add", "f32") not in machine


@pytest.mark.parametrize(("device", "warps"), [("nvidia-a100", 8), ("amd-mi210", 4), (None, 8)])
def test_device_determines_the_warp_size(device: str | None, warps: int) -> None:
    # 16·16 groups of 256 work-items: 8 warps of 32 each, or 4 of 64.
    by_name = lpp.instruction_graph(multiplication(), n=256, device=device)
    loaded = None if device is None else lpp.load_device(device)
    by_object = lpp.instruction_graph(multiplication(), n=256, device=loaded)
    for graph in (by_name, by_object):
        assert [warp_class.warps for launch in graph.launches for warp_class in launch.classes] == [16 * 16 * warps]


def test_each_compiler_pass_can_be_skipped() -> None:
    graph = lpp.instruction_graph(multiplication(), n=256)
    assert lowered(graph, leave_out=PASSES).mix() == graph.mix()
    assert ("fma", "f32") not in lowered(graph, leave_out=["fused multiply-adds"]).mix()
    with pytest.raises(
        ParameterError, match="unknown pass fma; passes are: constant memory, predication, predicated iterations, "
    ):
        lowered(graph, leave_out=["fma"])


def test_boundary_groups_have_their_own_warp_class() -> None:
    # 100 = 6·16 + 4: the last of seven groups has no i below 90, so its warp loads nothing.
    arguments = [lp.GlobalArg("a,b", np.float32, shape="n"), ...]
    unit = lp.make_kernel("{[i]: 0<=i<n}", "b[i] = if(i < 90, 2*a[i], 0)", arguments, lang_version=(2018, 2))
    graph = lpp.instruction_graph(lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0"), n=100)
    (launch,) = graph.launches
    executed = {warp_class.warps: warp_class.graph.mix().get(("load", "b32"), 0) for warp_class in launch.classes}
    assert executed == {6: 1, 1: 0}


def test_graphs_can_be_pickled() -> None:
    graph = lpp.instruction_graph(multiplication(), n=64)
    again = pickle.loads(pickle.dumps(graph))
    assert (again.instructions, again.edges) == (graph.instructions, graph.edges)
    assert again.launches[0].classes[0].warps == graph.launches[0].classes[0].warps


def sparse_rows() -> lp.TranslationUnit:
    return lp.make_kernel(
        ["[n] -> {[i]: 0<=i<n}", "[s,e] -> {[j]: s<=j<e}"],
        "<> s = start[i] {id=begin}\n<> e = start[i+1] {id=end}\nout[i] = sum(j, a[j]) {id=row, inames=i}",
        [
            lp.GlobalArg("start", np.int32, shape="n+1"),
            lp.GlobalArg("a", np.float32, shape=None, strides=(1,)),
            lp.GlobalArg("out", np.float32, shape="n"),
            ...,
        ],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )


def test_loop_bounded_by_data_has_the_typical_trip_count() -> None:
    with pytest.raises(
        UncountableError, match=r"^instruction 'row_j_update': loop j is bounded by data .*typical=\{'j'"
    ):
        lpp.instruction_graph(sparse_rows(), n=100)
    graph = lpp.instruction_graph(sparse_rows(), n=100, typical={"j": 27})
    assert graph.mix()["add", "f32"] == 27 * 100


def test_typical_loop_bounds_do_not_affect_the_shape_of_groups() -> None:
    unit = lp.split_iname(sparse_rows(), "i", 32, outer_tag="g.0", inner_tag="l.0")
    graph = lpp.instruction_graph(unit, n=128, typical={"s": 0, "e": 27})
    (launch,) = graph.launches
    assert (launch.groups, [warp_class.warps for warp_class in launch.classes]) == (4, [4])
    assert graph.mix()["add", "f32"] == 27  # per warp


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "missing size n"),
        ({"n": 256, "m": 3}, "has no size m; its sizes are: n"),
        ({"n": 17}, "n=17 violates the kernel's assumptions"),
        ({"n": 25.6}, "size n must be an integer, got 25.6"),
        ({"n": 256, "warp_size": 0}, "warp_size must be a positive integer"),
        ({"n": 256, "warp_size": 32, "device": "nvidia-a100"}, "pass only one of them"),
        (
            {"n": 256, "device": "nvidia-a10"},
            "no device called 'nvidia-a10'; nearest",
        ),
        ({"n": 256, "device": 3}, "a device must be a name or the path of a device file, got 3"),
        ({"n": 256, "typical": {"k": 3}}, "does not use typical 'k'"),
        ({"n": 256, "parameters": {"n": 16}}, "size 'n' is given twice"),
    ],
)
def test_wrong_sizes_and_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises((ParameterError, UnknownDeviceError), match=message):
        lpp.instruction_graph(multiplication(), **options)


def test_stages_of_a_case_equal_those_of_its_program_and_sizes() -> None:
    case = lpp.Case(multiplication(), {"n": 256})
    assert lpp.kernel_profile(case) == lpp.kernel_profile(multiplication(), n=256)
    for stage in (lpp.machine_program, lpp.timed_program):
        assert stage(case, device="nvidia-v100") == stage(multiplication(), n=256, device="nvidia-v100")
    with pytest.raises(ParameterError, match="a Case already has sizes and typical values"):
        lpp.kernel_profile(case, n=256)
    with pytest.raises(ParameterError, match="compiler must be one of 'model', 'nvrtc', 'auto'; got 'gcc'"):
        lpp.timed_program(case, device="nvidia-v100", compiler="gcc")  # pyright: ignore[reportArgumentType]
