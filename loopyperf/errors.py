"""Errors and warnings, each named for its cause; all errors derive from :class:`LoopyperfError`.

A message states what is wrong, what was received and what to do next. The command line prints it on one line and exits
with status 1.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import islice
from textwrap import shorten
from typing import Any

from loopyperf.units import listed, printable

ENGINE_REMEDY = "run: pip install --force-reinstall --no-deps 'islpy-barvinok==2025.2.5.post1'"
"""pip installs plain islpy, which loopy requires, over islpy-barvinok; so install the latter last"""


def cannot_start(error: ImportError) -> str:
    """Return the message for an installation in which an import fails."""
    return f"loopyperf cannot start: {error}; if this is about islpy, {ENGINE_REMEDY}"


def brief(quoted: object, most: int = 120) -> str:
    """Return *quoted*, such as the error of a parser, as text without its middle beyond *most* characters."""
    text = str(quoted)
    return text if len(text) <= most else f"{text[: most * 2 // 3]} … {text[-most // 3 :]}"


VERSION = re.compile(r"[0-9][0-9a-z.+]{,29}")
"""a version number, which is safe inside a shell command"""
MAX_MESSAGE = 1000
"""maximum length of a message, in characters"""


def later_schema(source: object, schema: int, latest: int, writer: object = None) -> str:
    """Return the message for the file *source*, whose *schema* is later than *latest*, the last one that can be read.

    *writer* is the version of loopyperf that wrote the file, if the file states it. The advised command contains it
    only if it is a version number.
    """
    is_version = isinstance(writer, str) and VERSION.fullmatch(writer)
    own = import_module("importlib.metadata").version("loopyperf")  # imported late: it takes 0.03 s
    wanted = f"'loopyperf>={writer}'" if is_version else "--upgrade loopyperf"
    return (
        f"{source} has schema {schema!s:.20}, but loopyperf {own} reads schemas up to {latest}; upgrade: "
        f"pip install {wanted}"
    )


class LoopyperfError(Exception):
    """Base class of all errors that loopyperf raises.

    A message may quote a file from an untrusted source, so ``str`` returns it on one line, with control characters
    escaped, and without its middle if it is longer than :data:`MAX_MESSAGE`.
    """

    def __str__(self) -> str:
        text = printable(" ".join(super().__str__().split()))
        return brief(text, MAX_MESSAGE)


class LoopyperfWarning(UserWarning):
    """Base class of loopyperf's warnings: the input is accepted, but the result may not be what was expected."""


class ConvergenceWarning(LoopyperfWarning):
    """The optimizer stopped before it reached a minimum, so the fit may not be optimal."""


# {{{ kernels and counting


class KernelError(LoopyperfError):
    """The Loopy kernel cannot be analyzed: types, schedule or entry points are missing or invalid."""


class UncountableError(LoopyperfError):
    """A construct in the kernel has no exact count; the message names the instruction and the construct.

    Attributes
    ----------
    keyword : str or None
        The key to pass in ``typical`` for an assumed count; None if ``typical`` cannot help.
    """

    def __init__(self, message: str, keyword: str | None = None) -> None:
        """Store the message, and the ``typical`` key that makes the construct countable."""
        super().__init__(message)
        self.keyword = keyword


class UnboundedDomainError(UncountableError):
    """The loops around an instruction have infinitely many iterations."""


class EngineError(LoopyperfError):
    """The installed islpy cannot count symbolically, because it lacks barvinok."""


class ParameterError(LoopyperfError):
    """An argument is invalid, or a size is missing, unknown, not an integer, or violates the kernel's assumptions."""


class MissingSizeError(ParameterError):
    """A size of the kernel was not given."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        """Store the *names* of the missing sizes."""
        super().__init__(message)
        self.names = tuple(names)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to pickle it."""
        return type(self), (str(self), self.names)


class UnknownMetricError(ParameterError, KeyError):
    """A profiler metric is not predicted."""

    __str__ = Exception.__str__


# }}}


# {{{ graphs


class GraphError(LoopyperfError):
    """An instruction dependence graph is invalid, or larger than the given limit."""


class SimulationError(LoopyperfError):
    """A simulation cannot run: the simulator is not compiled, an argument is invalid, or it takes too many cycles."""


# }}}


# {{{ devices, models, fits


class UnknownDeviceError(LoopyperfError):
    """No device has the given name, or no device was given."""


class DeviceFileError(LoopyperfError):
    """A device file is missing, corrupt, or contains an invalid value."""


class MissingNumberError(LoopyperfError):
    """A required device parameter is not in the device file, because no published value is known."""


class OccupancyError(LoopyperfError):
    """A work-group does not fit on a core of the device."""


class UnknownModelError(LoopyperfError):
    """No model has the given name."""


class ModelInputError(LoopyperfError):
    """An input of a model or a metric is out of range; the message names the input and its range."""


class FitFileError(LoopyperfError):
    """A fit file is missing, corrupt, not writable, or written by a later version of loopyperf."""


class IncompatibleRunsError(LoopyperfError):
    """Measurements from different devices, drivers or protocols cannot be combined."""


class CalibrationError(LoopyperfError):
    """The measurements do not determine a fit."""


# }}}


# {{{ measurement


class BackendError(LoopyperfError):
    """The device or its driver is not usable."""


class CompilerError(LoopyperfError):
    """The device's compiler is not installed, or rejects the source."""


class MeasurementError(LoopyperfError):
    """A kernel cannot be measured, or computes a wrong result."""


class ArchiveError(LoopyperfError):
    """A measurement archive cannot be read or written."""


class KernelFileError(LoopyperfError):
    """A file of measurement or test kernels lacks the required definitions."""


# }}}


def one_line(error: BaseException) -> str:
    """Return the message of *error* on one line, with control characters escaped; empty if it has no message."""
    return printable(" ".join(str(error).split()))


MAX_REASON = 80
"""maximum length of a reason in a table, in characters"""
MAX_NAMED = 20
"""maximum number of names listed for one reason"""
MAX_REASONS = 12
"""maximum number of reasons listed"""


def in_short(reason: str) -> str:
    """Return the first clause of *reason*: what is wrong, without what to do."""
    words = reason.partition(";")[0].partition(": ")[0]
    # A truncated parenthesis is useless, so drop it whole.
    return shorten(words if len(words) <= MAX_REASON else words.partition(" (")[0], MAX_REASON, placeholder=" …")


def by_reason(refusals: Mapping[str, str]) -> dict[str, list[str]]:
    """Return reason -> names that failed for that reason, in the order of *refusals*."""
    found: dict[str, list[str]] = {}
    for name, reason in refusals.items():
        found.setdefault(reason, []).append(name)
    return found


def unanswered(refusals: Mapping[str, str], as_said: Callable[[str], str] = in_short) -> list[str]:
    """Return one line for each reason (shortened by *as_said*) with the names that it applies to."""
    grouped = by_reason({name: as_said(reason) for name, reason in refusals.items()})
    between = "; " if any(", " in name for name in refusals) else ", "
    lines = [
        f"no prediction: {listed(names, MAX_NAMED, between)}: {reason}"
        for reason, names in islice(grouped.items(), MAX_REASONS)
    ]
    rest = sum(map(len, islice(grouped.values(), MAX_REASONS, None)))
    return [*lines, f"no prediction: {rest:,} more, for other reasons"] if rest else lines
