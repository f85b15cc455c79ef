"""Atomic updates: what the generated code does, and the assumptions about collisions between work-items.

Loopy calls ``atomicAdd`` for sums in CUDA, and writes loops around a compare-exchange otherwise
(``emit_atomic_update`` in ``loopy/target``). nvcc makes one instruction of a call whose result is unused (``RED``, in
shared memory ``ATOMS``), but a loop of floating-point additions in shared memory. It adds up integers of a warp before
the update if all lanes provably update the same element (machine code of sm_75 to sm_90:
tests/machine_code/test_atomic_updates.py).
"""

from collections.abc import Iterator
from typing import Any

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace, LocalInameTag
from loopy.kernel.instruction import Assignment
from loopy.symbolic import get_dependencies
from loopy.target.cuda import CudaTarget

from loopyperf.counts.memory_accesses import Reference, Update, element_type
from loopyperf.counts.sizes import Typical
from loopyperf.display import Note, NoteKind
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import SUBJECTS, Assumption

SLICE = 512
"""bytes of neighboring elements that the shared cache updates one after the other; updates of different elements in a
sector at once. A histogram of uniform bytes on an H100 has 256 bins in 1 KiB and updates 0.7 sectors of every 512 bytes
per cycle; additions to 512 bins in a row by all warps of an RTX 3070 Ti 0.8 (docs/pipeline.md)."""
IN_SLICES = Note(
    NoteKind.ATOMIC_UPDATES,
    f"atomic updates of {SUBJECTS} within {SLICE} bytes are assumed to follow one another",
)
IN_LOOPS = Note(
    NoteKind.ATOMIC_UPDATES,
    f"atomic updates of {SUBJECTS} repeat a compare-exchange until it succeeds; one success is assumed per element and "
    "round trip to the memory, and repeated instructions are not counted",
)
ON_ANY_MEMORY = Note(
    NoteKind.ATOMIC_UPDATES,
    f"atomic updates of {SUBJECTS} are counted without the cost of collisions between work-items",
)


def is_atomic(instruction: object) -> bool:
    """Return whether *instruction* updates an element atomically."""
    return isinstance(instruction, Assignment) and bool(instruction.atomicity)


def atomically_added(kernel: Kernel, instruction: Assignment) -> Any:
    """Return what *instruction* adds to an element by one machine instruction; None if the code is a loop."""
    expression: Any = instruction.expression
    array = kernel.arrays.get(*instruction.assignee_var_names())
    if not isinstance(kernel.loopy_kernel.target, CudaTarget) or not isinstance(expression, prim.Sum) or array is None:
        return None
    if array.address_space == AddressSpace.LOCAL and not element_type(array).is_integral():
        return None
    added = [each for each in expression.children if each != instruction.assignee]
    return prim.flattened_sum(added) if added else None


def update_of(kernel: Kernel, typical: Typical, ref: Reference, is_loop: bool) -> Update:
    """Return how the store *ref* updates its element."""
    if not all(map(kernel.is_known, ref.index)):
        return Update(is_loop, distinct=typical.distinct(ref.array))
    axes = (kernel.hardware_axes.get(name) for name in get_dependencies(ref.index))
    is_uniform = not any(isinstance(axis, LocalInameTag) for axis in axes)
    is_integer = bool(element_type(kernel.arrays[ref.array]).is_integral())
    return Update(is_loop, is_combined=is_uniform and is_integer and not is_loop)


def on_collisions(instruction: object) -> Iterator[Assumption]:
    """Yield the assumption that collisions cost nothing if *instruction* is an atomic update."""
    if is_atomic(instruction):
        assert isinstance(instruction, Assignment)
        yield from (Assumption(ON_ANY_MEMORY, name, name) for name in sorted(instruction.assignee_var_names()))
