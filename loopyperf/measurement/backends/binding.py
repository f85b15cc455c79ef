"""A program with arrays of one size: contents made, uploaded, launched once and compared with the reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import numpy as np
from loopy.kernel import LoopKernel

from loopyperf.measurement.arguments import checked_arguments
from loopyperf.measurement.backends.interface import Case
from loopyperf.measurement.configuration import Array
from loopyperf.measurement.verification import verify

SEED = 0
"""Of the arrays' random contents: whoever measures a size again sees the same data."""

Memory = TypeVar("Memory")
Launches = TypeVar("Launches")


class Program(Protocol):
    """What is compiled, as far as arguments go."""

    kernel: LoopKernel

    @property
    def written(self) -> frozenset[str]:
        """Names of the arguments that the kernel writes."""
        ...


@dataclass(frozen=True, slots=True)
class Binding(Generic[Memory, Launches]):
    """How a backend binds programs to arguments: what is its own in that."""

    upload: Callable[[Array], Memory]
    """makes device memory with an array's contents"""
    download: Callable[[Memory, Array], Array]
    """what device memory holds, in an array like the given one; all that was launched is done then"""
    run: Callable[[Launches], None]
    """launches once"""

    def bound(
        self, case: Case, program: Program, bind: Callable[[Mapping[str, object]], Launches], is_checked: bool
    ) -> Launches:
        """Return what *bind* makes of the case's arguments: by name, memory for arrays, and scalars.

        If *is_checked*, it is run once and what it wrote is compared with the reference. Raises
        :class:`MeasurementError` for arguments that the kernel does not take, and for wrong results.
        """
        arguments = case.configuration.arguments(np.random.default_rng(SEED), case.sizes)
        checked = checked_arguments(program.kernel, arguments, case.sizes)
        memory = {name: self.upload(value) for name, value in checked.items() if isinstance(value, np.ndarray)}
        scalars = {name: value.item() for name, value in checked.items() if isinstance(value, np.generic)}
        launches = bind({**memory, **scalars})
        if is_checked:
            self.run(launches)
            written = sorted(program.written)
            results = {name: self.download(memory[name], cast("Array", arguments[name])) for name in written}
            verify(results, case.configuration.reference(arguments), case.configuration.tolerance)
        return launches
