"""The issue and completion latencies of the instructions of a graph, and how they are looked up."""

from collections.abc import Callable, Mapping, Sequence

from loopyperf.device.lambdas import Lambdas
from loopyperf.errors import GraphError
from loopyperf.idg.program import Instruction, Opcode

Timing = Mapping[str, Lambdas] | Callable[[Instruction], Lambdas] | Sequence[Lambdas]
"""the latencies by subsystem (mapper f of Lemeire 3.1.3), a function of the instruction (its mapper g), or those of a
graph's instructions in their order"""


def latencies(instructions: Sequence[Instruction], timing: Timing) -> list[Lambdas]:
    """Return the latencies of each instruction, in cycles; a store completes λ after its issue (docs/errata.md).

    Raises :class:`GraphError` for a subsystem that *timing* does not tell of.
    """
    if callable(timing) or isinstance(timing, Mapping):
        return [waited_for(each, _looked_up(each, timing)) for each in instructions]
    return [waited_for(each, lambdas) for each, lambdas in zip(instructions, timing, strict=True)]


def waited_for(instruction: Instruction, lambdas: Lambdas) -> Lambdas:
    """Return when an instruction that takes *lambdas* is complete for its warp: a store, λ after its issue."""
    return Lambdas(lambdas.issue, lambdas.issue) if instruction.kind == Opcode.STORE else lambdas


def _looked_up(instruction: Instruction, timing: Mapping[str, Lambdas] | Callable[[Instruction], Lambdas]) -> Lambdas:
    if callable(timing):
        return timing(instruction)
    if instruction.subsystem in timing:
        return timing[instruction.subsystem]
    known = ", ".join(map(repr, timing)) or "none"
    what = f"{instruction.kind} {instruction.dtype}".strip()
    raise GraphError(
        f"no latencies of {instruction.subsystem!r}, which {what!r} runs on: there are those of {known}; add them"
    )
