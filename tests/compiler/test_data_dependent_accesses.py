"""Accesses under conditions on data: none is lost, and none replaces one that executes more often."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.compiler.accesses import with_forwarded_stores, with_wide_loads
from loopyperf.compiler.folding import without_index_arithmetic, without_moves
from loopyperf.compiler.value_numbering import without_common_subexpressions, without_invariants
from loopyperf.counts.sizes import Typical
from loopyperf.idg import Idg, Instruction
from loopyperf.kernel import load_kernel
from tests.profiles import source_profile
from tests.random_branches import Branches

DEVICE = "nvidia-v100"
GROUPS = 4
KERNELS = 300
QUICK = 8
PASSES = (with_forwarded_stores, without_invariants, without_common_subexpressions, with_wide_loads)
Truth = Mapping[tuple[str, int, tuple[Any, ...]], bool]


# {{{ profiler counters equal counts


def difference(kernel: Branches, unit: lp.TranslationUnit, share: float) -> dict[str, tuple[float, float]]:
    """Return the metrics of requests and sectors that differ from those that follow from the counts of accesses."""
    typical, n = kernel.probabilities(share), GROUPS * kernel.group
    metrics = lpp.counters(unit, n=n, device=DEVICE, typical=typical)
    counts = lpp.count(unit, typical=typical).properties()
    found: dict[str, tuple[float, float]] = {}
    for direction, op in (("load", "ld"), ("store", "st")):
        names = [str(name) for name in counts if str(name).startswith(f"global {direction} ")]
        elements = sum(float(counts[name](n=n)) for name in names)
        for metric, expected in (("requests", elements / 32), ("sectors", elements * 8 / 32)):
            name = f"l1tex__t_{metric}_pipe_lsu_mem_global_op_{op}.sum"
            if metrics[name] != pytest.approx(expected, rel=1e-9):
                found[name] = metrics[name], expected
    return found


@pytest.mark.parametrize("kernels", [range(QUICK), pytest.param(range(KERNELS), marks=pytest.mark.slow)], ids=len)
def test_counters_of_accesses_equal_counts_at_every_probability(kernels: range) -> None:
    features: Counter[str] = Counter()
    for seed in kernels:
        kernel = Branches(seed)
        features.update(kernel.features)
        unit = kernel.build()
        for share in (0.5, seed % 2):
            assert difference(kernel, unit, share) == {}, f"{seed}, {share}:\n{kernel.code}"
    assert min(features[each] for each in ("else", "nested if", "choice", "long branch", "loop")) >= len(kernels) // 10
    assert min(features[f"{each} of a known element"] for each in ("load", "store")) >= len(kernels) // 10


# }}}


# {{{ passes keep what is stored, whichever conditions hold


def in_order(graph: Idg, truth: Truth) -> Iterator[tuple[int, Instruction]]:
    """Yield the instructions of straight-line code that execute if conditions have the values of *truth*."""
    for place in graph.body:
        assert isinstance(place, int)
        each = graph.instructions[place]
        if all(truth[one.text, one.version, one.iterations] == one.holds for one in each.on_data):
            yield place, each


def final_memory(graph: Idg, truth: Truth) -> dict[str, str]:
    """Return the final content of each element, an expression, by executing *graph*.

    An operand that several instructions may define has the value of the last one that was executed.
    """
    memory: dict[str, str] = {}
    values: dict[int, str] = {}
    for place, each in in_order(graph, truth):
        operands: list[str] = []
        for slot, operand in enumerate(each.operands):
            sources = [edge.source for edge in graph.definitions[place] if edge.operand == slot]
            done = [source for source in values if source in sources]
            value = values[done[-1]] if done else f"known {operand.known}" if not sources else "undefined"
            operands.append(f"-{value}" if operand.is_negated else value)
        if each.reference is not None:
            element = f"{each.reference.array}[{each.address}]"
            if each.kind == "store":
                memory[element] = operands[0]
            values[place] = memory.get(element, element)
        else:
            values[place] = f"({each.kind} {each.dtype} {' '.join(operands)})"
    return memory


@pytest.mark.parametrize("kernels", [range(6 * QUICK), pytest.param(range(KERNELS), marks=pytest.mark.slow)], ids=len)
def test_passes_keep_the_final_memory_whichever_conditions_hold(kernels: range) -> None:
    removed = 0
    for seed in kernels:
        kernel = Branches(seed, replaceable=True)
        n = kernel.group
        profile = source_profile(load_kernel(kernel.build()), {"n": n}, Typical(kernel.probabilities(0.5)), 32)
        (warps, *_) = profile.launches[0].classes
        graph = without_moves(without_index_arithmetic(warps.graph.unrolled()))
        conditions = {each for one in graph.instructions for each in one.on_data}
        keys = sorted({(each.text, each.version, each.iterations) for each in conditions}, key=str)
        truths = [dict(zip(keys, truth, strict=True)) for truth in product((False, True), repeat=len(keys))]
        expected = [final_memory(graph, truth) for truth in truths]
        before = sum(each.reference is not None for each in graph.instructions)
        for change in PASSES:
            graph = change(graph)
            found = [final_memory(graph, truth) for truth in truths]
            assert found == expected, f"{change.__name__}, {seed}:\n{kernel.code}"
        removed += before - sum(each.reference is not None for each in graph.instructions)
    assert removed > len(kernels)  # accesses that the compiler may remove are


# }}}
