"""The graphs in figures of the papers."""

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Edge, Idg, Instruction

TWO_PIPELINES = {"comp": Lambdas(1, 4), "mem": Lambdas(2, 6)}
"""Lemeire, Table 2"""
MEMORY = ("mem",)

LEMEIRE = Idg.from_edges(
    kinds=["comp", "comp", "mem", "comp", "comp", "mem"], edges=[(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]
)
"""Lemeire, Fig. 1: exactly one of the four computations overlaps with another (Λapp = 25, section 2.2), and each of the
two memory instructions follows two of them (section 2.3.2). We chose the first two as the independent ones; with the
last two, every number in the text is the same.
"""
LEMEIRE_LAST_TWO = Idg.from_edges(
    kinds=["comp", "comp", "mem", "comp", "comp", "mem"], edges=[(0, 1), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)]
)


def _instruction(kind: str, subsystem: str, text: str) -> Instruction:
    return Instruction(kind, "f32" if subsystem == "alu" else "b32", subsystem, text=text)


CORNELIS = Idg(
    (
        Instruction("index", "i32", "alu", text="i = get_global_id(0)"),
        _instruction("load", "global", "X[i]"),
        _instruction("load", "global", "Y[i]"),
        _instruction("fma", "alu", "a*x + y"),
        _instruction("store", "global", "Y[i] = z"),
    ),
    tuple(Edge(source, target) for source, target in [(0, 1), (0, 2), (1, 3), (2, 3), (0, 4), (3, 4)]),
    (0, 1, 2, 3, 4),
)
"""Cornelis, Fig. 1"""

LOADED = Idg.from_edges(kinds=["mem", "comp"], edges=[(0, 1), (1, 1, 1)], trips=100)
"""a sum of elements: a load and an addition in each of 100 iterations"""
