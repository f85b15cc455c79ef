"""Stages of a prediction on plain values, without the cache."""

from collections.abc import Mapping
from typing import Any

from loopyperf.compiler.machine_program import compile_profile
from loopyperf.counts.sizes import Typical
from loopyperf.device.description import Device
from loopyperf.kernel import Kernel
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.memory.source_launch import KernelStructure
from loopyperf.models.program_timing import timing
from loopyperf.pipeline.timed_program import TimedProgram


def source_profile(kernel: Kernel, sizes: Mapping[str, int], typical: Typical, warp_size: int = 32) -> KernelProfile:
    """Return the profile of *kernel* at *sizes*."""
    return KernelStructure(kernel, typical).profile(sizes, warp_size)


def timed_on(profile: KernelProfile, device: Device, **options: Any) -> TimedProgram:
    """Return the timed program of *profile*, compiled with *options*."""
    return timing(compile_profile(profile, device, **options), device)
