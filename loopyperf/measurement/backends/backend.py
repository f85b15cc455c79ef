"""Interface of measurement backends, and the parts that they share."""

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from math import prod
from typing import Any, Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np
from loopy.kernel import LoopKernel
from numpy.typing import NDArray

from loopyperf.errors import MeasurementError
from loopyperf.measurement.arguments import checked_arguments, verify
from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Environment, Sizes
from loopyperf.measurement.records import Key, Kind, Measurement


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """Times of some runs of a case in seconds, in order, by the wall clock and by the device's clock.

    On OpenCL both clocks time the same runs. On CUDA a run timed by the device's clock starts only after all of its
    launches are queued, which would distort its wall-clock time, so there are as many separate runs for each clock. The
    two tuples are two samples of one kernel; differences between their entries have no meaning.

    Raises :class:`MeasurementError` unless both clocks have the same number of times.
    """

    wall: tuple[float, ...]
    """by the host's clock: from the first launch until the device has finished"""
    device: tuple[float, ...] | None = None
    """by the device's clock: from the start of the first launch to the end of the last, without launch overhead; None
    where the backend does not provide it"""

    def __post_init__(self) -> None:
        """Require the same number of times by either clock."""
        if self.device is not None and len(self.device) != len(self.wall):
            raise MeasurementError(f"{len(self.wall)} runs have {len(self.device)} device times; pass one for each run")

    def followed_by(self, other: Self) -> "MeasuredTimes":
        """Return the times of these runs followed by those of *other*."""
        device = None if self.device is None or other.device is None else self.device + other.device
        return MeasuredTimes(self.wall + other.wall, device)


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One kernel at one size."""

    kernel_class: str
    """``NAME`` of its kernel file"""
    configuration: Configuration
    sizes: Sizes

    def key(self, kind: Kind) -> Key:
        """Return the key under which a measurement or probe of this case is recorded."""
        return Key.of(self.kernel_class, self.configuration.label, self.sizes, kind)

    def measurement(
        self, run: str, kind: Kind, timing: MeasuredTimes, attempt: int = 1, yardstick: float | None = None
    ) -> Measurement:
        """Return the record of *timing*, taken now in the run with the id *run*."""
        return Measurement(
            run=run,
            kernel_class=self.kernel_class,
            label=self.configuration.label,
            sizes={name: int(value) for name, value in self.sizes.items()},
            kind=kind,
            samples=timing.wall,
            device_samples=timing.device,
            attempt=attempt,
            yardstick=yardstick,
            taken=datetime.now(UTC),
        )

    def __str__(self) -> str:
        """Return the case in the form ``transpose, "prefetched, 16x16", n=1024``."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f'{self.kernel_class}, "{self.configuration.label}", {sizes or "no sizes"}'


