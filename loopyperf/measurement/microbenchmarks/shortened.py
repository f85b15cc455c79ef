"""Fewer points, for a first look: every kind of microbenchmark, at some of its warps, conflicts and sizes only."""

from collections.abc import Sequence
from dataclasses import replace

from loopyperf.measurement.configuration import Configuration, Limits, Sizes
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.measurement.protocol import Protocol

FULL = Protocol(runs=20, dropped=4, probe_runs=3, overhead_factor=20, longest_run=0.2)
"""a run takes twenty launches or more, so that the difference of two runs is far above the launch's scatter"""
SHORT = Protocol(runs=12, dropped=4, probe_runs=3, overhead_factor=20, longest_run=0.03)
MOST_MEMORY = 2**24
"""bytes of the largest arrays"""
LADDERS = 8
"""at most for each configuration with fewer points, and twice as many where a staircase is to be seen"""


def shortened(files: Sequence[KernelFile]) -> tuple[KernelFile, ...]:
    """Return *files* with fewer points and smaller arrays in each."""
    return tuple(replace(file, configurations=_Fewer(file)) for file in files)


class _Fewer:
    """The configurations of a file, with fewer points."""

    def __init__(self, file: KernelFile) -> None:
        self._file = file

    def __call__(self, limits: Limits) -> list[Configuration]:
        small = replace(limits, global_memory=min(limits.global_memory, MOST_MEMORY))
        return [_thinned(configuration) for configuration in self._file.configurations(small)]


def _thinned(configuration: Configuration) -> Configuration:
    first, *further = configuration.ladders
    kept = _spread(further, 2 * LADDERS)
    return replace(configuration, sizes=first, further=tuple(kept))


def _spread(ladders: list[tuple[Sizes, ...]], most: int) -> list[tuple[Sizes, ...]]:
    every = -(-len(ladders) // most) or 1
    return ladders[every - 1 :: every]
