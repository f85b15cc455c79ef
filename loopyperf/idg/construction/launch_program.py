"""What every warp of one launch executes, as far as it does not depend on the warp: the drafts of its instructions."""

from functools import cached_property

import islpy as isl

from loopyperf.counts.execution import ExecutionCounter
from loopyperf.counts.typical import Typical
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.loop_bounds import LoopBounds
from loopyperf.idg.construction.private_elements import PrivateElements
from loopyperf.idg.construction.slabs import Slabs
from loopyperf.idg.construction.translation import Translator
from loopyperf.idg.construction.work_item_tests import WorkItemTests
from loopyperf.idg.warps.executions import LaunchExecutions, naming
from loopyperf.idg.warps.kinds import Kind, kinds_of
from loopyperf.idg.warps.nest import Nest, nest_of
from loopyperf.kernel import Kernel
from loopyperf.kernel.launches import Launch

PARAM = isl.dim_type.param


class LaunchProgram:
    """What every warp of one launch executes, as far as it does not depend on the warp."""

    def __init__(self, kernel: Kernel, launch: Launch, typical: Typical) -> None:
        """Translate *launch* of *kernel*."""
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

    @cached_property
    def bounding(self) -> frozenset[int]:
        """Return the places of drafts whose results bound loops: data that the source does not tell."""
        kernel = self.kernel.loopy_kernel
        bounds = {name for domain in kernel.domains for name in domain.get_var_names(PARAM)}
        data = bounds & kernel.temporary_variables.keys() - self.kernel.known_temporaries.keys()
        return frozenset(each.node for each in self.translator.definitions if each.variable in data)

    @property
    def drafts(self) -> list[Draft]:
        """Return the instructions in the order of the program."""
        return self.translator.drafts


def kinds_of_warps(program: LaunchProgram, launch: LaunchExecutions) -> list[Kind]:
    """Return the kinds of warps of the launch of *program*, those of most warps first."""
    executions = [launch.by_place(draft.statement, draft.conditions) for draft in program.drafts]
    return kinds_of(launch.warps, executions)
