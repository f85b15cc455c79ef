"""Rebuild the kernels whose times and counters were measured on an H200: our own, and those of the TITAN V."""

import pickle
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import loopy as lp

from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from parts import RANKING_SETS
from parts.convolution import Shape, convolution
from parts.titan_v import measured_kernels

TEST_KERNELS = ("test_kernels", "test_kernels/rodinia", "test_kernels/optimization_steps")
CONVOLUTION = "convolution of 15 x 15 taps"
OF_TITAN_V = "titan-v.pkl.xz"
"""class of the kernels whose labels are row numbers of that file"""
LARGEST = 2**28
"""bytes of all arrays of a kernel"""
LIMITS = DeviceLimits(1024, 48 * 1024, 37_527_470_080, 132, 32, 1.98e9, 150_109_880_320, 60 * 2**20)
"""of the measured H200"""


@dataclass(frozen=True)
class Member:
    """The identity of one kernel at one size."""

    kernel_class: str
    label: str
    sizes: Mapping[str, int]

    def build(self) -> lp.TranslationUnit:
        """Build the kernel and return it."""
        if self.kernel_class == OF_TITAN_V:
            return pickle.loads(_titan_v()[int(self.label)]["kernel"])
        if self.kernel_class == CONVOLUTION:
            x, y, across, down = map(int, re.findall(r"\d+", self.label))
            return convolution(Shape((x, y), (across, down)))
        return _configurations()[self.kernel_class, self.label].build()


def own_members() -> Iterator[tuple[Member, Configuration]]:
    """Yield the test kernels and the ranking sets, each at the largest size whose arrays fit in :data:`LARGEST`."""
    for (name, label), configuration in _configurations().items():
        kernel = configuration.build().default_entrypoint
        fitting = [sizes for sizes in configuration.sizes if allocated_bytes(kernel, sizes) <= LARGEST]
        if fitting:
            yield Member(name, label, fitting[-1]), configuration


@lru_cache
def _configurations() -> dict[tuple[str, str], Configuration]:
    folders = (RANKING_SETS, *map(bundled_folder, TEST_KERNELS))
    files = chain.from_iterable(map(load_kernel_files, folders))
    return {(file.name, each.label): each for file in files for each in configurations_of(file, LIMITS)}


_titan_v = lru_cache(measured_kernels)
