"""From the source graph to the machine graph: nvcc's rules, each a pass over graphs."""

from loopyperf.compiler.compiler_model import OF_CUDA, OF_GPUS, OF_NVIDIA, PASSES, lowered
from loopyperf.compiler.private_arrays import Placement, PrivateArray, private_arrays, private_arrays_of
from loopyperf.compiler.stack_memory import with_stack_memory

__all__ = [
    "OF_CUDA",
    "OF_GPUS",
    "OF_NVIDIA",
    "PASSES",
    "Placement",
    "PrivateArray",
    "lowered",
    "private_arrays",
    "private_arrays_of",
    "with_stack_memory",
]
