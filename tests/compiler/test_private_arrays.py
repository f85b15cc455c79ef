"""Placement of private arrays in registers or stack memory; machine_code/test_private_arrays.py compares with nvcc."""

from dataclasses import replace

import pytest
from pymbolic import parse

from loopyperf.compiler.private_arrays import (
    Home,
    Placement,
    PrivateArray,
    by_another,
    placed_by_stack,
    private_arrays,
    private_arrays_of,
)
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg, Instruction, Loop
from loopyperf.idg.program import AT_RUN_TIME, WORK_GROUP, Element, Item, LoopBound
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.affine import Affine
from tests import private_array_kernels as kernels
from tests.profiles import source_profile


def array(build: kernels.Build) -> PrivateArray:
    """Return the one private array of a kernel."""
    unit = build()
    sizes = {"n": 3} if "n" in unit.default_entrypoint.arg_dict else {}
    (only,) = private_arrays(source_profile(load_kernel(unit), sizes, Typical({})).graph)
    return only


@pytest.mark.parametrize("name", kernels.REGISTERS)
def test_arrays_with_constant_indices_are_in_registers(name: str) -> None:
    assert array(kernels.REGISTERS[name]).home == "registers"


@pytest.mark.parametrize("name", kernels.STACK_MEMORY)
def test_arrays_with_a_variable_index_are_in_stack_memory(name: str) -> None:
    assert array(kernels.STACK_MEMORY[name]).home == "stack memory"


@pytest.mark.parametrize("name", kernels.UNSURE)
def test_placement_is_unsure_where_nvcc_varies(name: str) -> None:
    assert array(kernels.UNSURE[name]).home == "unsure"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a bound that is a size", "the trip count of the loop over o depends on n"),
        ("a bound that depends on the work-item", "the trip count of the loop over o depends on the work-item"),
        ("an index that is data", "an index is read from data"),
        ("an index that is the work-item", "an index depends on t, which differs between work-items or groups"),
    ],
)
def test_reason_names_the_index_or_the_loop(name: str, reason: str) -> None:
    assert array(kernels.STACK_MEMORY[name]).reason == reason


def test_reason_gives_the_number_of_unrolled_iterations() -> None:
    found = array(kernels.REGISTERS["two constant loops"])
    assert found.reason == "the loop over i has 8 iterations, which nvcc unrolls"
    assert found.nbytes == 8 * 8


def test_predicate_inside_a_loop_keeps_its_bound_constant() -> None:
    """A condition on the work-item inside the loop is not part of its bound, so nvcc unrolls the loop."""
    unit = kernels.copied(4)
    (insn, other) = unit.default_entrypoint.instructions
    guarded = unit.default_entrypoint.copy(instructions=[insn, other.copy(predicates=frozenset({parse("t < 16")}))])
    assert array(lambda: unit.with_kernel(guarded)).home == "registers"


def test_hand_built_graph_uses_its_loop_bounds() -> None:
    store = Instruction("move", defines=(Element("a", Affine.variable("i"), 64, 4),), executions=4)
    for bound, home in ((LoopBound((4,)), "registers"), (AT_RUN_TIME, "stack memory")):
        graph = Idg((store,), (), (Loop("i", 4, (0,), bound=bound),))
        assert [each.home for each in private_arrays(graph)] == [home]


def test_array_in_memory_for_one_warp_class_is_in_memory_for_all() -> None:
    """All warps of a launch run the same program, which contains every loop with a bound that is not constant."""

    def graph(bound: LoopBound, length: int = 16) -> Idg:
        store = Instruction("move", defines=(Element("a", Affine.variable("i"), 64, length),), executions=length)
        return Idg((store,), (), (Loop("i", length, (0,), bound=bound),))

    constant, varying, either = graph(LoopBound((16,))), graph(AT_RUN_TIME), graph(LoopBound((8, 16)))
    for graphs, home in (
        ((constant, constant), "registers"),
        ((constant, either), "unsure"),
        ((varying, constant), "stack memory"),
        ((either, varying, constant), "stack memory"),
    ):
        assert [each.home for each in private_arrays_of(graphs)] == [home]


@pytest.mark.parametrize(
    ("place", "homes"),
    [
        ("likelier", {"registers": False, "unsure": True, "stack memory": True}),
        ("registers", {"registers": False, "unsure": False, "stack memory": True}),
        ("stack memory", {"registers": False, "unsure": True, "stack memory": True}),
    ],
)
def test_placement_overrides_only_unsure_arrays(place: Placement, homes: dict[Home, bool]) -> None:
    for home, is_in_memory in homes.items():
        likelier = PrivateArray("a", 8, 64, home, "", is_likely_in_memory=home == "unsure")
        assert likelier.is_in_memory_by(place) == is_in_memory


def test_size_of_an_array_is_that_of_the_elements_used(subtests: pytest.Subtests) -> None:
    """Loops that Loopy unrolls have constant indices, so an array of any size is in registers."""
    for name, (build, number) in kernels.PARTS_OF_SQUARES.items():
        graph = source_profile(load_kernel(build()), {"n": 32}, Typical({})).graph
        for registers in (number - 1, number):
            for is_unrolled in (False, True):
                with subtests.test(name=name, registers=registers, is_unrolled=is_unrolled):
                    (found,) = private_arrays(graph if is_unrolled else as_loops(graph), VOLTA, registers)
                    is_certain = registers == number or (is_unrolled and "loop" not in name)
                    assert found.home == ("registers" if is_certain else "unsure")
                    assert is_certain or found.reason == f"it needs {number} registers of {registers}"


