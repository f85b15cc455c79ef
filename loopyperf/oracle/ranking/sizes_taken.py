"""Variants that take different sizes: each gets those that it takes, and a size that makes no sense is found early."""

from collections.abc import Mapping
from typing import Any

from loopy.kernel.data import ValueArg
from loopy.types import LoopyType

from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.models.result import Estimate
from loopyperf.oracle.ranking.outcome import Unanswered
from loopyperf.polyhedral.closed_forms.evaluation import missing_sizes
from loopyperf.predict.case import prepared

LOOKED_AT = 8
"""variants that tell which sizes there are"""

Sizes = Mapping[str, Any]


def sizes_taken(program: Program, sizes: Sizes) -> Sizes:
    """Return those of *sizes* that *program* takes; Loopy's passes are not needed to know them."""
    arguments = as_translation_unit(program).default_entrypoint.args
    names = {each.name for each in arguments if isinstance(each, ValueArg) and _may_be_integer(each)}
    return {name: size for name, size in sizes.items() if name in names}


def sizes_lacking(program: Program, sizes: Sizes) -> frozenset[str]:
    """Return the names of the sizes that *program* needs beside *sizes*; none where Loopy cannot prepare it."""
    try:
        return prepared(program).sizes - set(sizes)
    except LoopyperfError:
        return frozenset()


def _may_be_integer(argument: ValueArg) -> bool:
    """Return whether *argument* is an integer, or Loopy has not found its type yet."""
    return not isinstance(argument.dtype, LoopyType) or bool(argument.dtype.is_integral())


class SizesSeen:
    """What the first variants tell of the sizes that there are."""

    def __init__(self, sizes: Sizes, variants: int) -> None:
        """Begin with nothing known of so many *variants*, which are asked about at *sizes*."""
        self._given = frozenset(sizes)
        self._variants = variants
        self._answered: set[str] = set()
        self._taken: list[frozenset[str]] = []
        self._lacking: list[frozenset[str]] = []

    def note(self, variant: str, answer: Estimate | Unanswered) -> None:
        """Take note of what came of *variant*.

        Raises :class:`ParameterError` once :data:`LOOKED_AT` variants, or all, are known of which none takes one of the
        sizes, or all need another one.
        """
        if variant in self._answered or len(self._taken) >= LOOKED_AT:
            return
        self._answered.add(variant)
        takes = answer.takes if isinstance(answer, Unanswered) else frozenset(answer.sizes)
        if takes is not None:
            self._taken.append(takes)
            self._lacking.append(answer.lacks if isinstance(answer, Unanswered) else frozenset())
        if self._taken and (len(self._taken) == LOOKED_AT or len(self._answered) == self._variants):
            self._check()

    def _check(self) -> None:
        are_several = len(self._taken) > 1
        who = f"the {len(self._taken)} variants that were looked at" if are_several else "the variant"
        missing = sorted(frozenset[str].intersection(*self._lacking))
        idle = sorted(self._given - frozenset[str]().union(*self._taken))
        if missing:
            given = ", ".join(sorted(self._given)) or "none"
            raise missing_sizes(missing, f": {who} cannot do without it; the sizes given: {given}")
        if idle:
            known = ", ".join(sorted(frozenset[str]().union(*self._taken))) or "none"
            raise ParameterError(
                f"superfluous size {', '.join(idle)}: {who} {'use' if are_several else 'uses'} only these of the given "
                f"sizes: {known}; leave it out, or check whether it is a misspelt option"
            )
