"""The program of a launch as draft instructions, independent of the warp, and the part that one warp class executes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.kernel.array import FixedStrideArrayDimTag, VectorArrayDimTag
from loopy.kernel.data import AddressSpace, TemporaryVariable
from loopy.kernel.instruction import Assignment
from loopy.symbolic import SubstitutionMapper, get_dependencies
from pymbolic.mapper.substitutor import substitute
from pytools import memoize_method

from loopyperf.counts.conditions import Guard, parts, plain_text
from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.item import Access, Overhead
from loopyperf.counts.lanes import has_call
from loopyperf.counts.memory_accesses import (
    Reference,
    atomically_added,
    element_type,
    is_atomic,
    numbers_of_vector,
    resolved,
    update_of,
    vector_axis,
    vector_bits,
)
from loopyperf.counts.sizes import Typical
from loopyperf.counts.steps import Definition, Read, Step, Value, nodes_of
from loopyperf.counts.walk import Walk
from loopyperf.errors import UncountableError
from loopyperf.idg.executions import LaunchExecutions, WarpExecutions
from loopyperf.idg.loop_bounds import LoopBounds, Slab, Slabs, WorkItemTests
from loopyperf.idg.program import Element
from loopyperf.idg.warp_classes import Nest, Statement, WarpKind, iname_values, naming, nest_of, warp_kinds
from loopyperf.kernel import Kernel
from loopyperf.kernel.integers import with_values
from loopyperf.kernel.launches import Barrier, Launch
from loopyperf.polyhedral.affine import Affine
from loopyperf.polyhedral.points import Box, Points


@dataclass(frozen=True, slots=True)
class ConditionEvaluation:
    """Where the generated code evaluates a condition: for several statements together, or within one."""

    loops: tuple[Nest, ...]
    """enclosing loops, outermost first"""
    version: int
    """last statement before it that writes what the condition reads; -1 if none"""


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft instruction: a step of the program, with what its statement determines."""

    step: Step
    """its operation, operands and conditions; operands are numbered like drafts"""
    statement: Statement
    text: str
    """source text"""
    reference: Reference | None
    """the accessed array element, with known temporaries replaced by their values"""
    expression: Any
    """its result, if loop variables and sizes alone determine it"""
    controls: tuple[Value, ...]
    """predicates under which it executes"""
    evaluations: Mapping[Any, ConditionEvaluation]
    """expression of a condition -> its evaluation"""


@dataclass(frozen=True, slots=True, eq=False)
class CellAccess:
    """A read or write of one cell by each execution of an instruction."""

    node: int
    """position of the instruction in the program"""
    operands: tuple[int | None, ...]
    """reads only: indices of the instruction's operands that it provides; None for a dependence without operand"""
    array: str
    is_write: bool
    place: tuple[int, ...]
    """position of the statement: the index of each enclosing loop among its siblings, then its own index"""
    variables: tuple[str, ...]
    """variables of the enclosing loops, outermost first"""
    values: Points
    """values of the variables"""
    index: tuple[Any, ...] | None
    """quasi-affine expressions of the variables; None for the array as a whole"""
    numbers: Points
    """iteration numbers of the loops"""
    cells: tuple[Affine[str], ...] | None
    """the index in terms of iteration numbers, each variable named after its loop; None if it is not affine"""
    is_certain: bool = True
    """False if a condition on data decides whether the access happens"""
    is_part: bool = False
    """writes only: whether the value is the result of the instruction alone, without the other parts"""

    @property
    def iterations(self) -> tuple[Box, ...] | None:
        """Return the iteration numbers as disjoint boxes; None if there are too many boxes."""
        return self.numbers.boxes


# {{{ private-array elements of operands and results


InIterations = Callable[[Any], Any]
"""rewrites an expression of loop variables and sizes in terms of loop iterations"""


