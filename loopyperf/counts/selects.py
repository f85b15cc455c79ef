"""Conditional expressions and short-circuit operators whose operands execute whatever a condition on data.

GPU compilers turn a choice between two values that are cheap to compute into a select: both are computed, so it does
not matter how often the condition holds. They do not load from global memory speculatively, and branch around long
operands and around functions with a slow path (docs/compiler/loops.md, section 6). An operand is cheap if it has at
most :data:`SHORT` operations, none of them slow, and loads from global memory only what is loaded anyway.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import pymbolic.primitives as prim
from loopy.kernel.data import AddressSpace
from loopy.symbolic import LinearSubscript, ResolvedFunction, WalkMapper, get_dependencies

from loopyperf.counts.arithmetic import FUSED_FUNCTIONS, MIN_MAX_FUNCTIONS, PARTS, SIGN_FUNCTIONS
from loopyperf.counts.conditions import ALWAYS, Conditions, alternatives, disjoint_conditions, parts, plain_text
from loopyperf.counts.sizes import ConditionKeys, Typical
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values

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
                for each in on_data:
                    self._accept(each, instruction)
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
