"""Short kernels for tests, and the access patterns of kernels and of the instructions of graphs."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.memory_accesses import Reference, resolved
from loopyperf.counts.sizes import Typical
from loopyperf.counts.walk import Walk
from loopyperf.errors import UncountableError
from loopyperf.idg import Idg
from loopyperf.idg.executions import LaunchExecutions
from loopyperf.idg.graph import checked_access
from loopyperf.idg.launch_program import ExecutedLaunch, LaunchProgram
from loopyperf.idg.program import Instruction, Loop
from loopyperf.idg.warp_classes import Warp
from loopyperf.idg.warp_graph import warp_graph
from loopyperf.idg.warp_iterations import Activity, Lockstep
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.memory import AccessPattern, access_pattern
from loopyperf.memory.addresses import addresses_at
from loopyperf.memory.source_launch import SourceLaunch, source_pattern
from loopyperf.polyhedral.points import Points
from tests.kernels import make_kernel


def flat(name: str, dtype: type = np.float32) -> lp.GlobalArg:
    """Return an array of unspecified size that has a single axis."""
    return lp.GlobalArg(name, dtype, shape=None)


def unit(domain: str | list[str], code: str, *arguments: object) -> lp.TranslationUnit:
    """Return a translation unit; Loopy infers arguments that are not given."""
    return make_kernel(domain, code, *arguments, ..., target=lp.PyOpenCLTarget(), seq_dependencies=True, name="pattern")


def written(domain: str | list[str], code: str, *arguments: object, tags: Mapping[str, str]) -> Kernel:
    """Return the kernel of *code* with its loops mapped to the hardware by *tags*."""
    return load_kernel(lp.tag_inames(unit(domain, code, *arguments), dict(tags)))


def references(kernel: Kernel, typical: Typical) -> list[tuple[Site, Reference]]:
    """Return all references of *kernel* with the sites where they are executed."""
    found: list[tuple[Site, Reference]] = []
    for launch in kernel.launches:
        for instruction in launch.instructions:
            walk = Walk(kernel, typical)
            walk.instruction(instruction)
            inames = frozenset(instruction.within_inames) - {walk.vector.iname if walk.vector else None}
            for step in walk.steps:
                if step.reference is not None and not step.is_repeated:
                    ref = replace(step.reference, index=resolved(kernel, typical, step.reference.index, {}))
                    found.append((Site(launch, inames, step.conditions, instruction.id), ref))
    return found


def pattern(
    kernel: Kernel,
    array: str,
    warp: Warp,
    sizes: Mapping[str, int] | None = None,
    direction: str = "load",
    stride: str | None = None,
    typical: Mapping[str, object] | None = None,
) -> AccessPattern:
    """Return the access pattern of the only load, or store, of *array*."""
    known = Typical(typical or {})
    wanted = (array, direction)
    ((site, ref),) = (each for each in references(kernel, known) if (each[1].array, each[1].direction) == wanted)
    warp_iterations = LaunchExecutions(ExecutionCounter(kernel, known), site.launch, sizes or {}).iterations(site, warp)
    return access_pattern(ref, warp_iterations, stride)


# {{{ accesses of instructions of source graphs and lowered graphs


class LaunchAccesses:
    """The accesses of the first warp class of a launch; those of copies have the address of the copy."""

    def __init__(self, source: SourceLaunch) -> None:
        self.kinds = source.kinds
        self.executed = ExecutedLaunch(source.program, source.executions, source.kinds[0]) if source.kinds else None

    def graph(self) -> Idg:
        assert self.executed is not None
        return warp_graph(self.executed)

    def access(self, place: int, graph: Idg | None = None) -> AccessPattern:
        """Return the access pattern of instruction *place* of *graph*, which is the source graph or a lowered one."""
        assert self.executed is not None
        source = self.graph()
        graph = graph or source
        origin, instruction = checked_access(graph, place), graph.instructions[place]
        pattern, before = source_pattern(self.executed, origin), source.instructions[self.executed.numbers[origin]]
        if (before.dtype, before.executions) == (instruction.dtype, instruction.executions):
            return pattern
        return _of_copy(pattern, instruction, graph.loops_around[place])


def _of_copy(pattern: AccessPattern, copy: Instruction, loops: tuple[Loop, ...]) -> AccessPattern:
    trips = {loop.name: loop.trips for loop in loops}
    numbers = {name: each for name, each in trips.items() if isinstance(each, int)}
    if copy.address is None or copy.condition is not None or len(numbers) < len(trips):
        raise UncountableError("addresses or passes of a copy are no functions of the loops around")
    if len(pattern.iterations.activities) != 1:
        raise UncountableError("the lanes that are active depend on the pass, so copies cannot be told apart")
    activity = Activity(pattern.iterations.activities[0].lanes, Points(tuple(map(range, numbers.values()))))
    warp_iterations = replace(pattern.iterations, loops=tuple(numbers), activities=(activity,), lockstep=Lockstep())
    addresses = addresses_at(pattern.reference, warp_iterations, copy.address.expression)
    return AccessPattern(pattern.reference, warp_iterations, addresses, copy.bits // 8)


def launches_of(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> Iterator[LaunchAccesses]:
    """Yield the accesses of each launch of *kernel*."""
    for launch in kernel.launches:
        yield LaunchAccesses(SourceLaunch(LaunchProgram(kernel, launch, Typical({})), sizes or {}, 32))


# }}}
