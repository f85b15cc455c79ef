"""Counts one kernel and says what became of it, in a process of its own: isl can hang, and can abort."""

import signal
import traceback
import warnings
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from loopyperf.counts.execution import COUNTINGS
from loopyperf.errors import LoopyperfError
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.properties.counted_kernel import count_properties

from .check import checked
from .outcome import Outcome, started, stated_for
from .specimen import Specimen

SECONDS = 60
"""for one kernel, both countings and their check"""


def census(specimens: Iterable[Specimen]) -> Iterator[tuple[Specimen, Outcome]]:
    """Yield each of *specimens* with what becomes of it."""
    return ((specimen, outcome(specimen)) for specimen in specimens)


def outcome(specimen: Specimen) -> Outcome:
    """Return what becomes of *specimen*, counted in a forked process that an alarm ends."""
    process, receiver = started(_report, specimen)
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGALRM:
            return Outcome("too slow", f"more than {SECONDS} s")
        return Outcome("crashed", f"the process ended with status {process.exitcode}")
    finally:
        process.join()


def _report(specimen: Specimen, sender: Connection) -> None:
    signal.alarm(SECONDS)
    warnings.simplefilter("ignore")
    sender.send(_counted(specimen))


def _counted(specimen: Specimen) -> Outcome:
    try:
        kernel = load_kernel(specimen.unit())
        typical = _answers(kernel)
        if typical:
            return Outcome("settled", "counted once the values are stated that the refusals ask for")
        counts = {counting: count_properties(kernel, counting).properties() for counting in COUNTINGS}
        return checked(kernel, counts)
    except LoopyperfError as error:
        return Outcome("refused", f"{type(error).__name__}: {error}")
    except Exception as error:  # any other is a bug, and here is where they are found
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("crashed", f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {error}")


def _answers(kernel: Kernel) -> dict[str, Any]:
    """Return the typical values with which *kernel* is counted both ways."""

    def count(typical: dict[str, Any]) -> None:
        for counting in COUNTINGS:
            count_properties(kernel, counting, typical=typical).properties()

    return stated_for(count)
