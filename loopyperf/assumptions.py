"""What was assumed: one sentence for each kind of assumption, however many accesses it was made for."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

SUBJECTS = "<subjects>"
"""where a sentence lists what it is about"""
NAME = "<name>"
"""where a sentence names the first array that it is about, as in an example of what to state"""
NAMED = 3
"""arrays that a sentence names, at most"""


class Assumption(NamedTuple):
    """What was assumed of one access, or of one variable."""

    sentence: str
    """with :data:`SUBJECTS` and, where it gives an example, :data:`NAME` in it"""
    name: str
    """of the array or variable"""
    subject: str
    """the access, as a person reads it; the name alone where it is the variable"""


Assumed = Assumption | str
"""an assumption, or a sentence of its own"""


def sentences(assumed: Iterable[Assumed]) -> tuple[str, ...]:
    """Return one sentence for each kind of assumption, in the order in which the first of each kind was made."""
    kinds: dict[str, dict[str, dict[str, None]]] = {}
    for each in assumed:
        sentence, name, subject = (each, "", "") if isinstance(each, str) else each
        kinds.setdefault(sentence, {}).setdefault(name, {})[subject] = None
    return tuple(
        sentence.replace(SUBJECTS, _listed(subjects)).replace(NAME, next(iter(subjects)))
        for sentence, subjects in kinds.items()
    )


def _listed(subjects: Mapping[str, Iterable[str]]) -> str:
    """Return the first subject of each name, with how many more there are."""
    parts = [_first_of(list(each)) for each in subjects.values()]
    more = len(parts) - NAMED
    return ", ".join(parts[:NAMED]) + (f" and {more} more array{'s' * (more > 1)}" if more > 0 else "")


def _first_of(subjects: list[str]) -> str:
    more = len(subjects) - 1
    return subjects[0] + (f" (and {more} more access{'es' * (more > 1)} of it)" if more else "")
