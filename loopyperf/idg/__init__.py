"""Instruction dependence graphs: what each class of warps executes, as the source has it.

In: a kernel's schedule at given sizes. Out: an :class:`Idg` per warp class, with loops rolled up.
Start with ``program.py`` and ``graph.py``, which define the graph, then ``launch_program.py``.
"""

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Loop

__all__ = ["Edge", "Idg", "Instruction", "Loop"]
