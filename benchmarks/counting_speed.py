"""Counting and evaluating a tiled matrix multiplication, against Loopy's own statistics and islpy's evaluation."""

import timeit
import warnings
from collections.abc import Callable

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.counts.quasipolynomial import QuasiPolynomial
from loopyperf.kernel import load_kernel
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from loopyperf.properties.counted_kernel import count_properties
from loopyperf.units import duration

SIZES = {"n": 1024, "m": 1024, "l": 1024}
MILLION = 16 * np.arange(1, 10**6 + 1)


def tiled_matrix_multiplication() -> lp.TranslationUnit:
    """Return the measurement kernel with 16 x 16 work-items."""
    limits = Limits(group_size=256, local_memory=2**16, global_memory=2**30)
    files = {file.name: file for file in load_kernel_files(bundled_folder("measurement_kernels"))}
    first, *_ = (c for c in configurations_of(files["matrix multiplication"], limits) if "16x16" in c.label)
    return first.build()


def best(action: Callable[[], object], repetitions: int = 5) -> float:
    """Return the seconds of the fastest of several groups of calls, for one call."""
    timer = timeit.Timer(action)
    number, _ = timer.autorange()
    return min(timer.repeat(repetitions, number)) / number


def loopy_statistics(unit: lp.TranslationUnit) -> None:
    """Count with Loopy's three maps."""
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


def row(what: str, ours: float, peer: str, theirs: float) -> None:
    """Print both times, in seconds, and how many times faster ours is."""
    print(f"{what:26} {duration(ours):>8}   {peer:13} {duration(theirs):>8}   {theirs / ours:6.1f}x")


def main() -> None:
    """Print times and ratios."""
    warnings.simplefilter("ignore")
    unit = tiled_matrix_multiplication()
    prepared = lp.linearize(lp.preprocess_program(unit))
    kernel = load_kernel(unit)
    counted = best(lambda: count_properties(kernel))
    row("count a prepared kernel", counted, "loopy's maps", best(lambda: loopy_statistics(prepared)))

    properties = lpp.count(unit).properties()
    polynomials = [count.polynomial for count in properties.values() if isinstance(count, QuasiPolynomial)]
    one = best(lambda: properties.evaluate(**SIZES))
    peer = best(lambda: [polynomial.eval_with_dict(SIZES) for polynomial in polynomials])
    row("evaluate at one size", one, "islpy", peer)
    many = best(lambda: properties.evaluate(n=MILLION, m=1024, l=1024), repetitions=3)
    row("evaluate at a million", many, "one by one", one * len(MILLION))
    call = best(lambda: lpp.estimate(unit, device="amd-r9-fury", **SIZES))
    row("estimate a known kernel", call, "evaluate", one)


if __name__ == "__main__":
    main()
