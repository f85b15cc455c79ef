"""A warp's work flow in numbers: blocks of computation, memory operations and barriers, and loops over them."""

from dataclasses import dataclass

from loopyperf.idg.metrics.work_flow import Sort


@dataclass(frozen=True, slots=True)
class FlowNode:
    """A block of computational instructions, a memory operation, or a barrier."""

    sort: Sort
    instructions: float
    """αcomp,i, each time that the node is executed; 1 of other nodes"""
    issue: float
    """λ of one of them, in cycles, on average"""
    completion: float
    """Λ of one of them, in cycles, on average"""
    ilp: float = 1.0
    """ILPi of a block of computation"""
    executions: float = 1.0
    """of one warp"""
    waits_for: tuple[int, ...] = ()
    """memory operations, each its place among the nodes, whose results this node is the first to use"""


@dataclass(frozen=True, slots=True)
class WorkFlow:
    """What a warp executes, in the order of the program; each loop stands once."""

    nodes: tuple[FlowNode, ...]
    loops: tuple[tuple[int, int], ...] = ()
    """the first and the last node of each"""
    awaited: tuple[int, ...] = ()
    """memory operations whose results the end of the program waits for"""