class Backend(Protocol):
    """A backend that runs and times kernels.

    A campaign alternates between two configurations, the measured one and the reference kernel. A backend therefore
    keeps the latest two compiled, each with the arrays of its latest size.
    """

    @property
    def environment(self) -> Environment:
        """Return the environment in which kernels run."""
        ...

    @property
    def limits(self) -> DeviceLimits:
        """Return the resource limits of the device."""
        ...

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Run *case* *runs* times and return the seconds of each run, in order.

        Raises :class:`MeasurementError` if it cannot be run or computes a wrong result, and :class:`BackendError` if
        the device no longer responds.
        """
        ...


# {{{ running a part of a kernel: some of the groups of one of its device programs, with the same machine code


Bytes = NDArray[np.uint8]
Grid = tuple[int, ...]
"""groups along each axis"""
Contents = Mapping[str, int]
"""number of leading bytes to upload, by array; arrays that are not listed are uploaded completely"""


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """A device program of a kernel and its launches in one run of the kernel."""

    name: str
    grids: tuple[Grid, ...]
    """grid of each launch in a run, in order"""
    saturation: int
    """Psat: the groups that the device runs at once, as reported by its runtime for this program"""

    @property
    def groups(self) -> int:
        """Return the total number of groups of a run."""
        return sum(map(prod, self.grids))

    @property
    def extents(self) -> Grid:
        """Return the maximum number of groups of a launch along each axis."""
        return tuple(map(max, zip(*self.grids, strict=True)))

    def cut(self, part: Grid) -> tuple[Grid, ...]:
        """Return the grids of the launches, each truncated to *part* along every axis."""
        return tuple(tuple(map(min, zip(grid, part, strict=True))) for grid in self.grids)


class BoundParts:
    """A kernel with its arguments on the device, ready to run in parts.

    Attributes
    ----------
    programs : tuple of DeviceProgram
        The device programs that have groups in a run, in order of their first launches.
    """

    def __init__(
        self,
        launches: Sequence[tuple[Any, DeviceProgram]],
        timed: Callable[[list[tuple[Any, Grid]], int, int], MeasuredTimes],
    ) -> None:
        """Store the *launches* of a run, each with the program of this launch alone.

        *timed* times launches on other grids, with the arguments *runs* and *evicted* of :meth:`time`.
        """
        self._launches, self._timed = launches, timed
        names = dict.fromkeys(program.name for _, program in launches)
        own = {name: [program for _, program in launches if program.name == name] for name in names}
        self.programs = tuple(
            DeviceProgram(name, sum((each.grids for each in some), ()), max(each.saturation for each in some))
            for name, some in own.items()
        )

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs of all launches of *program*, on *grids* instead of their own.

        Before each run, *evicted* bytes of other memory are touched, which is not timed. Raises
        :class:`MeasurementError` if a launch fails, or unless there is a non-empty grid for each launch of *program*,
        and :class:`BackendError` if the device is lost.
        """
        own = [launch for launch, each in self._launches if each.name == program]
        if not own:
            raise MeasurementError(f"no launch of {program} has groups at this size; use a larger size")
        if len(grids) != len(own) or not all(map(prod, grids)):
            raise MeasurementError(
                f"{program} is launched {len(own)} times and needs as many non-empty grids, got {grids}"
            )
        return self._timed(list(zip(own, grids, strict=True)), runs, evicted)


@runtime_checkable
class RunsParts(Protocol):
    """A backend that can also run a part of a kernel."""

    @property
    def environment(self) -> Environment:
        """Return the environment in which kernels run."""
        ...

    @property
    def limits(self) -> DeviceLimits:
        """Return the resource limits of the device."""
        ...

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        """Return *case* with its arguments on the device, arrays in *contents* only in part.

        Global temporaries are zeroed. Nothing is launched, so no result is verified. Raises :class:`MeasurementError`
        if the kernel does not compile or its arguments are invalid.
        """
        ...


def beginning(array: Array, nbytes: int | None) -> Bytes:
    """Return the first *nbytes* bytes of *array* in memory order, or all of them for None."""
    contents = array.ravel(order="K").view(np.uint8)
    return contents if nbytes is None else contents[: max(1, nbytes)]


# }}}


# {{{ common to backends that launch: the maximum number of launches in a run, and undisturbed timing


MOST_LAUNCHES = 1000
"""Maximum number of launches in a timed run: 1000 launches take 10 ms before they have computed anything."""


def check_launches(already: int) -> None:
    """Raise :class:`MeasurementError` if a run with *already* launches may have no more."""
    if already >= MOST_LAUNCHES:
        raise MeasurementError(
            f"one run of the kernel has more than {MOST_LAUNCHES} launches, since loops around global barriers run on "
            "the host; move these loops into the launches, or measure a smaller size"
        )


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Disable Python's garbage collector: with Loopy's many objects it takes longer than most kernels."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# }}}


# {{{ compiling and binding: arguments are generated, uploaded, used once and verified against the reference


SEED = 0
"""seed of the arrays' random contents, so that repeated measurements of a size use the same data"""
MAX_COMPILED = 6
"""configurations that stay compiled: the measured one, the reference kernel, and others that are measured in turns"""
MAX_BOUND = 2
"""configurations whose arrays stay in the device's memory"""


class CompiledKernel(Protocol):
    """A compiled kernel, as far as its arguments are concerned."""

    @property
    def kernel(self) -> LoopKernel:
        """Return the kernel."""
        ...


Program = TypeVar("Program", bound=CompiledKernel)
Memory = TypeVar("Memory")
Launches = TypeVar("Launches")


@dataclass(slots=True)
class _Kept(Generic[Program, Launches]):
    """A configuration's program, whether its results are verified, and its launches at the latest size."""

    configuration: Configuration
    program: Program
    is_verified: bool = False
    sizes: Sizes | None = None
    launches: Launches | None = None


