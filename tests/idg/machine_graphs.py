"""Source graphs of short kernels, and what passes of the compiler model make of them."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

import loopy as lp

from loopyperf.compiler.folding import without_index_arithmetic, without_moves
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg
from loopyperf.idg.program import placed
from loopyperf.kernel import load_kernel
from tests.idg.patterns import unit
from tests.profiles import source_profile


def source(
    domain: str | list[str],
    code: str,
    *arguments: object,
    tags: Mapping[str, str] | None = None,
    sizes: Mapping[str, int] | None = None,
    typical: Mapping[str, object] | None = None,
) -> Idg:
    """Return the source graph of the kernel of *code*; iname i is mapped to the lanes by default."""
    tagged = lp.tag_inames(unit(domain, code, *arguments), dict(tags or {"i": "l.0"}))
    return source_profile(load_kernel(tagged), dict(sizes or {}), Typical(typical or {})).graph


def folded(graph: Idg) -> Idg:
    """Return *graph* without index arithmetic and moves."""
    return without_moves(without_index_arithmetic(graph))


def kinds(graph: Idg) -> list[str]:
    """Return the kind and type of each instruction of *graph* in program order."""
    found = [graph.instructions[place] for place, _ in placed(graph.body)]
    return [f"{each.kind} {each.dtype}".strip() for each in found]


def added(before: Idg, after: Idg) -> dict[str, int | Fraction]:
    """Return how many instructions of each kind *after* executes beyond those of *before*."""
    found: Counter[str] = Counter()
    for sign, graph in (-1, before), (1, after):
        for each in graph.instructions:
            found[each.kind] += sign * each.executions
    return {kind: number for kind, number in found.items() if number}
