"""Counting and evaluating a tiled matrix multiplication, against Loopy's own statistics and islpy's evaluation."""

import timeit
import warnings
from collections.abc import Callable

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.kernel import load_kernel
from loopyperf.measurement.configuration import Limits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from loopyperf.properties.counted_kernel import count_properties

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


def main() -> None:
    """Print times and ratios."""
    warnings.simplefilter("ignore")
    unit = tiled_matrix_multiplication()
    prepared = lp.linearize(lp.preprocess_program(unit))
    kernel = load_kernel(unit)
    ours, theirs = best(lambda: count_properties(kernel)), best(lambda: loopy_statistics(prepared))
    print(f"count, prepared kernel:      {ours * 1e3:7.2f} ms   loopy's maps {theirs * 1e3:7.2f} ms   {theirs / ours:5.1f}x")

    properties = lpp.count(unit).properties()
    polynomials = [properties[name].polynomial for name in properties if not name.startswith("global min")]
    one = best(lambda: properties.evaluate(**SIZES))
    peer = best(lambda: [polynomial.eval_with_dict(SIZES) for polynomial in polynomials])
    print(f"evaluate, one size:          {one * 1e6:7.2f} µs   islpy        {peer * 1e6:7.2f} µs   {peer / one:5.1f}x")

    many = best(lambda: properties.evaluate(n=MILLION, m=1024, l=1024), repetitions=3)
    print(f"evaluate, a million sizes:   {many * 1e3:7.1f} ms   one by one   {one * 1e9:7.1f} ms   {one * 1e6 / many:5.1f}x")

    call = best(lambda: lpp.estimate(unit, device="amd-r9-fury", **SIZES))
    print(f"estimate, known kernel:      {call * 1e6:7.1f} µs")


if __name__ == "__main__":
    main()
