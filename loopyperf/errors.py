"""What can go wrong, each error named for its cause; all descend from :class:`LoopyperfError`.

A message says what was wrong, what was received and what to do next. The command line prints it on one line and
exits with status 1.
"""

from collections.abc import Callable, Mapping
from importlib import metadata
from itertools import islice
from textwrap import shorten

from loopyperf.units import listed

ENGINE_REMEDY = "run: pip install --force-reinstall --no-deps 'islpy-barvinok==2025.2.5.post1'"
"""pip puts plain islpy, which loopy asks for, over islpy-barvinok, so the latter is to be installed last"""


def cannot_start(error: ImportError) -> str:
    """Return what is wrong with an installation in which something cannot be imported."""
    return f"loopyperf cannot start: {error}; if this is about islpy, {ENGINE_REMEDY}"


def later_schema(source: object, schema: int, latest: int, writer: object = None) -> str:
    """Return what is wrong with the file *source* of a *schema* after the *latest* that is read, and what to install.

    *writer* is the version of loopyperf that wrote it, where the file says so.
    """
    wanted = f"'loopyperf>={writer}'" if isinstance(writer, str) else "--upgrade loopyperf"
    return (
        f"{source} has schema {schema}, but loopyperf {metadata.version('loopyperf')} reads schemas up to {latest}; "
        f"install a later one: pip install {wanted}"
    )


class LoopyperfError(Exception):
    """Anything that loopyperf refuses, with a message for the person who asked."""


class LoopyperfWarning(UserWarning):
    """Something that loopyperf accepts but that the person who asked should know."""


class SlowSimulatorWarning(LoopyperfWarning):
    """The simulator was not compiled when loopyperf was installed: models that simulate answer slowly."""


class ConvergenceWarning(LoopyperfWarning):
    """The search for the weights of a fit stopped before it came to a minimum: others may explain more."""


# {{{ kernels and counting


class KernelError(LoopyperfError):
    """The Loopy kernel cannot be analysed as it stands (types, schedule, entry points)."""


class UncountableError(LoopyperfError):
    """Something in the kernel has no exact count; names the instruction and the construct.

    :attr:`keyword` is what to state through ``typical`` to have it counted, None where nothing would settle it.
    """

    def __init__(self, message: str, keyword: str | None = None) -> None:
        """Take the message, and the keyword that would settle it."""
        super().__init__(message)
        self.keyword = keyword


class UnboundedDomainError(UncountableError):
    """An instruction runs over infinitely many points."""


class EngineError(LoopyperfError):
    """The installed islpy cannot count symbolically (it lacks barvinok)."""


class ParameterError(LoopyperfError):
    """A problem size is missing, superfluous, not an integer, or outside the kernel's assumptions."""


# }}}


# {{{ graphs


class GraphError(LoopyperfError):
    """An instruction dependence graph that makes no sense, or is larger than what was asked for."""


class SimulationError(LoopyperfError):
    """A simulation that was asked for cannot be: its configuration makes no sense, or it is too long."""


# }}}


# {{{ devices, models, fits


class UnknownDeviceError(LoopyperfError):
    """No device of that name, or none named at all."""


class DeviceFileError(LoopyperfError):
    """A device description that is missing, corrupt, or states something that makes no sense."""


class MissingNumberError(LoopyperfError):
    """A number of a device that its description does not state, because nobody has published it."""


class OccupancyError(LoopyperfError):
    """A work-group that fits on no core of the device."""


class UnknownModelError(LoopyperfError):
    """No model of that name."""


class ModelInputError(LoopyperfError):
    """A number that a model or a metric is given lies outside its range; names the number and the range."""


class FitFileError(LoopyperfError):
    """A fit file that is missing, corrupt or written by a later version."""


class IncompatibleRunsError(LoopyperfError):
    """Measurements of different devices, drivers or protocols were to be treated as one."""


class CalibrationError(LoopyperfError):
    """The measurements do not determine a fit."""


# }}}


# {{{ measurement


class BackendError(LoopyperfError):
    """The device or its driver cannot be used."""


class CompilerError(LoopyperfError):
    """The device's compiler is not installed, or refuses a source."""


class MeasurementError(LoopyperfError):
    """A kernel could not be measured, or computed something wrong."""


class ArchiveError(LoopyperfError):
    """A measurement archive that cannot be read."""


class KernelFileError(LoopyperfError):
    """A file of measurement or test kernels that does not hold what it should."""


# }}}


def one_line(error: BaseException) -> str:
    """Return what *error* says, on one line; empty where it says nothing."""
    return " ".join(str(error).split())


SHORT = 80
"""letters of a reason in a table, at most"""
NAMED = 20
"""of those who have no answer for the same reason, at most"""
REASONS = 12
"""that are told, at most"""


def in_short(reason: str) -> str:
    """Return the beginning of *reason*: what is wrong, without what to do."""
    words = reason.partition(";")[0].partition(": ")[0]
    # Half of what stands in parentheses tells nobody anything.
    return shorten(words if len(words) <= SHORT else words.partition(" (")[0], SHORT, placeholder=" …")


def by_reason(refusals: Mapping[str, str]) -> dict[str, list[str]]:
    """Return reason -> who has no answer for it, in the order of *refusals*."""
    found: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        found.setdefault(reason, []).append(name)
    return found


def unanswered(refusals: Mapping[str, str], as_said: Callable[[str], str] = in_short) -> list[str]:
    """Return a sentence for each reason, in short or *as_said*, with those who have no answer for it."""
    told = by_reason({name: as_said(reason) for name, reason in refusals.items()})
    lines = [f"no answer: {listed(names, NAMED)}: {reason}" for reason, names in islice(told.items(), REASONS)]
    rest = sum(map(len, islice(told.values(), REASONS, None)))
    return [*lines, f"no answer: {rest:,} more, for other reasons"] if rest else lines
