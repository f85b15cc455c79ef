"""Instruction dependence graphs: what one warp executes, and what waits for what."""

from loopyperf.idg.graph import Idg
from loopyperf.idg.program import Edge, Instruction, Loop

__all__ = ["Edge", "Idg", "Instruction", "Loop"]
