"""The outcome of one kernel: whether it was counted, how the counts were checked, or why it was not counted."""

import ast
import multiprocessing
import re
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Any, Literal

from loopyperf.errors import UncountableError

from .specimen import Specimen

Kind = Literal["counted", "settled", "refused", "no code", "crashed", "too slow", "wrong"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a kernel, with the reason."""

    kind: Kind
    reason: str = ""
    """class and message of the error, what is wrong with the counts, or how they were checked"""

    @property
    def class_of_reason(self) -> str:
        """Return the reason without names and expressions that are specific to the kernel."""
        reason = " ".join(self.reason.split())
        for pattern, replacement in PARTICULARS:
            reason = re.sub(pattern, replacement, reason)
        return reason


PARTICULARS = (
    (r"^(\w+): (instruction '[^']*': )?", r"\1: "),
    (r"type np:dtype\(\[.*\]\)", "a structure"),
    (r"infinitely many points in .*", "infinitely many points"),
    (r"arguments without a type: .*; set", "arguments without a type: ...; set"),
    (r"no count for (\w+), a function", "no count for ..., a function"),
    (r"(assignment to a|no count for) (\w+)(:| in) .*", r"\1 \2"),
    (r"at \{.*", "..."),
    (r"'[^']*'", "'...'"),
)
"""patterns and replacements, applied in this order"""


def started(report: Callable[[Specimen, Connection], None], specimen: Specimen) -> tuple[ForkProcess, Connection]:
    """Return a forked process that runs *report* on *specimen*, and the receiving end of its pipe."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=report, args=(specimen, sender))
    process.start()
    sender.close()
    return process, receiver


def stated_for(ask: Callable[[dict[str, Any]], object], typical: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the typical values that *ask* requires: the examples in its error messages, added to *typical*."""
    typical = {} if typical is None else typical
    while True:
        try:
            ask(typical)
        except UncountableError as error:
            if error.keyword is None or error.keyword in typical:
                raise
            (value,) = ast.literal_eval(str(error).rsplit("typical=", 1)[1]).values()
            typical[error.keyword] = value
        else:
            return typical
