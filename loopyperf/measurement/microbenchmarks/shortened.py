"""How microbenchmarks are timed, and a shorter way for a first look: fewer runs, shorter ones, and smaller arrays."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from loopyperf.measurement.configuration import Configuration, Limits
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.measurement.protocol import Protocol

FULL = Protocol(runs=20, dropped=4, fewest=16, probe_runs=3, overhead_factor=20, longest_run=0.2)
"""a run takes twenty launches or more, so that the difference of two runs is far above the launch's scatter; all runs
are made, as the error of that difference is read off them"""
SHORT = Protocol(runs=12, dropped=4, fewest=8, probe_runs=3, overhead_factor=20, longest_run=0.03)
MOST_MEMORY = 2**24
"""bytes of the largest arrays"""


def shortened(files: Sequence[KernelFile]) -> tuple[KernelFile, ...]:
    """Return *files* with arrays of at most :data:`MOST_MEMORY`."""
    return tuple(replace(file, configurations=partial(_in_little_memory, file)) for file in files)


def _in_little_memory(file: KernelFile, limits: Limits) -> list[Configuration]:
    return file.configurations(replace(limits, global_memory=min(limits.global_memory, MOST_MEMORY)))
