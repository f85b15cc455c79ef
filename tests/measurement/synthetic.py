"""A synthetic backend: the times of its kernels are computed, without waiting."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np

from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.environment import Configuration, DeviceLimits, Environment, Sizes
from loopyperf.measurement.kernel_files import KernelFile
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Run

LIMITS = DeviceLimits(group_size=1024, local_memory=48 * 1024, global_memory=2**30)
TICK = 2.0**-20
"""seconds; about a microsecond, and a power of two, so that sums are exact"""
LAUNCH = 10 * TICK
"""seconds that the synthetic device takes for an empty kernel"""


def environment(**changes: Any) -> Environment:
    fields: dict[str, Any] = {
        "backend": "synthetic",
        "platform": "arithmetic 1.0",
        "vendor": "nobody",
        "device": "Synthetic Device 9000",
        "driver": "1.0",
        "versions": {"python": "3.11.7"},
        "operating_system": "Linux x86_64",
        "cpu_count": 2,
    }
    return Environment(**fields | changes)


ONE_LAUNCH = Protocol(overhead_factor=1.0, seed=None)
"""The first measured size takes one launch overhead, half of which is the kernel's own work. Kernels are
measured in file order."""


def run(protocol: Protocol | None = None, limits: DeviceLimits = LIMITS, **changes: Any) -> Run:
    return Run.start(environment(**changes), limits, protocol or ONE_LAUNCH)


@cache
def scale_kernel() -> lp.TranslationUnit:
    """b[i] = 2 a[i], groups of 16: 8 n bytes of arguments."""
    unit = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a,b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="scale",
        assumptions="n >= 1",
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


def scale_arguments(rng: np.random.Generator, sizes: Sizes) -> dict[str, Any]:
    n = sizes["n"]
    return {
        "a": rng.random(n, dtype=np.float32),
        "b": np.zeros(n, np.float32),
        "n": np.int32(n),
    }


def configuration(
    label: str = "group 16", ladder: tuple[int, ...] = (16, 32, 64, 128), **changes: Any
) -> Configuration:
    fields: dict[str, Any] = {
        "label": label,
        "build": scale_kernel,
        "sizes": tuple({"n": n} for n in ladder),
        "arguments": scale_arguments,
        "reference": lambda arguments: {"b": 2 * arguments["a"]},
    }
    return Configuration(**fields | changes)


def kernel_file(name: str, *configurations: Configuration) -> KernelFile:
    return KernelFile(name, Path(f"{name}.py"), "a test", lambda limits: list(configurations))


def linear_time(case: BenchmarkCase) -> float:
    """Return half a launch plus n ticks, or one launch for the empty kernel."""
    return LAUNCH if case.kernel_class == "empty kernel" else LAUNCH / 2 + TICK * case.sizes["n"]


def steady_yardstick(backend: "SyntheticBackend") -> float:
    """Return a hundred launches: 1 ms, which is long enough at the second size."""
    return 100 * LAUNCH


@dataclass
class SyntheticBackend:
    """A backend that returns *seconds* of the case, twice that for every other run, and records its calls.

    The reference kernel takes *yardstick* of the backend, in seconds; its runs are not among the calls.
    """

    seconds: Callable[[BenchmarkCase], float] = linear_time
    limits: DeviceLimits = LIMITS
    environment: Environment = field(default_factory=environment)
    calls: list[tuple[str, str, int, int]] = field(default_factory=list)
    yardstick: "Callable[[SyntheticBackend], float]" = steady_yardstick

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        if case.kernel_class == REFERENCE:
            return MeasuredTimes((self.yardstick(self) if case.sizes["rounds"] > 64 else LAUNCH,) * runs)
        self.calls.append((case.kernel_class, case.configuration.label, case.sizes.get("n", 0), runs))
        seconds = self.seconds(case)
        return MeasuredTimes(tuple(seconds if run % 2 else 2 * seconds for run in range(runs)))
