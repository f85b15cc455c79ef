"""Which element of a private array an operand is, or a result becomes."""

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from loopy.kernel.array import FixedStrideArrayDimTag
from loopy.kernel.data import AddressSpace, TemporaryVariable
from loopy.symbolic import get_dependencies
from pymbolic.mapper.substitutor import substitute

from loopyperf.counts.memory import element_type
from loopyperf.idg.construction.drafts import Definition
from loopyperf.idg.construction.values import Value
from loopyperf.idg.program import Element
from loopyperf.integer_temporaries import substituted
from loopyperf.kernel import Kernel

InPasses = Callable[[Any], Any]
"""says an expression of loop variables and sizes in the passes of loops"""


class PrivateElements:
    """The elements of private arrays in one launch."""

    def __init__(self, kernel: Kernel, definitions: Iterable[Definition]) -> None:
        """Take the *definitions* of private variables."""
        self._kernel = kernel
        self._defined: dict[int, list[Definition]] = {}
        for each in definitions:
            self._defined.setdefault(each.node, []).append(each)

    def defined(self, node: int, in_passes: InPasses) -> tuple[Element, ...]:
        """Return the elements that the result of an instruction becomes."""
        found = (self._element(each.variable, each.index, in_passes) for each in self._defined.get(node, ()))
        return tuple(each for each in found if each is not None)

    def read(self, value: Value, in_passes: InPasses) -> Element | None:
        """Return the element that an operand is; None where it is none."""
        return None if value.read is None else self._element(value.read.variable, value.read.index, in_passes)

    def _element(self, name: str, index: Sequence[Any], in_passes: InPasses) -> Element | None:
        """Return the element *index* of *name*; None for a scalar, and for an array of vectors."""
        variable = self._kernel.loopy_kernel.temporary_variables.get(name)
        if variable is None or variable.address_space != AddressSpace.PRIVATE or not index:
            return None
        strides, length = _strides(variable), _length(variable)
        if strides is None or length is None:
            return None
        written = [_written(self._kernel, each) for each in index]
        address = None
        if all(self._kernel.is_known(each) for each in written):
            address = in_passes(sum((stride * each for stride, each in zip(strides, written, strict=True)), 0))
        return Element(name, address, 8 * element_type(variable).itemsize, length)


def _written(kernel: Kernel, index: Any) -> Any:
    """Return *index* without temporaries, and without axes of the hardware along which there is one work-item or group.

    In the code, these are their only value.
    """
    written = substituted(index, kernel.known_temporaries)
    values: dict[str, int] = {}
    for name in get_dependencies(written) & kernel.loopy_kernel.all_inames():
        if kernel.hardware_axis(name) is not None and (only := kernel.values(name)) is not None and len(only) == 1:
            values[name] = only.start
    return substitute(written, values) if values else written


def _strides(variable: TemporaryVariable) -> tuple[int, ...] | None:
    """Return the distance in elements between neighbours along each axis; None where that is no number."""
    tags: Sequence[Any] = variable.dim_tags or ()
    strides: list[Any] = [tag.stride for tag in tags if isinstance(tag, FixedStrideArrayDimTag)]
    return _integers(strides) if len(strides) == len(tags) else None


def _length(variable: TemporaryVariable) -> int | None:
    """Return how many elements *variable* has; None where the compiler is not told."""
    shape: Any = variable.shape
    lengths = _integers(cast("tuple[Any, ...]", shape)) if isinstance(shape, tuple) else None
    return None if lengths is None else prod(lengths)


def _integers(values: Iterable[Any]) -> tuple[int, ...] | None:
    """Return *values* if all are integers."""
    found = tuple(values)
    return tuple(map(int, found)) if all(isinstance(each, (int, np.integer)) for each in found) else None