class LaunchingBackend(ABC, Generic[Program, Memory, Launches]):
    """Base of the backends that compile each configuration once, and bind it to the arrays of one size after another.

    The latest :data:`MAX_COMPILED` configurations stay compiled; the latest :data:`MAX_BOUND` keep their arrays.
    """

    def __init__(self) -> None:
        """Start without programs."""
        self._kept: list[_Kept[Program, Launches]] = []
        """most recently used last"""

    @abstractmethod
    def _compiled(self, configuration: Configuration) -> Program:
        """Return the program of *configuration*."""

    @abstractmethod
    def _launches(self, program: Program, arguments: Mapping[str, object]) -> Launches:
        """Return the launches of one run, given device memory and scalars by argument name."""

    @abstractmethod
    def _run(self, launches: Launches) -> None:
        """Execute the launches once."""

    @abstractmethod
    def _upload(self, contents: Bytes) -> Memory:
        """Copy the bytes of an array, in memory order, to new device memory."""

    @abstractmethod
    def _download(self, memory: Memory, like: Array) -> Array:
        """Wait for all launches and copy device memory to an array like the given one."""

    def _program(self, configuration: Configuration) -> _Kept[Program, Launches]:
        """Return the program of *configuration*, compiled unless it is one of the latest."""
        found = next((each for each in self._kept if each.configuration is configuration), None)
        if found is None:
            del self._kept[: max(0, len(self._kept) - MAX_COMPILED + 1)]  # free its arrays first
            found = _Kept[Program, Launches](configuration, self._compiled(configuration))
        self._kept = [*(each for each in self._kept if each is not found), found]
        for older in self._kept[:-MAX_BOUND]:
            older.launches = older.sizes = None  # free its arrays
        return found

    def _bound(self, case: BenchmarkCase) -> Launches:
        """Return the launches of *case*, whose results are verified at the first size of each configuration.

        Raises :class:`MeasurementError` for invalid arguments and for wrong results.
        """
        kept = self._program(case.configuration)
        if kept.launches is None or dict(kept.sizes or {}) != dict(case.sizes):
            kept.launches = None  # free the arrays before allocating new ones
            arguments = _arguments(case)
            memory, scalars = self._uploaded(case, kept.program.kernel, arguments)
            launches = self._launches(kept.program, {**memory, **scalars})
            if not kept.is_verified:
                self._run(launches)
                names = sorted(written(kept.program.kernel))
                results = {name: self._download(memory[name], cast("Array", arguments[name])) for name in names}
                if case.configuration.check is not None:
                    case.configuration.check(results)
                else:
                    verify(results, case.configuration.reference(arguments), case.configuration.tolerance)
            kept.is_verified, kept.sizes, kept.launches = True, case.sizes, launches
        return kept.launches

    def _uploaded(
        self, case: BenchmarkCase, kernel: LoopKernel, arguments: Arguments, contents: Contents | None = None
    ) -> tuple[dict[str, Memory], dict[str, object]]:
        """Return device memory with the arrays among *arguments*, and the scalars, by name.

        *contents* limits the uploaded bytes by array. Raises :class:`MeasurementError` for invalid arguments.
        """
        checked = checked_arguments(kernel, arguments, case.sizes)
        arrays = {name: value for name, value in checked.items() if isinstance(value, np.ndarray)}
        memory = {name: self._upload(beginning(value, (contents or {}).get(name))) for name, value in arrays.items()}
        scalars = {name: value.item() for name, value in checked.items() if isinstance(value, np.generic)}
        return memory, scalars

    def _partly_bound(self, case: BenchmarkCase, contents: Contents) -> Launches:
        """Return the launches of *case* with only the *contents* of its arrays, without running them."""
        program = self._program(case.configuration).program
        memory, scalars = self._uploaded(case, program.kernel, _arguments(case), contents)
        return self._launches(program, {**memory, **scalars})


def _arguments(case: BenchmarkCase) -> Arguments:
    return case.configuration.arguments(np.random.default_rng(SEED), case.sizes)


def written(kernel: LoopKernel) -> frozenset[str]:
    """Return the names of the arguments that *kernel* writes."""
    return frozenset(kernel.get_written_variables() & set(kernel.arg_dict))


# }}}
