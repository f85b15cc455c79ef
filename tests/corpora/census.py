"""Counts one kernel and reports the outcome, in a separate process because isl can hang or abort."""

import signal
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing.connection import Connection
from pathlib import Path

import loopy as lp
from loopy.diagnostic import LoopyError

from loopyperf.errors import LoopyperfError
from loopyperf.kernel import load_kernel

from .check import stated_and_checked
from .outcome import Outcome, started
from .specimen import Specimen

SECONDS = 60
"""time limit for one kernel, including both countings and their check"""


def census(specimens: Iterable[Specimen]) -> Iterator[tuple[Specimen, Outcome]]:
    """Yield each of *specimens* with its outcome."""
    return ((specimen, outcome(specimen)) for specimen in specimens)


def outcome(specimen: Specimen) -> Outcome:
    """Return the outcome of counting *specimen* in a forked process with a time limit."""
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
        typical, found = stated_and_checked(kernel)
        if typical and found.kind == "counted":
            return Outcome("settled", "counted once the values are stated that the refusals ask for")
        return found
    except LoopyperfError as error:
        kind = "no code" if _is_unfinished(specimen.unit()) else "refused"
        return Outcome(kind, f"{type(error).__name__}: {error}")
    except Exception as error:  # any other error is a bug, which the census should find
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return Outcome("crashed", f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {error}")


def _is_unfinished(unit: object) -> bool:
    """Return whether Loopy itself generates no code for *unit*, because its tests transform it further."""
    if not isinstance(unit, lp.TranslationUnit):
        return False
    try:
        with redirect_stdout(StringIO()):  # Loopy prints kernels that it rejects
            lp.generate_code_v2(unit)
    except LoopyError:
        return True
    return False
