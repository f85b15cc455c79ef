"""Test symbolic counts of all measurement and test kernels against enumeration, at up to five sizes."""

import re
from collections.abc import Iterator
from itertools import islice

import islpy as isl
import pytest

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from tests import sample_and_all
from tests.brute_force import COUNTINGS, brute_force

LIMITS = DeviceLimits(group_size=256, local_memory=2**16, global_memory=2**30)


SKIPPED = re.compile(
    "16x14|224|k=512|k=728"  # a third group shape, and other trip counts of the same form
    "|64-bit|f64"  # other types of the same form
    "|i32"  # integers, whose scalar arguments would be unbounded sizes here
    "|-bit, stride (?!0|1,|2/3|4/>4)|pitch (2|4|8|16),"
)


def kernels() -> Iterator[tuple[str, Configuration]]:
    """Yield label and configuration of each kernel class with two group shapes, one square and one not."""
    for folder in ("measurement_kernels", "test_kernels"):
        for file in load_kernel_files(bundled_folder(folder)):
            for configuration in configurations_of(file, LIMITS):
                if not SKIPPED.search(configuration.label):
                    yield f"{file.name}, {configuration.label}", configuration


ALWAYS = 2
"""multiples of the smallest sizes that are always enumerated, whatever their counts"""
MOST = 10**7
"""largest sum of counts; larger sizes take long to enumerate and test nothing new"""


def smallest_sizes(kernel: Kernel) -> dict[str, int]:
    """Return the smallest sizes that the kernel's assumptions admit."""
    params = isl.Set.from_basic_set(kernel.assumptions)
    names = [params.get_dim_name(isl.dim_type.param, i) for i in range(params.dim(isl.dim_type.param))]
    as_set = params.move_dims(isl.dim_type.set, 0, isl.dim_type.param, 0, len(names))
    point = as_set.lexmin().sample_point()
    return {name: point.get_coordinate_val(isl.dim_type.set, index).to_python() for index, name in enumerate(names)}


@sample_and_all(4)
def test_symbolic_counts_equal_enumeration(subtests: pytest.Subtests, step: int) -> None:
    for label, configuration in islice(kernels(), 0, None, step):
        with subtests.test(label):
            kernel = load_kernel(configuration.build())
            smallest = smallest_sizes(kernel)
            for factor in range(1, 6):
                sizes = {name: size * factor for name, size in smallest.items()}
                counted = {each: count_kernel(kernel, each).properties().evaluate(**sizes) for each in COUNTINGS}
                if factor > ALWAYS and sum(counted["executed"].values()) > MOST:
                    break
                enumerated = brute_force(kernel, sizes)
                for counting, counts in counted.items():
                    assert enumerated[counting] == {name: count for name, count in counts.items() if count}, (
                        counting,
                        sizes,
                    )
