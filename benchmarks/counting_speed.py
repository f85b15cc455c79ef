"""Counting and evaluating against Loopy's own statistics and islpy's evaluation.

Counted are a tiled matrix multiplication, where nearly all the work is isl's, and an expansion of several hundred
scalar assignments, where it is in walking expressions. Both sides start from the same kernel, each turn from a copy
that remembers nothing, and with Loopy's caches off, in memory and on disk (as by LOOPY_NO_CACHE=1). With them on, a
kernel that was seen before spares Loopy its type inference and the pass that the synchronization map runs, a new one
costs it more, for hashing and for writing to disk: the ratio for a new kernel is higher than what is printed. Our
counting uses no cache of Loopy's; load_kernel does, for its passes. An unprepared kernel goes through Loopy's checks
before scheduling on our side, through none on the other: they take about a third of the passes' time.

Finding the counts of an equal kernel, in memory or in a file, is set against loading and counting it, with Loopy's
caches off, and with caches that know it.
"""

import os
import time
import timeit
import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory
from unittest.mock import patch

import loopy as lp
import numpy as np
from multipole_expansion import multipole_expansion

import loopyperf as lpp
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.kernel import load_kernel
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from loopyperf.oracle import recollection
from loopyperf.oracle.analysis_files import CACHE_VARIABLE
from loopyperf.oracle.content import content_key
from loopyperf.properties.counted_kernel import count_properties
from loopyperf.units import duration

SIZES = {"n": 1024, "m": 1024, "l": 1024}
MILLION = 16 * np.arange(1, 10**6 + 1)
Build = Callable[[], lp.TranslationUnit]
Analysis = Callable[[lp.TranslationUnit], object]


def tiled_matrix_multiplication() -> lp.TranslationUnit:
    """Return the measurement kernel with 16 x 16 work-items."""
    limits = Limits(group_size=256, local_memory=2**16, global_memory=2**30)
    files = {file.name: file for file in load_kernel_files(bundled_folder("measurement_kernels"))}
    first, *_ = (c for c in configurations_of(files["matrix multiplication"], limits) if "16x16" in c.label)
    return first.build()


# {{{ the two sides


def prepared(unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *unit* after Loopy's costly passes."""
    return lp.linearize(lp.preprocess_program(unit))


def loopy_statistics(unit: lp.TranslationUnit) -> None:
    """Count with Loopy's three maps; each would preprocess an unprepared unit anew."""
    unit = lp.preprocess_program(unit)
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


def count(unit: lp.TranslationUnit) -> None:
    """Count all properties."""
    count_properties(load_kernel(unit)).properties()


# }}}


# {{{ timing


def best(action: Callable[[], object], repetitions: int = 5) -> float:
    """Return the seconds of the fastest of several groups of calls, for one call."""
    timer = timeit.Timer(action)
    number, _ = timer.autorange()
    return min(timer.repeat(repetitions, number)) / number


def best_of_turns(analyses: list[Analysis], fresh: Build, turns: int) -> list[float]:
    """Return the processor seconds of the fastest turn of each analysis; they take turns, each with a fresh kernel."""
    return [min(times) for times in zip(*([_seconds(a, fresh()) for a in analyses] for _ in range(turns)), strict=True)]


def _seconds(analysis: Analysis, unit: lp.TranslationUnit) -> float:
    start = time.process_time()
    analysis(unit)
    return time.process_time() - start


def row(what: str, ours: float, peer: str, theirs: float) -> None:
    """Print both times, in seconds, and how many times faster ours is."""
    print(f"  {what:26} {duration(ours):>8}   {peer:13} {duration(theirs):>8}   {theirs / ours:6.1f}x")


# }}}


def counting(what: str, build: Build) -> None:
    """Print how fast the kernel is counted, from its source and after Loopy's passes, and what these take."""
    with lp.CacheMode(False):
        unit = prepared(build())
        print(f"{what}, {len(unit.default_entrypoint.instructions)} instructions")

        def fresh() -> lp.TranslationUnit:
            return unit.with_kernel(unit.default_entrypoint.copy())

        ours, theirs, loading = best_of_turns([count, loopy_statistics, load_kernel], fresh, turns=7)
        row("count a prepared kernel", ours, "loopy's maps", theirs)
        ours, theirs, passes = best_of_turns([count, loopy_statistics, prepared], build, turns=3)
        row("count an unprepared one", ours, "loopy's maps", theirs)
        print(f"    of which Loopy's passes {passes / ours:.0%}; the rest of load_kernel {loading / ours:.1%}")


def recalling(build: Build) -> None:
    """Print how fast the counts of an equal kernel are found, in memory and in a file, against counting it."""
    with lp.CacheMode(False):
        anew, *_ = best_of_turns([count], build, turns=3)
    with lp.CacheMode(True), TemporaryDirectory() as folder, patch.dict(os.environ, {CACHE_VARIABLE: folder}):
        lpp.count(build())
        in_file, in_memory, key = best_of_turns([_recall_from_file, lpp.count, content_key], build, turns=7)
        again, *_ = best_of_turns([count], build, turns=3)
    row("find it in memory", in_memory, "count it", anew)
    row("find it in a file", in_file, "count it", anew)
    print(f"    of which the key {key / in_memory:.0%} and {key / in_file:.0%}")
    row("the same, Loopy's on", in_file, "count it", again)


def _recall_from_file(unit: lp.TranslationUnit) -> None:
    recollection.forget()
    lpp.count(unit)


def evaluating(unit: lp.TranslationUnit) -> None:
    """Print how fast counts are evaluated, and what an estimate adds."""
    properties = lpp.count(unit).properties()
    polynomials = [count.polynomial for count in properties.values() if isinstance(count, QuasiPolynomial)]
    one = best(lambda: properties.evaluate(**SIZES))
    peer = best(lambda: [polynomial.eval_with_dict(SIZES) for polynomial in polynomials])
    row("evaluate at one size", one, "islpy", peer)
    many = best(lambda: properties.evaluate(n=MILLION, m=1024, l=1024), repetitions=3)
    row("evaluate at a million", many, "one by one", one * len(MILLION))
    call = best(lambda: lpp.estimate(unit, device="amd-r9-fury", **SIZES))
    row("estimate a known kernel", call, "evaluate", one)


def main() -> None:
    """Print times and ratios."""
    warnings.simplefilter("ignore")
    counting("tiled matrix multiplication", tiled_matrix_multiplication)
    recalling(tiled_matrix_multiplication)
    evaluating(tiled_matrix_multiplication())
    counting("multipole expansion", lambda: multipole_expansion(order=10))
    recalling(lambda: multipole_expansion(order=10))


if __name__ == "__main__":
    main()
