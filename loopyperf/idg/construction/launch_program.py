"""What every warp of one launch executes, as far as it does not depend on the warp: the drafts of its instructions."""

from loopyperf.counts.execution import ExecutionCounter
from loopyperf.counts.typical import Typical
from loopyperf.idg.construction.drafts import Draft
from loopyperf.idg.construction.lane_bounds import Bounds, tests_of_work_items
from loopyperf.idg.construction.private_elements import PrivateElements
from loopyperf.idg.construction.translation import Translator
from loopyperf.idg.program import Bound
from loopyperf.idg.warps.executions import LaunchExecutions, naming
from loopyperf.idg.warps.kinds import Kind, kinds_of
from loopyperf.idg.warps.nest import Nest, nest_of
from loopyperf.idg.warps.written_bounds import written_bound
from loopyperf.kernel import Kernel
from loopyperf.launches import Launch


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
        self._written: dict[int, Bound] = {}
        self._bounds: dict[int, Bounds] = {}
        self._tests: dict[frozenset[str], frozenset[str]] = {}
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
                self.of_statement[id(item)] = range(first, len(self.translator.drafts))
                self.places[id(item)] = (*around, place)

    def written_bound(self, loops: tuple[Nest, ...]) -> Bound:
        """Return what the code says of the number of passes of the innermost of *loops*, whatever the warp."""
        key = id(loops[-1])
        if key not in self._written:
            self._written[key] = written_bound(self.kernel, loops)
        return self._written[key]

    def bounds(self, nest: Nest) -> Bounds:
        """Return what the bounds of *nest* depend on."""
        if id(nest) not in self._bounds:
            self._bounds[id(nest)] = Bounds(self.kernel, nest)
        return self._bounds[id(nest)]

    def tests(self, inames: frozenset[str]) -> frozenset[str]:
        """Return the conditions that decide which work-items execute what uses *inames*."""
        if inames not in self._tests:
            self._tests[inames] = tests_of_work_items(self.kernel, self.launch, inames)
        return self._tests[inames]

    @property
    def drafts(self) -> list[Draft]:
        """Return the instructions in the order of the program."""
        return self.translator.drafts


def kinds_of_warps(program: LaunchProgram, launch: LaunchExecutions) -> list[Kind]:
    """Return the kinds of warps of the launch of *program*, those of most warps first."""
    executions = [launch.by_place(draft.statement, draft.conditions) for draft in program.drafts]
    return kinds_of(launch.warps, list({id(each): each for each in executions}.values()))
