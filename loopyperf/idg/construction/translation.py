"""Translation of the statements of a launch into draft instructions: one per operation, load and store.

This is the source graph: nothing is folded, merged or contracted (see :mod:`loopyperf.compiler.compiler_model`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.instruction import Assignment
from loopy.symbolic import get_dependencies

from loopyperf.counts.conditions import Guard, parts, plain_text
from loopyperf.counts.item import Access, Overhead
from loopyperf.counts.lanes import has_call
from loopyperf.counts.memory_accesses import Reference, atomically_added, is_atomic, resolved, update_of
from loopyperf.counts.sizes import Typical
from loopyperf.counts.steps import Step, Value
from loopyperf.counts.walk import Walk
from loopyperf.errors import UncountableError
from loopyperf.idg.construction.drafts import ConditionEvaluation, Draft
from loopyperf.idg.warps.warp_classes import Statement
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Barrier


class Translator:
    """Translates statements of one launch; :attr:`drafts` grow in the order of the program."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Translate for *kernel*; *typical* gives the operations of foreign code."""
        self.kernel = kernel
        self.walk = Walk(kernel, typical, is_compiled=True)
        self.drafts: list[Draft] = []
        """one for each step of the walk"""
        self._guards: list[tuple[Any, Value, ConditionEvaluation]] = []
        """(predicate, its value, its evaluation)"""
        self._written: dict[str, int] = {}
        """variable or array -> the last statement so far that writes it"""
        self._texts: dict[Any, str] = {}
        """expression -> its text, which several operations share"""

    def translate(self, statement: Statement) -> None:
        """Append the instructions of *statement*."""
        guards, what = list(self._guards_of(statement)), statement.what
        match what:
            case Barrier(label=label):
                self.walk.steps.append(Step("barrier", label, frozenset()))
            case Guard(predicate=predicate):
                evaluation = self._evaluation(predicate, statement)
                self._guards += [(predicate, value, evaluation) for value in self.walk.predicate(what)]
            case _:
                self.walk.instruction(what)
        evaluated = {part: where for whole, _, where in guards for part in (whole, *parts(whole, self.kernel.is_known))}
        controls = tuple(value for _, value, _ in guards)
        for step in self.walk.steps[len(self.drafts) :]:
            self.drafts.append(self._draft(step, statement, controls, evaluated))
        if not isinstance(what, Barrier | Guard):
            written = cast("frozenset[str]", what.write_dependency_names())
            self._written |= dict.fromkeys(written, statement.number)

    def _guards_of(self, statement: Statement) -> Iterator[tuple[Any, Value, ConditionEvaluation]]:
        """Yield the predicates that guard *statement*, with their values and evaluations."""
        what = statement.what
        required = what.before if isinstance(what, Guard) else () if isinstance(what, Barrier) else what.predicates
        for predicate in required:
            same = (each for each in self._guards if each[0] == predicate)
            around = [each for each in same if statement.loops[: len(each[2].loops)] == each[2].loops]
            yield from around[-1:]

    def _evaluation(self, condition: Any, statement: Statement) -> ConditionEvaluation:
        """Return the evaluation of *condition* at *statement*."""
        version = max((self._written.get(name, -1) for name in get_dependencies(condition)), default=-1)
        return ConditionEvaluation(statement.loops, version)

    def _draft(
        self,
        step: Step,
        statement: Statement,
        controls: tuple[Value, ...],
        evaluated: Mapping[Any, ConditionEvaluation],
    ) -> Draft:
        """Return the draft of *step*; *evaluated* has the evaluations of the predicates that guard *statement*."""
        if isinstance(step.item, Access):
            raise UncountableError(
                f"the addresses of the {step.item.direction}s in typical[{step.text!r}] are unknown; "
                "give only its operations, or use a model without a graph, such as model='linear'"
            )
        if isinstance(step.item, Overhead):
            raise UncountableError(
                f"typical[{step.text!r}] has {step.item}, which is not an operation; give operations"
            )
        tested = (condition.expression for condition in step.conditions)
        text = self._texts.get(step.text)
        if text is None:
            text = self._texts[step.text] = plain_text(step.text, self.kernel.function_names)
        is_node = isinstance(step.expression, prim.ExpressionNode)
        is_known = is_node and self.kernel.is_known(step.expression) and not has_call(step.expression)
        return Draft(
            step,
            statement,
            text,
            reference=None if step.reference is None else self._resolved(step.reference, statement),
            expression=step.expression if is_known else None,
            controls=(*controls, *step.controls),
            evaluations={each: evaluated.get(each) or self._evaluation(each, statement) for each in tested},
        )

    def _resolved(self, ref: Reference, statement: Statement) -> Reference:
        """Return *ref* with the values of known temporaries and, if *statement* is an atomic update, how it updates."""
        kernel, typical, what = self.kernel, self.walk.typical, statement.what
        ref = replace(ref, index=resolved(kernel, typical, ref.index, kernel.known_temporaries))
        if ref.direction == "store" and isinstance(what, Assignment) and is_atomic(what):
            is_loop = atomically_added(kernel, what) is None
            return replace(ref, update=update_of(kernel, typical, ref, is_loop))
        return ref