class PrivateElements:
    """The private-array elements that the instructions of one launch access."""

    def __init__(self, kernel: Kernel, definitions: Iterable[Definition]) -> None:
        self._kernel = kernel
        self._defined: dict[int, list[Definition]] = {}
        for definition in definitions:
            self._defined.setdefault(definition.node, []).append(definition)

    def defined(self, node: int, in_iterations: InIterations) -> tuple[Element, ...]:
        """Return the elements to which the result of instruction *node* is assigned."""
        cells = [Read(each.variable, each.index) for each in self._defined.get(node, ())]
        return tuple(dict.fromkeys(self._elements(cells, in_iterations)))

    def read(self, value: Value, in_iterations: InIterations) -> Element | None:
        """Return the element that operand *value* reads, if any."""
        return next(self._elements(value.reads, in_iterations), None)

    def _elements(self, cells: Sequence[Read], in_iterations: InIterations) -> Iterator[Element]:
        """Yield the element of each non-scalar cell; the members of a vector are one element."""
        for cell in cells:
            found = self._element(cell.variable, cell.index, in_iterations)
            if found is not None:
                is_whole = found.member is not None and len(cells) > 1
                yield replace(found, member=None) if is_whole else found

    def _element(self, name: str, index: Sequence[Any], in_iterations: InIterations) -> Element | None:
        """Return element *index* of array *name*, with its vector member if any; None for a scalar or single vector."""
        variable = self._kernel.loopy_kernel.temporary_variables.get(name)
        if variable is None or variable.address_space != AddressSpace.PRIVATE or not index:
            return None
        strides, length, axis = _strides(variable), _length(variable), vector_axis(variable)
        if strides is None or length is None or (axis is not None and len(index) == 1):
            return None
        bits = member_bits = 8 * element_type(variable).itemsize
        member = None
        if axis is not None:
            bits, members = vector_bits(self._kernel, variable, axis), numbers_of_vector(self._kernel, variable, axis)
            strides = tuple(stride // members for stride in strides)
            member = in_iterations(_written(self._kernel, index[axis]))
        written = [_written(self._kernel, each) for each in index]
        address = None
        if all(self._kernel.is_known(each) for place, each in enumerate(written) if place != axis):
            elements = sum((stride * each for stride, each in zip(strides, written, strict=True)), 0)
            address = Affine.around(in_iterations(elements))
        return Element(name, address, bits, length, member, member_bits if axis is not None else 0)


def _written(kernel: Kernel, index: Any) -> Any:
    """Return *index* with temporaries, and hardware axes of extent 1, replaced by their values, as in the code."""
    written = with_values(index, kernel.known_temporaries)
    values: dict[str, int] = {}
    for name in get_dependencies(written) & kernel.loopy_kernel.all_inames():
        if kernel.hardware_axes.get(name) is not None and (only := kernel.values(name)) is not None and len(only) == 1:
            values[name] = only.start
    return substitute(written, values) if values else written


def _strides(variable: TemporaryVariable) -> tuple[int, ...] | None:
    """Return the stride of each axis, in scalars; None if one is not a number.

    The stride of a vector axis is 0.
    """
    tags: Sequence[Any] = variable.dim_tags or ()
    known = [tag for tag in tags if isinstance(tag, (FixedStrideArrayDimTag, VectorArrayDimTag))]
    strides: list[Any] = [tag.stride if isinstance(tag, FixedStrideArrayDimTag) else 0 for tag in known]
    return _integers(strides) if len(strides) == len(tags) else None


def _length(variable: TemporaryVariable) -> int | None:
    """Return the number of elements of *variable*, where a vector is one; None if unknown at compile time."""
    shape: Any = variable.shape
    lengths = _integers(cast("tuple[Any, ...]", shape)) if isinstance(shape, tuple) else None
    axis = vector_axis(variable)
    return None if lengths is None else prod(length for place, length in enumerate(lengths) if place != axis)


def _integers(values: Iterable[Any]) -> tuple[int, ...] | None:
    """Return *values* as integers; None if one is not an integer."""
    found = tuple(values)
    return tuple(map(int, found)) if all(isinstance(each, (int, np.integer)) for each in found) else None


# }}}


# {{{ translation of the statements of a launch into draft instructions: one per operation, load and store
#
# This is the source graph: nothing is folded, merged or contracted (see :mod:`loopyperf.compiler.compiler_model`).


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
            same = (guard for guard in self._guards if guard[0] == predicate)
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


# }}}


# {{{ the program of a launch, independent of the warp


PARAM = isl.dim_type.param


class LaunchProgram:
    """The warp-independent program of one launch: loop nest, draft instructions, loop bounds and conditions."""

    def __init__(self, kernel: Kernel, launch: Launch, typical: Typical) -> None:
        self.kernel, self.launch, self.typical = kernel, launch, typical
        self.counter = ExecutionCounter(kernel, typical)
        self.nest = nest_of(kernel, launch)
        self.translator = Translator(kernel, typical)
        self.of_statement: dict[int, range] = {}
        self.places: dict[int, tuple[int, ...]] = {}
        self.slabs = Slabs(kernel)
        self.bounds = LoopBounds(kernel, self.slabs)
        self.tests = WorkItemTests(kernel, launch, self.slabs)
        self._translate(self.nest, ())
        self.private = PrivateElements(kernel, self.translator.walk.definitions)

    def _translate(self, nest: Nest, around: tuple[int, ...]) -> None:
        for place, item in enumerate(nest.body):
            if isinstance(item, Nest):
                self._translate(item, (*around, place))
            else:
                first = len(self.translator.drafts)
                with naming(item):
                    self.translator.translate(item)
                self.of_statement[item.number] = range(first, len(self.translator.drafts))
                self.places[item.number] = (*around, place)

    def check_weights(self) -> None:
        """Raise :class:`UncountableError` if a typical value for a condition on data is missing."""
        for draft in self.drafts:
            with naming(draft.statement):
                self.counter.weight(self.site(draft))

    def site(self, draft: Draft) -> Site:
        """Return the site at which *draft* executes."""
        return Site(self.launch, draft.statement.inames, draft.step.conditions, draft.statement.name)

    @cached_property
    def bounding(self) -> frozenset[int]:
        """Return the positions of drafts whose results bound loops by data."""
        kernel = self.kernel.loopy_kernel
        bounds = {name for domain in kernel.domains for name in domain.get_var_names(PARAM)}
        data = bounds & kernel.temporary_variables.keys() - self.kernel.affine_temporaries.keys()
        return frozenset(each.node for each in self.translator.walk.definitions if each.variable in data)

    @property
    def drafts(self) -> list[Draft]:
        """Return the draft instructions in program order."""
        return self.translator.drafts


def classes_of_warps(program: LaunchProgram, launch: LaunchExecutions) -> list[WarpKind]:
    """Return the warp classes of the launch of *program*, largest first."""
    executions = [launch.by_place(draft.statement, draft.step.conditions) for draft in program.drafts]
    return warp_kinds(launch.warps, executions)


# }}}


# {{{ instructions executed by one warp class


SET = isl.dim_type.set


class ExecutedLaunch:
    """The instructions of a launch that the warps of one class execute, represented by the example warp."""

    def __init__(self, program: LaunchProgram, launch: LaunchExecutions, kind: WarpKind) -> None:
        self.program, self.kernel, self.kind = program, program.kernel, kind
        self.launch, self.warp = launch, WarpExecutions(launch, kind.example)
        self.runs = [self.warp.run(draft.statement, draft.step.conditions) for draft in program.drafts]
        idle = {place for place, run in enumerate(self.runs) if run.iterations.is_empty}
        if not kind.is_uniform:
            idle = {place for place in idle if self.of_all(place).is_empty()}
        self.numbers = {place: number for number, place in enumerate(sorted({*range(len(self.runs))} - idle))}
        """position of a draft -> index of the instruction in the graph"""
        self.not_exact: dict[str, None] = {}
        """names of the arrays for which dependences are over-approximated"""
        self._in_iterations: dict[tuple[tuple[Nest, ...], frozenset[str]], dict[Any, Any]] = {}

    def of_all(self, place: int) -> isl.Set:
        """Return the executions of the draft at *place* by all warps of the class, for a non-uniform class."""
        loops = len(self.draft(place).statement.loops)
        return self.of_launch(place) & self.kind.places.insert_dims(SET, self.kind.places.dim(SET), loops)

    def iterations_of_lanes(self, loops: tuple[Nest, ...]) -> tuple[int, ...]:
        """Return the trip count of each lane in the innermost of *loops*, if it depends on the lane only.

        Otherwise return an empty tuple.
        """
        used = frozenset[str]().union(*(statement.inames for statement in loops[-1].statements()))
        lanes = iname_values(self.kernel, self.warp.warp, used, self.launch.sizes)
        return self.program.bounds.iterations(loops, self.slabs, dict(self.launch.sizes) | self.warp.host, lanes)

    def of_launch(self, place: int) -> isl.Set:
        """Return the executions of the draft at *place* by all warps of the launch."""
        draft = self.draft(place)
        return self.launch.by_place(draft.statement, draft.step.conditions)

    def draft(self, place: int) -> Draft:
        """Return the draft at position *place* of the program."""
        return self.program.drafts[place]

    def nodes_of(self, value: Value) -> tuple[int, ...]:
        """Return the positions of the drafts that compute *value*."""
        return nodes_of(value, self.program.translator.walk.steps)

    @cached_property
    def slabs(self) -> frozenset[Slab]:
        """Return the slabs that the warp's group is in."""
        return self.program.slabs.of(self.uniform)

    @cached_property
    def uniform(self) -> dict[str, int]:
        """Return the values of sizes, of host loops, and of hardware inames in the first lane."""
        values = dict(self.launch.sizes) | self.warp.host
        inames = frozenset[str]().union(*(draft.statement.inames for draft in self.program.drafts))
        lanes = iname_values(self.kernel, self.warp.warp, inames, self.launch.sizes)
        return values | {name: int(lane[0]) for name, lane in lanes.items()}

    def in_iterations(self, expression: Any, statement: Statement) -> Any:
        """Return *expression* of loop variables and sizes in terms of the iterations of the loops around *statement*.

        NumPy scalars become Python numbers.
        """
        if not isinstance(expression, prim.ExpressionNode):
            return _plain(expression)
        known = self._in_iterations.setdefault((statement.loops, statement.inames), {})
        if expression not in known:
            written = self.launch.lockstep(statement.inames).in_iterations(expression)
            known[expression] = self._substitution(statement.loops)(written)
        return known[expression]

    @memoize_method
    def _substitution(self, loops: tuple[Nest, ...]) -> SubstitutionMapper:
        values = dict(self.launch.sizes) | self.warp.host | self.values_in_iterations(loops)
        return _Substitution(lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None)

    def values_in_iterations(self, loops: tuple[Nest, ...]) -> dict[str, Any]:
        """Return the variables of *loops* as expressions of their iterations."""
        return {
            nest.iname: prim.Variable(nest.iname) + self.warp.nest(loops).first(loops[:depth])
            for depth, nest in enumerate(loops, 1)
        }


class _Substitution(SubstitutionMapper):
    def map_constant(self, expr: Any) -> Any:
        return _plain(expr)


def _plain(number: Any) -> Any:
    return cast("np.generic", number).item() if isinstance(number, np.generic) else number


# }}}
