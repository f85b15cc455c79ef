"""A kernel compiled for a device, and the execution of its warps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import loopy as lp
import numpy as np

from .branch_decisions import Decision, refuse
from .constant_bank import constant_bank
from .cuda_source import CudaSource, DeviceFunction, Extent, cuda_source
from .instruction_counts import Tally
from .lanes import Lanes, of_integers, uniform
from .listing import Function, functions
from .registers import Access
from .toolchain import CACHE, listing
from .warp import Trail, Warp

FAST_MATH = ("-use_fast_math",)


@dataclass(frozen=True)
class Launch:
    """One device function as machine code, with its launch."""

    architecture: str
    host: DeviceFunction
    code: Function

    def group(self, sizes: Mapping[str, int]) -> Extent:
        """Return the number of work-items of a group along each axis."""
        return self.host.group(sizes)

    def grid(self, sizes: Mapping[str, int]) -> Extent:
        """Return the number of groups along each axis."""
        return self.host.grid(sizes)

    def warps(self, sizes: Mapping[str, int]) -> int:
        """Return the number of warps of a group."""
        x, y, z = self.group(sizes)
        return -(-x * y * z // 32)

    def groups(self, sizes: Mapping[str, int]) -> Iterator[Extent]:
        """Return the positions of all groups in the grid."""
        x, y, z = self.grid(sizes)
        return ((i, j, k) for k, j, i in product(range(z), range(y), range(x)))

    def trail(
        self, sizes: Mapping[str, int], group: Extent = (0, 0, 0), warp: int = 0, decide: Decision = refuse
    ) -> Trail:
        """Return the instructions that one *warp* of the *group* at this position issues, by address."""
        return self._warp(sizes, group, warp, decide).walk()

    def accesses(
        self, sizes: Mapping[str, int], group: Extent = (0, 0, 0), warp: int = 0, decide: Decision = refuse
    ) -> tuple[Access, ...]:
        """Return the accesses of one *warp* of the *group* to global and local memory, in order of execution.

        The arrays start at ``constant_bank.POINTERS``, ``SPACING`` bytes apart, in the order of the parameters.
        """
        walker = self._warp(sizes, group, warp, decide)
        walker.registers.accesses = found = []
        walker.walk()
        return tuple(found)

    def run(
        self, sizes: Mapping[str, int], group: Extent = (0, 0, 0), warp: int = 0, decide: Decision = refuse
    ) -> Tally:
        """Return how many instructions of each class one *warp* of the *group* at this position issues."""
        return Tally.of(self.code, self.trail(sizes, group, warp, decide))

    def _warp(self, sizes: Mapping[str, int], group: Extent, warp: int, decide: Decision) -> Warp:
        shape = self.group(sizes)
        constants = constant_bank(self.architecture, self.host.parameters, sizes, self.grid(sizes), shape)
        special, lanes = _positions(shape, group, warp)
        return Warp(self.code, constants, special, lanes, decide)


def build(
    program: lp.TranslationUnit, architecture: str = "sm_90", options: tuple[str, ...] = (), cache: Path = CACHE
) -> tuple[Launch, ...]:
    """Compile *program* for *architecture* with these *options* of nvcc, and return its launches."""
    return built(cuda_source(program), architecture, options, cache)


def built(
    source: CudaSource, architecture: str = "sm_90", options: tuple[str, ...] = (), cache: Path = CACHE
) -> tuple[Launch, ...]:
    """Compile CUDA code for *architecture* with these *options* of nvcc, and return its launches."""
    found = functions(listing(source.code, architecture, options, cache))
    return tuple(Launch(architecture, host, found[host.name]) for host in source.functions)


def _positions(shape: Extent, group: Extent, warp: int) -> tuple[dict[str, Lanes], int]:
    """Return the special registers with the position of each lane, and the set of lanes that exist."""
    number = 32 * warp + np.arange(32)
    x, y, _ = shape
    local = {"X": number % x, "Y": number // x % y, "Z": number // (x * y)}
    registers = {f"SR_TID.{axis}": of_integers(places, 0xFFFFFFFF) for axis, places in local.items()}
    registers |= {f"SR_CTAID.{axis}": uniform(place) for axis, place in zip("XYZ", group, strict=True)}
    registers["SR_LANEID"] = of_integers(np.arange(32), 0xFFFFFFFF)
    existing = min(32, int(np.prod(shape)) - 32 * warp)
    return registers, (1 << existing) - 1
