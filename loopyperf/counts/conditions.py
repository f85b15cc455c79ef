"""Conditions under which an instruction executes, split where the source does not determine how often they hold.

A condition that is an affine function of loop variables and sizes stays whole: it selects points, exactly. A condition
that depends on data is split at its ``and``, ``or`` and ``not``. Its affine parts stay exact, and the user can give the
probability of each other part by name.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.diagnostic import ExpressionToAffineConversionError
from loopy.kernel.data import AddressSpace, GroupInameTag
from loopy.kernel.instruction import InstructionBase
from loopy.schedule import Barrier, EnterLoop, RunInstruction, ScheduleItem, gather_schedule_block
from loopy.symbolic import (
    LinearSubscript,
    ResolvedFunction,
    SubstitutionMapper,
    WalkMapper,
    get_dependencies,
    isl_set_from_expr,
)
from pymbolic import evaluate

from loopyperf.counts.arithmetic import FUSED_FUNCTIONS, MIN_MAX_FUNCTIONS, PARTS, SIGN_FUNCTIONS
from loopyperf.counts.sizes import ConditionKeys, Typical
from loopyperf.errors import UncountableError
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import Launch
from loopyperf.polyhedral.quasi_affine import NotQuasiAffineError, points_where_quasi_affine


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition under which an instruction executes: *expression* is true, or false if *holds* is False."""

    expression: Any
    holds: bool = True


UNDERLINED = re.compile(".(?:\N{COMBINING LOW LINE}.)+")
"""the name of a function, underlined as Loopy prints it"""


def plain_text(expression: Any, function_names: Mapping[str, str] = MappingProxyType({})) -> str:
    """Return *expression* as readable text, without the underlines that Loopy adds to the names of known functions.

    Loopy also numbers functions that are called with several types; *function_names* maps such names to the original
    ones.
    """

    def written(found: re.Match[str]) -> str:
        name = found[0].replace("\N{COMBINING LOW LINE}", "")
        return function_names.get(name, name)

    return UNDERLINED.sub(written, str(expression))


def has_fractions(expression: Any) -> bool:
    """Return whether *expression* contains a number that is not an integer."""
    finder = _FractionFinder()
    finder(expression)
    return finder.found


class _FractionFinder(WalkMapper[[]]):
    found = False

    def map_constant(self, expr: Any) -> None:
        self.found |= not isinstance(expr, (bool, np.bool_)) and expr != int(expr.real)


Conditions = frozenset[Condition]
"""conditions that all hold"""
ALWAYS: Conditions = frozenset()

MOST_ALTERNATIVES = 256
"""alternatives beyond which counting takes too long; those of several conditions multiply"""

IsKnown = Callable[[Any], bool]
"""returns whether an expression depends only on loop variables and sizes"""


def alternatives(expression: Any, is_known: IsKnown, holds: bool = True) -> Iterator[Conditions]:
    """Yield disjoint sets of conditions; *expression* equals *holds* exactly where one of the sets holds."""
    if is_known(expression):
        yield frozenset({Condition(expression, holds)})
    elif isinstance(expression, prim.LogicalNot):
        yield from alternatives(expression.child, is_known, not holds)
    elif isinstance(expression, (prim.LogicalAnd, prim.LogicalOr)):
        deciding = isinstance(expression, prim.LogicalOr)
        if holds == deciding:
            yield from _first_deciding(expression.children, is_known, deciding)
        else:
            yield from disjoint_conditions(expression.children, is_known, holds)
    else:
        yield frozenset({Condition(expression, holds)})


def disjoint_conditions(expressions: Iterable[Any], is_known: IsKnown, holds: bool = True) -> Iterator[Conditions]:
    """Yield disjoint sets of conditions; all of *expressions* equal *holds* exactly where one of the sets holds.

    Raises :class:`UncountableError` if there are more than :data:`MOST_ALTERNATIVES` sets.
    """
    each = {expression: tuple(alternatives(expression, is_known, holds)) for expression in expressions}
    if (ways := prod(map(len, each.values()))) > MOST_ALTERNATIVES:
        raise UncountableError(
            f"conditions with {ways} alternatives exceed the limit of {MOST_ALTERNATIVES}; simplify "
            f"{' and '.join(f'({plain_text(whole)})' for whole, ways in each.items() if len(ways) > 1)}"
        )
    return (ALWAYS.union(*chosen) for chosen in product(*each.values()))