def as_loops(graph: Idg) -> Idg:
    """Return *graph* with loops that the compiler has to unroll instead of Loopy, without bounds that vary."""

    def item(each: Item) -> Item:
        if not isinstance(each, Loop):
            return each
        return replace(each, is_unrolled=False, bound=LoopBound((2,)), body=tuple(map(item, each.body)))

    return Idg(graph.instructions, graph.edges, tuple(map(item, graph.body)))


GROUPS = frozenset({WORK_GROUP})
VOLTA, TURING = (7, 0), (7, 5)


@pytest.mark.parametrize(
    ("bound", "tests", "capability", "is_in_memory"),
    [
        (LoopBound((8, 16), GROUPS), frozenset[str](), VOLTA, False),
        (LoopBound((8, 16), GROUPS), frozenset({"l0 < n"}), TURING, False),
        (LoopBound((8, 16), GROUPS), frozenset({"l0 < n"}), VOLTA, True),
        (LoopBound((8, 16), loops=frozenset("o")), frozenset({"l0 < n"}), VOLTA, False),
        (LoopBound((8, 16), GROUPS, has_or=True), frozenset[str](), TURING, True),
        (LoopBound((12, 15), GROUPS), frozenset[str](), TURING, True),
        (LoopBound((4, 8), GROUPS), frozenset({"l0 < n"}), VOLTA, False),
    ],
)
def test_several_trip_counts_are_placed_by_condition_and_compiler(
    bound: LoopBound, tests: frozenset[str], capability: tuple[int, int], *, is_in_memory: bool
) -> None:
    """titan-v rows 404 and 410 differ only in the condition on the work-item, and by a factor of 30 in time."""
    store = Instruction("move", defines=(Element("a", Affine.variable("i"), 64, 16),), executions=16, tests=tests)
    graph = Idg((store,), (), (Loop("i", 16, (0,), bound=bound),))
    (found,) = private_arrays(graph, capability)
    assert found.is_in_memory == is_in_memory


@pytest.mark.parametrize(
    ("tests", "capability", "is_in_memory"),
    [
        (frozenset[str](), VOLTA, False),
        (frozenset({"l0 < n"}), VOLTA, True),
        (frozenset[str](), TURING, True),
        (frozenset({"l0 < n"}), TURING, True),
    ],
)
def test_long_unrolled_loop_is_placed_by_condition_and_compiler(
    tests: frozenset[str], capability: tuple[int, int], *, is_in_memory: bool
) -> None:
    """titan-v rows 711 and 724 differ in the condition on the work-item: one array is in registers, one in memory."""
    element = Element("a", Affine.variable("i"), 64, 16)
    body = tuple(Instruction("add", "f64", defines=(element,) if not n else (), tests=tests) for n in range(198))
    graph = Idg(body, (), (Loop("i", 16, tuple(range(198)), bound=LoopBound((16,))),))
    (found,) = private_arrays(graph, capability)
    # 198 additions, 2 instructions for the element, 1 for the loop, in each of 16 iterations.
    assert found.reason == "the loop over i has 16 iterations, about 3216 instructions if unrolled"
    assert (found.home, found.is_in_memory) == ("unsure", is_in_memory)


@pytest.mark.parametrize(
    ("stack_frame", "spilled", "homes"),
    [
        (0, 0, ("registers", "registers", "registers")),
        (64, 0, ("stack memory", "registers", "registers")),
        (96, 0, ("stack memory", "unsure", "unsure")),  # b or c, which both have 32 bytes
        (32, 0, ("registers", "unsure", "unsure")),
        (128, 0, ("stack memory", "stack memory", "stack memory")),
        (72, 8, ("stack memory", "registers", "registers")),  # and two spilled registers
        (16, 12, ("registers", "registers", "registers")),  # the frame is a multiple of 16 bytes
        (80, 12, ("stack memory", "registers", "registers")),
        (1000, 0, ("stack memory", "unsure", "unsure")),  # no combination adds up to 1000 bytes
    ],
)
def test_stack_frame_determines_which_arrays_are_in_memory(
    stack_frame: int, spilled: int, homes: tuple[str, ...]
) -> None:
    arrays = [
        PrivateArray("a", 8, 64, "stack memory", ""),
        PrivateArray("b", 4, 64, "unsure", ""),
        PrivateArray("c", 8, 32, "unsure", ""),
    ]
    assert tuple(each.home for each in placed_by_stack(arrays, stack_frame, spilled)) == homes


def test_undecided_stack_frame_of_another_compiler_changes_nothing() -> None:
    array = PrivateArray("a", 8, 64, "unsure", "its loop is long", is_likely_in_memory=True)
    for frame, reason in ((64, "stack memory"), (0, "registers"), (1000, "")):
        (placed,) = placed_by_stack([array], frame, 0)
        by = f"its loop is long; NVRTC, which is not the compiler used, places it in {reason}"
        assert by_another(array, placed).reason == (by if reason else "its loop is long")
