"""What every backend offers: the environment, its limits, and the seconds that a kernel takes."""

import gc
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Generic, Protocol, Self, TypeVar, cast, runtime_checkable

import numpy as np
from loopy.kernel import LoopKernel
from numpy.typing import NDArray

from loopyperf.errors import MeasurementError
from loopyperf.measurement.arguments import checked_arguments, verify
from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Environment, Sizes
from loopyperf.measurement.records import Key, Kind


@dataclass(frozen=True, slots=True)
class BenchmarkCase:
    """One kernel at one size."""

    kernel_class: str
    """the ``NAME`` of its kernel file"""
    configuration: Configuration
    sizes: Sizes

    def key(self, kind: Kind) -> Key:
        """Return under which key a measurement or probe of this case is recorded."""
        return Key.of(self.kernel_class, self.configuration.label, self.sizes, kind)

    def __str__(self) -> str:
        """Return the case for a message, e.g. ``transpose, "prefetched, 16x16", n=1024``."""
        sizes = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        return f'{self.kernel_class}, "{self.configuration.label}", {sizes or "no sizes"}'


@dataclass(frozen=True, slots=True)
class MeasuredTimes:
    """What some runs of a case took, in seconds, in order, and what as many took by the clock of the device.

    Whether these are the same runs is the backend's: they are on OpenCL. On CUDA a run that the device's clock is to
    time begins only when all of it is queued, which whoever waits would see, so there are as many runs for each clock.
    The two lists are two samples of one kernel, and no difference between two of their entries means anything.

    Raises :class:`MeasurementError` unless there are as many times by either clock.
    """

    wall: tuple[float, ...]
    """by the clock of whoever waits: from the first launch until the device is done"""
    device: tuple[float, ...] | None = None
    """by the clock of the device: from the start of the first launch to the end of the last, without what launching
    takes; None where the backend cannot tell"""

    def __post_init__(self) -> None:
        """Refuse other than as many times by either clock."""
        if self.device is not None and len(self.device) != len(self.wall):
            raise MeasurementError(
                f"{len(self.wall)} runs have {len(self.device)} times of the device; give one for each run"
            )

    def followed_by(self, other: Self) -> "MeasuredTimes":
        """Return the times of these runs and then of the *other* ones."""
        device = None if self.device is None or other.device is None else self.device + other.device
        return MeasuredTimes(self.wall + other.wall, device)


class Backend(Protocol):
    """Something that runs kernels and tells how long they took.

    A campaign asks for two configurations in turns, what it measures and the yardstick: a backend keeps the latest two
    compiled, each with the arrays of its latest size (:class:`loopyperf.measurement.backends.backend.Recent`).
    """

    @property
    def environment(self) -> Environment:
        """Return where the kernels run."""
        ...

    @property
    def limits(self) -> DeviceLimits:
        """Return what the device allows a kernel to use."""
        ...

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs of *case*, in order.

        Raises :class:`MeasurementError` if it cannot be run, or computes something wrong, and :class:`BackendError` if
        the device does not answer any more.
        """
        ...


@runtime_checkable
class EmptiesCaches(Protocol):
    """A backend that can also measure with cold caches."""

    def empty_caches(self) -> None:
        """Read and write more than the device's last cache holds, and return when that is done."""
        ...


# {{{ running a part of a kernel
#
# Some of the groups of one of its device programs, by the same machine code.


Bytes = NDArray[np.uint8]
Grid = tuple[int, ...]
"""groups along each axis"""
Contents = Mapping[str, int]
"""array -> how many of its first bytes are on the device; of others all are"""


@dataclass(frozen=True, slots=True)
class DeviceProgram:
    """A device program of a kernel, as a run of the kernel launches it."""

    name: str
    grids: tuple[Grid, ...]
    """of each launch in a run, in their order"""
    saturation: int
    """Psat: the groups that the device runs at once, by what its runtime says of this program"""

    @property
    def groups(self) -> int:
        """Return the groups of all launches of a run."""
        return sum(map(prod, self.grids))

    @property
    def extents(self) -> Grid:
        """Return the most groups along each axis that a launch has."""
        return tuple(map(max, zip(*self.grids, strict=True)))

    def cut(self, part: Grid) -> tuple[Grid, ...]:
        """Return the grids of the launches, each no longer than *part* along any axis."""
        return tuple(tuple(map(min, zip(grid, part, strict=True))) for grid in self.grids)


class BoundParts(Protocol):
    """A kernel with its arguments on the device, of which parts can be run."""

    @property
    def programs(self) -> tuple[DeviceProgram, ...]:
        """Return the device programs that have groups in a run, in the order of their first launches."""
        ...

    def time(self, program: str, grids: Sequence[Grid], runs: int, evicted: int = 0) -> MeasuredTimes:
        """Return the seconds of each of *runs* runs of all launches of *program*, with *grids* in place of theirs.

        Before each run, as many bytes of other memory as *evicted* says are touched, which is not timed.
        Raises :class:`MeasurementError` where it cannot be launched, and :class:`BackendError` if the device is lost.
        """
        ...