def parts(expression: Any, is_known: IsKnown) -> Iterator[Any]:
    """Yield the parts into which *expression* is split at ``and``, ``or`` and ``not``."""
    if is_known(expression) or not isinstance(expression, (prim.LogicalNot, prim.LogicalAnd, prim.LogicalOr)):
        yield expression
    else:
        for child in (expression.child,) if isinstance(expression, prim.LogicalNot) else expression.children:
            yield from parts(child, is_known)


def _first_deciding(children: tuple[Any, ...], is_known: IsKnown, deciding: bool) -> Iterator[Conditions]:
    """Yield the alternatives in which one child equals *deciding* and no child before it does."""
    for place, child in enumerate(children):
        for before in disjoint_conditions(children[:place], is_known, not deciding):
            yield from (before | decided for decided in alternatives(child, is_known, deciding))


# {{{ conditions that are affine in each iteration of a short loop, but not in the whole loop
#
# An example is ``l % 2**(k+1) == 0``: isl accepts it once k is a number. A loop over the levels of a tree is as short
# as the logarithm of the tree's width, so its conditions can be counted exactly, one value of k at a time.


MOST_CASES = 64
"""cases; a loop with more iterations is not a loop over the levels of a tree"""

Values = Callable[[str], "range | None"]
"""returns the values that a loop variable may have; None if they depend on sizes or it is not a loop variable"""


def points_where(space: isl.Space, condition: Any, values: Values, most: int = MOST_CASES) -> isl.Set | None:
    """Return the points of *space* where *condition* is true; None if it is not affine in at most *most* cases.

    A case is one value of a variable, or of several variables, that have *values* to try.
    """
    try:
        return isl_set_from_expr(space, condition)
    except (ExpressionToAffineConversionError, NotImplementedError, isl.Error, AttributeError):
        # Loopy raises an AttributeError where a truth value is compared, as in (not i) == 0.
        with suppress(NotQuasiAffineError):  # Loopy does not accept bit operations, as in (i & 1) != 0
            return points_where_quasi_affine(space, condition)
        tried = ((name, values(name)) for name in sorted(get_dependencies(condition)))
        found = (_in_cases(space, condition, name, each, values, most) for name, each in tried if each)
        return next((points for points in found if points is not None), None)


