"""Test the basic blocks of graphs."""

from pymbolic import parse

from loopyperf.idg import Idg, Instruction, Loop
from loopyperf.idg.parallelism import basic_blocks
from tests.idg.published_graphs import CORNELIS


def tiled() -> Idg:
    """Return the structure of a tiled multiplication: 4 tiles of a load, a barrier and 16 iterations; then a store."""
    kinds = [("mul", "alu", 1), ("load", "global", 4), ("store", "local", 4), ("barrier", "barrier", 4)]
    kinds += [("load", "local", 64), ("fma", "alu", 64), ("store", "global", 1)]
    instructions = tuple(Instruction(kind, "", subsystem, executions=number) for kind, subsystem, number in kinds)
    return Idg(instructions, (), (0, Loop("tile", 4, (1, 2, 3, Loop("k", 16, (4, 5)))), 6))


def test_blocks_end_at_loops_and_barriers() -> None:
    found = [(block.instructions, block.executions, block.is_barrier) for block in basic_blocks(tiled())]
    assert found == [((0,), 1, False), ((1, 2), 4, False), ((3,), 4, True), ((4, 5), 64, False), ((6,), 1, False)]
    assert [[loop.name for loop in block.loops] for block in basic_blocks(tiled())][3] == ["tile", "k"]


def test_blocks_end_where_a_condition_begins() -> None:
    seldom = Instruction("add", executions=2, condition=parse("i % 2 == 0"))
    always = Instruction("add", executions=4)
    graph = Idg((always, seldom, seldom, always), (), (Loop("i", 4, (0, 1, 2, 3)),))
    assert [block.instructions for block in basic_blocks(graph)] == [(0,), (1, 2), (3,)]


def test_each_instruction_is_in_one_block() -> None:
    assert [block.instructions for block in basic_blocks(CORNELIS)] == [(0, 1, 2, 3, 4)]