@runtime_checkable
class RunsParts(Protocol):
    """A backend that can also run a part of a kernel."""

    @property
    def environment(self) -> Environment:
        """Return where the kernels run."""
        ...

    @property
    def limits(self) -> DeviceLimits:
        """Return what the device allows a kernel to use."""
        ...

    def bound(self, case: BenchmarkCase, contents: Contents) -> BoundParts:
        """Return *case* with its arguments on the device, of some arrays only the beginning.

        Global temporaries are zeros. Nothing is launched, so no result is compared with the reference. Raises
        :class:`MeasurementError` if it does not compile, or if its arguments are not what it takes.
        """
        ...


def device_programs(launches: Sequence[tuple[str, Grid, int]]) -> tuple[DeviceProgram, ...]:
    """Return the programs of *launches*: of each the program's name, its grid, and Psat."""
    names = dict.fromkeys(name for name, _, _ in launches)
    return tuple(
        DeviceProgram(
            name,
            tuple(grid for each, grid, _ in launches if each == name),
            max(saturation for each, _, saturation in launches if each == name),
        )
        for name in names
    )


def beginning(array: Array, nbytes: int | None) -> Bytes:
    """Return the first *nbytes* bytes of *array* in the order in which they lie, all of them for None."""
    contents = array.ravel(order="K").view(np.uint8)
    return contents if nbytes is None else contents[: max(1, nbytes)]


def check_parts(program: str, launches: int, grids: Sequence[Grid]) -> None:
    """Raise :class:`MeasurementError` unless there is a grid for each of so many *launches*, with groups in it."""
    if not launches:
        raise MeasurementError(f"no launch of {program} has groups: there is no such device program at this size")
    if len(grids) != launches or not all(map(prod, grids)):
        raise MeasurementError(f"{program} is launched {launches} times; give as many grids with groups, not {grids}")


# }}}


# {{{ a program with arrays of one size
#
# Contents made, uploaded, launched once and compared with the reference.


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


# }}}


# {{{ what backends that launch have in common
#
# How much may be in one run, and what must not disturb it.


MOST_LAUNCHES = 1000
"""What launches more in one run is not timed: 1000 launches take 10 ms before they have computed anything."""


def check_launches(already: int) -> None:
    """Raise :class:`MeasurementError` if no launch may follow those that a run has *already*."""
    if already >= MOST_LAUNCHES:
        raise MeasurementError(
            f"one run of the kernel is more than {MOST_LAUNCHES} launches: the loops around its global barriers "
            "run on the host; move them into the launches, or measure a smaller size"
        )


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Keep Python from collecting: Loopy leaves so many objects that this takes longer than most kernels."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# }}}


# {{{ the few values that were asked for last
#
# What a backend keeps compiled, and which arrays it keeps.


Asked = TypeVar("Asked")
Value = TypeVar("Value")


class Recent(Generic[Asked, Value]):
    """Keeps the *most* values that were asked for last, by keys that need not be hashable.

    The value that was not asked for the longest goes before another one is made, so that there is room for that.
    """

    def __init__(self, most: int, same: Callable[[Asked, Asked], bool]) -> None:
        """Keep up to *most* values; *same* says whether two keys stand for one."""
        self._most = most
        self._same = same
        self._kept: list[tuple[Asked, Value]] = []
        """the latest last"""

    def get(self, key: Asked, make: Callable[[Asked], Value]) -> Value:
        """Return the value of *key*, made by *make* if it is not there; what that raises leaves no value."""
        found = next((pair for pair in self._kept if self._same(pair[0], key)), None)
        if found is None:
            del self._kept[: max(0, len(self._kept) - self._most + 1)]
            found = (key, make(key))
        self._kept = [*(pair for pair in self._kept if pair is not found), found]
        return found[1]


# }}}


# {{{ latest programs


KEPT = 2
"""configurations that stay compiled: what is measured, and the yardstick"""

Program = TypeVar("Program")
Bound = TypeVar("Bound")


@dataclass(slots=True)
class _Kept(Generic[Program, Bound]):
    """A configuration's program, whether its results were found to be right, and its launches at the latest size."""

    program: Program
    is_verified: bool = False
    bound: tuple[Sizes, Bound] | None = None


class LatestPrograms(Generic[Program, Bound]):
    """Compiles a configuration once, has its results checked once, and binds it to arrays at one size after another.

    The older of two configurations goes, with its arrays, when another one comes.
    """

    def __init__(
        self, compiled: Callable[[Configuration], Program], bound: Callable[[BenchmarkCase, Program, bool], Bound]
    ) -> None:
        """Make programs by *compiled*; *bound* makes the launches of a case, and checks their results if it is told."""
        self._compiled, self._bound = compiled, bound
        self._kept: Recent[Configuration, _Kept[Program, Bound]] = Recent(KEPT, lambda one, other: one is other)

    def launches(self, case: BenchmarkCase) -> Bound:
        """Return what runs *case*; raises what compiling and binding raise."""
        kept = self._kept.get(case.configuration, self._new)
        if kept.bound is None or dict(kept.bound[0]) != dict(case.sizes):
            kept.bound = None  # frees the arrays before the next ones are made
            launches = self._bound(case, kept.program, not kept.is_verified)
            kept.is_verified, kept.bound = True, (case.sizes, launches)
        return kept.bound[1]

    def _new(self, configuration: Configuration) -> _Kept[Program, Bound]:
        return _Kept(self._compiled(configuration))


# }}}