def _in_cases(space: isl.Space, condition: Any, name: str, each: range, values: Values, most: int) -> isl.Set | None:
    if len(each) > most:
        return None
    cases: list[isl.Set] = []
    for value in each:
        case = points_where(space, _WithValue(name, value)(condition), values, most // len(each))
        if case is None:
            return None
        cases.append(case & isl_set_from_expr(space, prim.Comparison(prim.Variable(name), "==", value)))
    return reduce(isl.Set.union, cases).coalesce()


class _WithValue(SubstitutionMapper):
    """Replaces a variable by a number and evaluates the powers and shifts that become constant."""

    def __init__(self, name: str, value: int) -> None:
        super().__init__(lambda leaf: value if isinstance(leaf, prim.Variable) and leaf.name == name else None)

    def map_power(self, expr: prim.Power) -> Any:
        return _worked_out(super().map_power(expr))

    def map_left_shift(self, expr: prim.LeftShift) -> Any:
        return _worked_out(super().map_left_shift(expr))

    def map_right_shift(self, expr: prim.RightShift) -> Any:
        return _worked_out(super().map_right_shift(expr))


def _worked_out(expression: Any) -> Any:
    """Return *expression* as an integer if it is constant (no negative exponent or shift); otherwise unchanged."""
    if get_dependencies(expression):
        return expression
    try:
        value = cast("Any", evaluate(expression))
    except ValueError:
        return expression
    return value if isinstance(value, int) else expression


# }}}


# {{{ the schedule of a launch, with the places where predicates are evaluated
#
# Loopy's code generator writes one ``if`` around consecutive instructions and loops that share a predicate, and nests
# further ones inside. The predicate and its loads execute once for all of these instructions, and only where the outer
# predicates hold. The device does not evaluate what the host tests before a launch. The rules are those of
# ``build_loop_nest`` in Loopy's ``codegen/control.py``.


@dataclass(frozen=True, slots=True)
class Guard:
    """One evaluation of a predicate that guards several instructions."""

    predicate: Any
    before: tuple[Any, ...]
    """predicates that hold where it is evaluated"""
    inames: frozenset[str]
    instruction: InstructionBase
    """the first guarded instruction"""


@dataclass(frozen=True, slots=True)
class ScheduledLoop:
    """A sequential loop of the schedule."""

    iname: str
    body: tuple["Scheduled", ...]


Scheduled = InstructionBase | Barrier | Guard | ScheduledLoop
"""what the code of a launch executes, in order"""


@dataclass(frozen=True, slots=True)
class _Item:
    """An instruction, a barrier, or a loop with the items inside it."""

    what: InstructionBase | Barrier | str
    instructions: tuple[InstructionBase, ...]
    inside: tuple["_Item", ...] = ()
    has_barrier: bool = False

    @property
    def predicates(self) -> frozenset[Any]:
        """Return the predicates that all its instructions have."""
        required = [frozenset[Any](instruction.predicates) for instruction in self.instructions]
        return frozenset[Any].intersection(*required) if required else frozenset()


def scheduled(kernel: Kernel, launch: Launch) -> Iterator[Scheduled]:
    """Yield instructions, barriers, loops and evaluations of predicates of *launch*, in program order."""
    return _guarded(kernel, tuple(_items(kernel, launch.schedule)), launch.host_conditions, launch.host_inames)


def guards_in(items: Iterable[Scheduled]) -> Iterator[Guard]:
    """Yield the evaluations of predicates in *items*, in program order."""
    for item in items:
        if isinstance(item, ScheduledLoop):
            yield from guards_in(item.body)
        elif isinstance(item, Guard):
            yield item


def _guarded(
    kernel: Kernel, items: Sequence[_Item], before: tuple[Any, ...], loops: frozenset[str]
) -> Iterator[Scheduled]:
    while items:
        together, shared = _sharing(kernel, items, frozenset(before), loops)
        items = items[len(together) :]
        if shared:
            hardware = _hardware_inames(kernel, together)
            for number, predicate in enumerate(shared):
                needed = get_dependencies(predicate) & kernel.loopy_kernel.all_inames()
                inames = loops | hardware | needed
                yield Guard(predicate, (*before, *shared[:number]), inames, together[0].instructions[0])
            yield from _guarded(kernel, together, (*before, *shared), loops)
        elif isinstance(iname := together[0].what, str):
            yield ScheduledLoop(iname, tuple(_guarded(kernel, together[0].inside, before, loops | {iname})))
        else:
            yield together[0].what


def _sharing(
    kernel: Kernel, items: Sequence[_Item], known: frozenset[Any], loops: frozenset[str]
) -> tuple[Sequence[_Item], tuple[Any, ...]]:
    """Return the longest run of first *items* that share predicates not yet *known* to hold, and these predicates."""
    shared = _hoistable(kernel, items[0], loops) - known
    length = 1
    while length < len(items) and shared & _hoistable(kernel, items[length], loops):
        shared &= _hoistable(kernel, items[length], loops)
        length += 1
    return items[:length], tuple(sorted(shared, key=repr))


def _hoistable(kernel: Kernel, item: _Item, loops: frozenset[str]) -> frozenset[Any]:
    """Return the loop-invariant predicates of *item*, which can be evaluated before its loops."""
    if not (predicates := item.predicates):
        return predicates
    available = loops | _hardware_inames(kernel, [item])
    if item.has_barrier:  # all work-items of a group must reach the barrier
        axes = kernel.hardware_axes
        available = {iname for iname in available if isinstance(axes.get(iname), GroupInameTag) or iname in loops}
    inames = kernel.loopy_kernel.all_inames()
    return frozenset(predicate for predicate in predicates if get_dependencies(predicate) & inames <= available)


def _hardware_inames(kernel: Kernel, items: Sequence[_Item]) -> frozenset[str]:
    """Return the inames of hardware axes that all instructions of *items* use."""
    within = [instruction.within_inames for item in items for instruction in item.instructions]
    shared = frozenset[str].intersection(*within) if within else frozenset[str]()
    return frozenset(iname for iname in shared if kernel.hardware_axes.get(iname) is not None)


def _items(kernel: Kernel, schedule: Sequence[ScheduleItem]) -> Iterator[_Item]:
    end = 0
    for start, item in enumerate(schedule):
        if start < end:
            continue
        if isinstance(item, RunInstruction):
            instruction = kernel.loopy_kernel.id_to_insn[item.insn_id]
            yield _Item(instruction, (instruction,))
        elif isinstance(item, Barrier):
            yield _Item(item, (), has_barrier=True)
        elif isinstance(item, EnterLoop):
            _, end = gather_schedule_block(schedule, start)
            inside = tuple(_items(kernel, schedule[start + 1 : end - 1]))
            instructions = tuple(instruction for within in inside for instruction in within.instructions)
            yield _Item(item.iname, instructions, inside, any(within.has_barrier for within in inside))


# }}}


# {{{ operands of conditional expressions and short-circuit operators that execute whatever a condition on data
#
# GPU compilers turn a choice between two values that are cheap to compute into a select: both are computed, so it does
# not matter how often the condition holds. They do not load from global memory speculatively, and branch around long
# operands and around functions with a slow path (docs/compiler/loops.md, section 6). An operand is cheap if it has at
# most :data:`SHORT` operations, none of them slow, and loads from global memory only what is loaded anyway.


SHORT = 8
"""most operations of an operand that is computed whatever the condition"""
FAST = MIN_MAX_FUNCTIONS | SIGN_FUNCTIONS | PARTS | FUSED_FUNCTIONS.keys()
"""functions without a slow path"""
SLOW = (prim.Quotient, prim.FloorDiv, prim.Remainder, prim.Power, prim.Lookup)
OPERATIONS = (prim.Sum, prim.Product, prim.Min, prim.Max, prim.Comparison, prim.If, prim.LogicalAnd, prim.LogicalOr)
Loads = Counter[Any]


def condition_keys(kernel: Kernel, expression: Any, instruction: str | None) -> ConditionKeys:
    """Return the keywords for the probability of *expression*, which may be the only condition of *instruction*."""
    arrays = sorted(get_dependencies(expression) & kernel.arrays.keys())
    written, current = (plain_text(each, kernel.function_names) for each in (kernel.as_written(expression), expression))
    return ConditionKeys(written, current, instruction, arrays[0] if len(arrays) == 1 else None)


class Selects:
    """Tells under which conditions the operands of conditional expressions are evaluated."""

    def __init__(self, kernel: Kernel, typical: Typical) -> None:
        """Read expressions of *kernel*; *typical* may give probabilities of conditions that do not matter."""
        self.kernel, self.typical = kernel, typical
        self._expression: Any = None
        """the current expression"""
        self._known_loads: Loads | None = None
        self.again: frozenset[Any] = frozenset()
        """elements that the current side of a select uses, but that are loaded elsewhere"""

    def begin(self, expression: Any) -> None:
        """Begin with another *expression*."""
        self._expression, self._known_loads = expression, None

    @property
    def _loaded(self) -> Loads:
        """Return the elements of global memory that are loaded whatever the conditions; most expressions have none."""
        if self._known_loads is None:
            self._known_loads = _always_loaded(self.kernel, self._expression)
        return self._known_loads

    def sides(self, choice: prim.If, instruction: str) -> Iterator[tuple[Any, Conditions]]:
        """Yield each side of *choice*, an expression of *instruction*, with the conditions of each evaluation."""
        before, condition, known = (self._loaded, self.again), choice.condition, self.kernel.is_known
        own = _always_loaded(self.kernel, choice)
        certain = self._loaded - own + _always_loaded(self.kernel, condition)
        self._known_loads = self._loaded | own
        if not known(condition) and self._is_cheap(choice.then) and self._is_cheap(choice.else_):
            self._accept(condition, instruction)
            self.again |= certain.keys()
            yield choice.then, ALWAYS
            self.again |= self._loaded.keys()
            yield choice.else_, ALWAYS
        else:
            for side, holds in ((choice.then, True), (choice.else_, False)):
                yield from ((side, chosen) for chosen in alternatives(condition, known, holds))
        self._known_loads, self.again = before

    def operands(
        self, junction: prim.LogicalAnd | prim.LogicalOr, instruction: str
    ) -> Iterator[tuple[Any, list[Conditions]]]:
        """Yield each operand of *junction*, an expression of *instruction*, with the conditions of its evaluations."""
        known, decisive = self.kernel.is_known, isinstance(junction, prim.LogicalOr)
        before: list[Any] = []
        for child in junction.children:
            on_data = [each for each in before if not known(each)]
            if on_data and self._is_cheap(child):
                for condition in on_data:
                    self._accept(condition, instruction)
                yield child, [*disjoint_conditions([each for each in before if known(each)], known, not decisive)]
            else:
                yield child, [*disjoint_conditions(before, known, not decisive)]
            if with_values(child, self.kernel.constant_temporaries) is not (not decisive):
                before.append(child)

    def _accept(self, condition: Any, instruction: str) -> None:
        """Accept probabilities of the parts of *condition*, which change nothing."""
        for part in parts(condition, self.kernel.is_known):
            if not self.kernel.is_known(part):
                self.typical.share(condition_keys(self.kernel, part, instruction))

    def _is_cheap(self, operand: Any) -> bool:
        side = _Operand(self.kernel)
        side(operand)
        return not side.is_slow and side.operations <= SHORT and side.loads <= self._loaded.keys()


def _always_loaded(kernel: Kernel, expression: Any) -> Loads:
    """Return how often *expression* loads each element of global memory, whatever its conditions."""
    match expression:
        case prim.If(condition=condition, then=then, else_=otherwise):
            both = _always_loaded(kernel, then) & _always_loaded(kernel, otherwise)
            return _always_loaded(kernel, condition) + both
        case prim.LogicalAnd(children=(first, *_)) | prim.LogicalOr(children=(first, *_)):
            return _always_loaded(kernel, first)
        case prim.Comparison(left=left, right=right):
            return _always_loaded(kernel, left) + _always_loaded(kernel, right)
        case prim.LogicalNot(child=child):
            return _always_loaded(kernel, child)
        case prim.Sum(children=children) | prim.Product(children=children):
            return sum((_always_loaded(kernel, child) for child in children), Loads())
        case _:
            inside = _Operand(kernel)
            inside(expression)
            return Loads() if inside.is_conditional else Loads(inside.loads)


class _Operand(WalkMapper[[]]):
    """Finds what it takes to evaluate an operand."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.loads = set[Any]()
        self.operations = 0
        self.is_slow = self.is_conditional = False

    def visit(self, expr: Any) -> bool:
        is_square = isinstance(expr, prim.Power) and expr.exponent == 2
        self.is_slow |= isinstance(expr, SLOW) and not is_square
        self.is_conditional |= isinstance(expr, (prim.If, prim.LogicalAnd, prim.LogicalOr))
        if isinstance(expr, OPERATIONS):
            children: tuple[Any, ...] = getattr(expr, "children", (None, None))
            self.operations += len(children) - 1
        return True

    def map_subscript(self, expr: Any) -> None:
        array = self.kernel.arrays.get(expr.aggregate.name) if isinstance(expr.aggregate, prim.Variable) else None
        if array is not None and array.address_space != AddressSpace.LOCAL:
            self.loads.add(expr)

    def map_variable(self, expr: prim.Variable) -> None:
        array = self.kernel.arrays.get(expr.name)
        if array is not None and array.address_space != AddressSpace.LOCAL:
            self.loads.add(expr)

    def map_linear_subscript(self, expr: LinearSubscript) -> None:
        self.loads.add(expr)

    def map_call(self, expr: prim.Call) -> None:
        function = expr.function
        name = self.kernel.callables[function.name].name if isinstance(function, ResolvedFunction) else None
        self.is_slow |= cast("Any", name) not in FAST
        self.operations += 1
        for parameter in expr.parameters:
            self.rec(parameter)


# }}}
