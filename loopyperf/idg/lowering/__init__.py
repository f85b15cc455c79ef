"""From the source graph to the machine graph: nvcc's rules, each a pass over graphs."""

from loopyperf.idg.lowering.compiler_model import PASSES, lowered

__all__ = ["PASSES", "lowered"]
