"""Test graphs as text against the expected output."""

from pymbolic import parse

from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.listing import listing
from loopyperf.polyhedral.affine import Affine
from tests.idg.published_graphs import CORNELIS, LEMEIRE


def row_sums() -> Idg:
    """Return the graph of a row sum that loads every other element one iteration ahead, and stores the sum."""
    kinds = [("move", "", "alu", "acc", 1), ("load", "b32", "global", "a[i, k + 1]", 32)]
    kinds += [("barrier", "", "barrier", "barrier", 64), ("add", "f32", "alu", "acc + a[i, k]", 64)]
    kinds += [("store", "b32", "global", "out[i]", 1)]
    even = {1: parse("k % 2 == 0")}
    instructions = tuple(
        Instruction(kind, dtype, subsystem, text=text, executions=number, condition=even.get(place))
        for place, (kind, dtype, subsystem, text, number) in enumerate(kinds)
    )
    edges = (
        Edge(3, 3, (1,), (Affine.variable("k", -1),), parse("-1 + k >= 0")),
        Edge(0, 3, (), (), parse("k == 0")),
        Edge(1, 3, (1,), (Affine.variable("k", -1),), parse("-1 + k >= 0 and k % 2 == 1")),
        Edge(2, 3, (0,), (Affine.variable("k"),), through="synchronization"),
        Edge(3, 4, (), (Affine((), 63),)),
    )
    return Idg(instructions, edges, (0, Loop("k", 64, (1, 2, 3)), 4))


def test_listing_of_a_loop_reads_like_the_kernel() -> None:
    assert listing(row_sums()) == (
        "0  acc                             move       alu      ×1\n"
        "   for k in 64 iterations:\n"
        "1      if k % 2 == 0: a[i, k + 1]  load b32   global   ×32\n"
        "2      barrier                     barrier    barrier  ×64\n"
        "3      acc + a[i, k]               add f32    alu      ×64"
        "  waits for 0 if k == 0, 1 [k - 1] if k % 2 == 1, 2 (synchronization), 3 [k - 1]\n"
        "4  out[i]                          store b32  global   ×1   waits for 3 [k = 63]\n"
    )


def test_listing_of_the_example_kernel() -> None:
    assert listing(LEMEIRE) == (
        "0  comp  comp  comp  ×1\n"
        "1  comp  comp  comp  ×1\n"
        "2  mem   mem   mem   ×1  waits for 0, 1\n"
        "3  comp  comp  comp  ×1  waits for 2\n"
        "4  comp  comp  comp  ×1  waits for 3\n"
        "5  mem   mem   mem   ×1  waits for 4\n"
    )


def test_listing_of_saxpy() -> None:
    assert listing(CORNELIS) == (
        "0  i = get_global_id(0)  index i32  alu     ×1\n"
        "1  X[i]                  load b32   global  ×1  waits for 0\n"
        "2  Y[i]                  load b32   global  ×1  waits for 0\n"
        "3  a*x + y               fma f32    alu     ×1  waits for 1, 2\n"
        "4  Y[i] = z              store b32  global  ×1  waits for 0, 3\n"
    )


def test_long_lines_are_shortened_and_line_breaks_removed() -> None:
    long, broken = Instruction("add", text="x + " * 40), Instruction("add", text="a\n  + b")
    first, second = listing(Idg((long, broken), (), (0, 1))).splitlines()
    assert first == f"0  {('x + ' * 40)[:59]}…  add    ×1"
    assert second.startswith("1  a + b  ")


def test_listing_shows_unrolled_loops_and_symbolic_trip_counts() -> None:
    inner = Loop("j", parse("i + 1"), (0,), is_unrolled=True)
    text = listing(Idg((Instruction("add", "f64", "fp64", "sum", executions=6),), (), (Loop("i", 3, (inner,)),)))
    assert text == (
        "   for i in 3 iterations:\n"
        "       for j in i + 1 iterations, unrolled:\n"
        "0          sum                               add f64  fp64  ×6\n"
    )


def test_listing_of_a_graph_without_instructions_is_empty() -> None:
    assert listing(Idg((), (), ())) == ""
