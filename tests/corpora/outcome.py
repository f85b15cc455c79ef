"""What became of one kernel: counted, settled by what its refusal asks for, refused, crashed, too slow, or wrong."""

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal["counted", "settled", "refused", "crashed", "too slow", "wrong"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a kernel, and why."""

    kind: Kind
    reason: str = ""
    """class and message of the error, what is wrong with the counts, or what is known of them"""

    @property
    def class_of_reason(self) -> str:
        """Return the reason without the names and expressions of the one kernel."""
        reason = " ".join(self.reason.split())
        for pattern, replacement in PARTICULARS:
            reason = re.sub(pattern, replacement, reason)
        return reason


PARTICULARS = (
    (r"^(\w+): (instruction '[^']*': )?", r"\1: "),
    (r"type np:dtype\(\[.*\]\)", "a structure"),
    (r"infinitely many points in .*", "infinitely many points"),
    (r"arguments without a type: .*; state", "arguments without a type: ...; state"),
    (r"no count for (\w+), a function", "no count for ..., a function"),
    (r"(assignment to a|no count for) (\w+)(:| in) .*", r"\1 \2"),
    (r"at \{.*", "..."),
    (r"'[^']*'", "'...'"),
)
"""pattern and replacement, in this order"""
