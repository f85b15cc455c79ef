"""What a folder of kernels exercises, before anything is measured: from counts alone, no device needed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from loopyperf.calibration.problem import Coverage, tabulate
from loopyperf.counts.execution import Counting
from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.configuration import Configuration, Limits
from loopyperf.measurement.kernel_files import configurations_of, measurement_kernels
from loopyperf.predict.case import count
from loopyperf.properties.unified import PAPER_PROPERTIES


@dataclass(frozen=True, slots=True)
class CountedRun:
    """A configuration at one size, counted."""

    kernel_class: str
    label: str
    sizes: Mapping[str, int]
    properties: Mapping[str, int]


def kernel_coverage(
    limits: Limits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> tuple[Coverage, ...]:
    """Return which of the paper's properties, and others, the kernels of a folder exercise on a device with *limits*.

    *kernels* is by default the bundled measurement kernels. Ranges are those of all sizes that fit the memory, of which
    a calibration measures a few. Configurations that the linear model is not fitted to do not count.
    """
    return tabulate(counted_runs(limits, kernels, counting), PAPER_PROPERTIES)


def counted_runs(
    limits: Limits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> Iterator[CountedRun]:
    """Yield the counts that the linear model can be fitted to, configuration by configuration, at each size."""
    for file in measurement_kernels(kernels):
        for configuration in configurations_of(file, limits):
            if not configuration.beyond:
                yield from _counted(file.name, configuration, limits, counting)


def _counted(
    kernel_class: str, configuration: Configuration, limits: Limits, counting: Counting
) -> Iterator[CountedRun]:
    unit = configuration.build()
    totals = count(unit, counting).properties().totals
    for sizes in (sizes for ladder in configuration.ladders for sizes in ladder):
        if allocated_bytes(unit.default_entrypoint, sizes) <= limits.global_memory:
            properties = dict(zip(totals.keys, totals.at(sizes), strict=True))
            yield CountedRun(kernel_class, configuration.label, sizes, properties)
