"""The code that Loopy generates for a kernel, each line with the instruction that it is of."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import loopy as lp
from loopy.diagnostic import LoopyError
from loopy.kernel.instruction import MultiAssignmentBase
from loopy.schedule import Barrier, CallKernel, RunInstruction
from loopy.target.cuda import CudaTarget

from loopyperf.errors import KernelError, one_line
from loopyperf.kernel import Kernel, Program, as_translation_unit
from loopyperf.kernel.loopy_passes import without_dumps

ASSIGNED = re.compile(r"^\s*(?:[A-Za-z_][\w\s*]*?[\s*])?\*?([A-Za-z_]\w*)(?:\.\w+)?\s*(?:\[.*\])?\s*[-+*/]?=[^=]")
"""the variable that a statement of C assigns"""
BARRIER = re.compile(r"^\s*(?:barrier|__syncthreads)\s*\(")


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of generated code."""

    text: str
    """as Loopy writes it"""
    source: str
    """the id of the instruction that it is of, or the label of the barrier; empty where that is not known"""


@dataclass(frozen=True, slots=True)
class KernelCode:
    """What Loopy generates for a kernel."""

    language: str
    """``"OpenCL C"`` or ``"CUDA"``"""
    lines: tuple[CodeLine, ...]
    """in their order"""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values that JSON can hold."""
        return {"language": self.language, "lines": [[each.text, each.source] for each in self.lines]}


def generated_code(program: Program, kernel: Kernel) -> KernelCode:
    """Return the code that Loopy generates for *program*, whose prepared *kernel* says which line is of what.

    Lines are matched by what they assign, in the order of the schedule. Raises :class:`KernelError` where Loopy
    generates none.
    """
    unit = as_translation_unit(program)
    try:
        with without_dumps():
            code = cast("Any", lp.generate_code_v2(unit)).device_code()
    except (LoopyError, NotImplementedError, RuntimeError, ValueError) as error:
        raise KernelError(f"Loopy generates no code: {one_line(error)}") from error
    language = "CUDA" if isinstance(unit.target, CudaTarget) else "OpenCL C"
    return KernelCode(language, tuple(_linked(code.splitlines(), list(_statements(kernel)))))


def _statements(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """Yield what each statement assigns, empty for a barrier, and its source, in the order of the schedule."""
    barriers: Iterator[str] = iter(())
    launches = {launch.name: launch for launch in kernel.launches}
    for item in cast("Sequence[Any]", kernel.loopy_kernel.linearization):
        if isinstance(item, CallKernel):
            barriers = (barrier.label for barrier in launches[item.kernel_name].barriers)
        elif isinstance(item, Barrier) and item.synchronization_kind == "local":
            yield "", next(barriers, "")
        elif isinstance(item, RunInstruction):
            instruction = kernel.loopy_kernel.id_to_insn[item.insn_id]
            names = instruction.assignee_var_names() if isinstance(instruction, MultiAssignmentBase) else ()
            yield from ((name, item.insn_id) for name in names)


def _linked(lines: Sequence[str], statements: Sequence[tuple[str, str]]) -> Iterator[CodeLine]:
    """Yield *lines* with their sources: of several statements that assign the same, the next one."""
    place = 0
    for line in lines:
        found = ASSIGNED.match(line)
        wanted = "" if BARRIER.match(line) else found[1] if found else None
        if wanted is None:
            yield CodeLine(line, "")
            continue
        order = [*range(place, len(statements)), *range(place)]
        place = next((each for each in order if statements[each][0] == wanted), -1)
        if place < 0:
            place = 0
            yield CodeLine(line, "")
        else:
            yield CodeLine(line, statements[place][1])
            place += wanted == ""
