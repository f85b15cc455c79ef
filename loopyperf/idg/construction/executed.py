"""The program of a launch, and the instructions that the warps of one class execute."""

from functools import cached_property
from typing import Any, cast

import islpy as isl
import numpy as np
import pymbolic.primitives as prim
from loopy.symbolic import SubstitutionMapper

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.sizes import Typical
from loopyperf.idg.construction.drafts import Draft, PrivateElements, Value
from loopyperf.idg.construction.loop_bounds import LoopBounds, Slab, Slabs, WorkItemTests
from loopyperf.idg.construction.translation import Translator, nodes_of
from loopyperf.idg.warps.executions import LaunchExecutions, WarpExecutions
from loopyperf.idg.warps.warp_classes import Nest, Statement, WarpKind, iname_values, naming, nest_of, warp_kinds
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch

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
        self.private = PrivateElements(kernel, self.translator.definitions)

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
        return Site(self.launch, draft.statement.inames, draft.conditions, draft.statement.name)

    @cached_property
    def bounding(self) -> frozenset[int]:
        """Return the positions of drafts whose results bound loops by data."""
        kernel = self.kernel.loopy_kernel
        bounds = {name for domain in kernel.domains for name in domain.get_var_names(PARAM)}
        data = bounds & kernel.temporary_variables.keys() - self.kernel.affine_temporaries.keys()
        return frozenset(each.node for each in self.translator.definitions if each.variable in data)

    @property
    def drafts(self) -> list[Draft]:
        """Return the draft instructions in program order."""
        return self.translator.drafts


def classes_of_warps(program: LaunchProgram, launch: LaunchExecutions) -> list[WarpKind]:
    """Return the warp classes of the launch of *program*, largest first."""
    executions = [launch.by_place(draft.statement, draft.conditions) for draft in program.drafts]
    return warp_kinds(launch.warps, executions)


# }}}


# {{{ instructions executed by one warp class


SET = isl.dim_type.set


class ExecutedLaunch:
    """The instructions of a launch that the warps of one class execute, represented by the example warp."""

    def __init__(self, program: LaunchProgram, launch: LaunchExecutions, kind: WarpKind) -> None:
        self.program, self.kernel, self.kind = program, program.kernel, kind
        self.launch, self.warp = launch, WarpExecutions(launch, kind.example)
        self.runs = [self.warp.run(draft.statement, draft.conditions) for draft in program.drafts]
        alive = (place for place in range(len(program.drafts)) if not self._is_idle(place))
        self.numbers = {place: number for number, place in enumerate(alive)}
        """position of a draft -> index of the instruction in the graph"""
        self.not_exact: dict[str, None] = {}
        """names of the arrays for which dependences are over-approximated"""
        self._in_iterations: dict[tuple[tuple[Nest, ...], frozenset[str]], dict[Any, Any]] = {}
        self._substitutions: dict[tuple[Nest, ...], SubstitutionMapper] = {}

    def _is_idle(self, place: int) -> bool:
        return self.runs[place].iterations.is_empty and (self.kind.is_uniform or self.of_all(place).is_empty())

    def of_all(self, place: int) -> isl.Set:
        """Return the executions of the draft at *place* by all warps of the class, for a non-uniform class."""
        draft = self.program.drafts[place]
        found = self.launch.by_place(draft.statement, draft.conditions)
        return found & self.kind.places.insert_dims(SET, self.kind.places.dim(SET), len(draft.statement.loops))

    def iterations_of_lanes(self, loops: tuple[Nest, ...]) -> tuple[int, ...]:
        """Return the trip count of each lane in the innermost of *loops*, if it depends on the lane only.

        Otherwise return an empty tuple.
        """
        used = frozenset[str]().union(*(statement.inames for statement in loops[-1].statements()))
        lanes = iname_values(self.kernel, self.warp.warp, used, self.launch.sizes)
        return self.program.bounds.iterations(loops, self.slabs, dict(self.launch.sizes) | self.warp.host, lanes)

    def of_launch_is_empty(self, place: int) -> bool:
        """Return whether no warp of the launch executes the draft at *place*."""
        draft = self.program.drafts[place]
        return self.launch.by_place(draft.statement, draft.conditions).is_empty()

    def is_entered(self, loops: tuple[Nest, ...]) -> bool:
        """Return whether the warp enters the innermost of *loops*."""
        return not any(self.warp.nest(loops).visited(loops[:depth]).is_empty for depth in range(1, len(loops) + 1))

    def draft(self, place: int) -> Draft:
        """Return the draft at position *place* of the program."""
        return self.program.drafts[place]

    def nodes_of(self, value: Value) -> tuple[int, ...]:
        """Return the positions of the drafts that compute *value*."""
        return nodes_of(value, self.program.drafts)

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
        return values | {name: int(each[0]) for name, each in lanes.items()}

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

    def _substitution(self, loops: tuple[Nest, ...]) -> SubstitutionMapper:
        if loops not in self._substitutions:
            values = dict(self.launch.sizes) | self.warp.host | self.values_in_iterations(loops)
            self._substitutions[loops] = _Substitution(
                lambda leaf: values.get(leaf.name) if isinstance(leaf, prim.Variable) else None
            )
        return self._substitutions[loops]

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
