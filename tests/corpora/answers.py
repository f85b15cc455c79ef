"""Runs everything that a user can request for a kernel in a separate process, and reports the outcomes."""

import signal
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import loopyperf as lpp
from loopyperf.errors import LoopyperfError
from loopyperf.kernel import Program, load_kernel

from .check import stated_and_checked
from .outcome import Kind, Outcome, started, stated_for
from .realistic import realistic_sizes
from .specimen import Specimen

Typical = dict[str, Any]
SECONDS = 60
"""limit of processor time for one task, besides Loopy's passes"""


def _count(program: Program, sizes: Mapping[str, int], typical: Typical) -> object:
    return lpp.count(program, typical=typical).properties().evaluate(**sizes)


def _estimate(device: str, model: str) -> Callable[[Program, Mapping[str, int], Typical], object]:
    def asked(program: Program, sizes: Mapping[str, int], typical: Typical) -> object:
        return lpp.estimate(program, device=device, model=model, typical=typical, parameters=sizes)

    return asked


QUESTIONS = {
    "count": _count,
    "linear": _estimate("nvidia-h200", "linear"),
    "roofline": _estimate("nvidia-a100", "roofline"),
    "pipeline": _estimate("nvidia-a100", "pipeline"),
}


@dataclass
class Answers:
    """The outcomes of all tasks for one kernel."""

    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    """sizes for the counts and estimates"""
    outcomes: dict[str, Outcome] = field(default_factory=dict[str, Outcome])
    """by task, after "load" and "sizes" and before "check", which compares with enumeration"""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """processor time by task"""

    @property
    def kind(self) -> Kind:
        """Return the worst of the kernel's outcomes; a check counts only if it failed."""
        asked = [each for task, each in self.outcomes.items() if task != "check" or each.kind == "wrong"]
        return max(asked, key=lambda each: WORSE.index(each.kind)).kind

    @property
    def slowest(self) -> float:
        """Return the processor time of the slowest task, without Loopy's passes."""
        passes = {"count": self.seconds.get("load", 0.0)}  # the first task runs them again
        return max((self.seconds.get(each, 0) - passes.get(each, 0) for each in QUESTIONS), default=0)


WORSE: tuple[Kind, ...] = ("counted", "settled", "refused", "too slow", "wrong", "crashed")


def answers(specimen: Specimen) -> Answers:
    """Return the outcomes for *specimen*, determined in a forked process with a time limit."""
    process, receiver = started(_report, specimen)
    found, asked = Answers(), "load"
    try:
        while True:
            match receiver.recv():
                case str() as asked:
                    pass
                case (Outcome() as outcome, float() as seconds):
                    found.outcomes[asked], found.seconds[asked] = outcome, seconds
                case sizes:
                    found.sizes = sizes
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGPROF:
            found.outcomes[asked] = Outcome("too slow", f"more than {SECONDS} s")
        elif process.exitcode:
            found.outcomes[asked] = Outcome("crashed", f"the process ended with status {process.exitcode}")
    return found


def _report(specimen: Specimen, sender: Connection) -> None:
    """Send the name of each task before it starts, then its outcome and seconds; also send the sizes once."""
    warnings.simplefilter("ignore")

    def timed(task: str, ask: Callable[[], Any]) -> Any:
        sender.send(task)
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS + (start if task == "count" else 0))
        outcome, found = _outcome(ask)
        sender.send((outcome, time.process_time() - start))
        return found

    program = timed("load", specimen.unit)
    kernel = program and timed("load", lambda: load_kernel(program))
    sizes = kernel and timed("sizes", lambda: realistic_sizes(kernel, specimen.arguments))
    if sizes is not None:
        sender.send(dict(sizes))
        typical: Typical = {}
        for task, ask in QUESTIONS.items():
            timed(task, lambda ask=ask: _settled(lambda values: ask(program, sizes, values), typical))
        timed("check", lambda: stated_and_checked(kernel)[1])


def _outcome(ask: Callable[[], Any]) -> tuple[Outcome, Any]:
    """Return the outcome of a task, and its result unless that is an outcome itself."""
    try:
        found = ask()
    except LoopyperfError as error:
        return Outcome("refused", f"{type(error).__name__}: {error}"), None
    except Exception as error:  # any other error is a bug, which this should find
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return Outcome("crashed", f"{type(error).__name__} at {place}: {error}"), None
    return (found, None) if isinstance(found, Outcome) else (Outcome("counted"), found)


def _settled(ask: Callable[[Typical], object], typical: Typical) -> Outcome:
    """Return whether *ask* succeeds, with or without the examples in its error messages as typical values.

    The examples are added to *typical*.
    """
    stated_for(ask, typical)
    return Outcome("settled", f"typical={typical}") if typical else Outcome("counted")
