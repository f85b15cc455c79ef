"""Access patterns of kernels written in a line, as tests ask for them."""

from collections.abc import Mapping
from dataclasses import replace

import loopy as lp
import numpy as np

from loopyperf.counts.execution import ExecutionCounter, Site
from loopyperf.counts.memory import Reference, resolved
from loopyperf.counts.typical import Typical
from loopyperf.counts.walk import InstructionWalker
from loopyperf.idg.warps.executions import LaunchExecutions
from loopyperf.idg.warps.warp import Warp
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.memory import AccessPattern, access_pattern


def flat(name: str, dtype: type = np.float32) -> lp.GlobalArg:
    """Return an array whose elements are numbered, as many as there may be."""
    return lp.GlobalArg(name, dtype, shape=None)


def unit(domain: str | list[str], code: str, *arguments: object) -> lp.TranslationUnit:
    """Return a translation unit; arguments that are not named are Loopy's guess."""
    return lp.make_kernel(
        domain,
        code,
        [*arguments, ...],
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
        seq_dependencies=True,
        name="pattern",
    )


def written(domain: str | list[str], code: str, *arguments: object, tags: Mapping[str, str]) -> Kernel:
    """Return the kernel of *code* with its loops mapped to the hardware by *tags*."""
    return load_kernel(lp.tag_inames(unit(domain, code, *arguments), dict(tags)))


def references(kernel: Kernel, typical: Typical) -> list[tuple[Site, Reference]]:
    """Return all references of *kernel*, with where they happen."""
    found: list[tuple[Site, Reference]] = []
    for launch in kernel.launches:
        for instruction in launch.instructions:
            for conditions, event, vector in InstructionWalker(kernel, typical).events(instruction):
                if isinstance(event, Reference):
                    event = replace(event, index=resolved(kernel, typical, event.index, {}))
                    inames = frozenset(instruction.within_inames) - {vector}
                    found.append((Site(launch, inames, conditions, instruction.id), event))
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
    """Return the pattern of the one load, or store, of *array*."""
    known = Typical(typical or {})
    wanted = (array, direction)
    ((site, ref),) = (each for each in references(kernel, known) if (each[1].array, each[1].direction) == wanted)
    passes = LaunchExecutions(ExecutionCounter(kernel, known), site.launch, sizes or {}).passes(site, warp)
    return access_pattern(ref, passes, stride)
