"""A program with arrays of one size: contents made, uploaded, launched once and compared with the reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

import numpy as np
from loopy.kernel import LoopKernel

from loopyperf.measurement.arguments import checked_arguments
from loopyperf.measurement.backends.interface import BenchmarkCase
from loopyperf.measurement.backends.parts import Bytes, Contents, beginning
from loopyperf.measurement.configuration import Arguments, Array
from loopyperf.measurement.verification import verify

SEED = 0
"""Of the arrays' random contents: whoever measures a size again sees the same data."""

Memory = TypeVar("Memory")
Launches = TypeVar("Launches")


class CompiledKernel(Protocol):
    """What is compiled, as far as arguments go."""

    kernel: LoopKernel


@dataclass(frozen=True, slots=True)
class Binding(Generic[Memory, Launches]):
    """How a backend binds programs to arguments: what is its own in that."""

    upload: Callable[[Bytes], Memory]
    """makes device memory with an array's contents, in the order in which they lie"""
    download: Callable[[Memory, Array], Array]
    """what device memory holds, in an array like the given one; all that was launched is done then"""
    run: Callable[[Launches], None]
    """launches once"""

    def bound(
        self,
        case: BenchmarkCase,
        program: CompiledKernel,
        bind: Callable[[Mapping[str, object]], Launches],
        is_checked: bool,
    ) -> Launches:
        """Return what *bind* makes of the case's arguments: by name, memory for arrays, and scalars.

        If *is_checked*, it is run once and what it wrote is compared with the reference. Raises
        :class:`MeasurementError` for arguments that the kernel does not take, and for wrong results.
        """
        arguments = _arguments(case)
        memory, scalars = self.uploaded(case, program, arguments=arguments)
        launches = bind({**memory, **scalars})
        if is_checked:
            self.run(launches)
            names = sorted(written(program.kernel))
            results = {name: self.download(memory[name], cast("Array", arguments[name])) for name in names}
            if case.configuration.check is not None:
                case.configuration.check(results)
            else:
                verify(results, case.configuration.reference(arguments), case.configuration.tolerance)
        return launches

    def uploaded(
        self,
        case: BenchmarkCase,
        program: CompiledKernel,
        contents: Contents | None = None,
        arguments: Arguments | None = None,
    ) -> tuple[dict[str, Memory], dict[str, object]]:
        """Return memory with the arrays of the case, and its scalars, by name; of *contents*, only the beginning.

        *arguments* are the case's, if they are made already. Raises :class:`MeasurementError` for arguments that the
        kernel does not take.
        """
        made = _arguments(case) if arguments is None else arguments
        checked = checked_arguments(program.kernel, made, case.sizes)
        arrays = {name: value for name, value in checked.items() if isinstance(value, np.ndarray)}
        memory = {name: self.upload(beginning(value, (contents or {}).get(name))) for name, value in arrays.items()}
        scalars = {name: value.item() for name, value in checked.items() if isinstance(value, np.generic)}
        return memory, scalars


def _arguments(case: BenchmarkCase) -> Arguments:
    return case.configuration.arguments(np.random.default_rng(SEED), case.sizes)


def written(kernel: LoopKernel) -> frozenset[str]:
    """Return the names of the arguments that *kernel* writes."""
    return frozenset(kernel.get_written_variables() & set(kernel.arg_dict))
