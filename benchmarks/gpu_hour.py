"""What a device owes the project, most valuable first, in a given time: raw samples into one folder, resumable.

1. ``calibration.jsonl``: the measurement kernels, which fits are made from
2. ``test-kernels.jsonl``: the kernels that no fit sees, Rodinia's and the optimization steps among them
3. ``microbenchmarks.jsonl``: latencies and throughputs of instructions and memories
4. ``ranking.jsonl``: many transformed variants of a few computations (``benchmarks/ranking_sets``)
5. ``occupancy-BYTES.jsonl``: Rodinia's kernels with so many bytes of local memory more in each group, on CUDA only

What the time does not suffice for is measured by the next run with the same folder. Kernels that fail are left out and
named. Fits and descriptions are made from the archives afterwards, without the device: ``loopyperf fit``.

    .venv/bin/python benchmarks/gpu_hour.py FOLDER [--backend cuda] [--seconds 540]
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopyperf.errors import BackendError, MeasurementError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.campaign import Progress
from loopyperf.measurement.configuration import Configuration
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, load_kernel_files
from loopyperf.measurement.microbenchmarks.shortened import FULL
from loopyperf.measurement.protocol import Protocol
from loopyperf.oracle.campaign import measure
from loopyperf.oracle.microbenchmark import KERNELS as MICROBENCHMARKS
from loopyperf.oracle.validate import PATIENT, with_empty_kernel

RANKING_SETS = Path(__file__).parent / "ranking_sets"
OCCUPANCY = (4096, 8192, 12288, 16384, 24576, 32768)
"""bytes of local memory that a group takes beside its own; 48 KiB are the most that every NVIDIA GPU gives a group"""
FEW_RUNS = Protocol(runs=12, dropped=2, fewest=4, longest_run=0.2)


class TimeIsUpError(Exception):
    """The time that was given is over."""


@dataclass(frozen=True)
class Step:
    """One archive."""

    name: str
    files: tuple[KernelFile, ...]
    protocol: Protocol
    local_memory: int = 0


def steps(backend: str) -> Iterator[Step]:
    """Yield what is measured, in this order."""
    tests = ("test_kernels", "test_kernels/rodinia", "test_kernels/optimization_steps")
    rodinia = loaded("test_kernels/rodinia")
    yield Step("calibration", loaded("measurement_kernels"), Protocol())
    yield Step("test-kernels", with_empty_kernel(tuple(file for each in tests for file in loaded(each))), PATIENT)
    yield Step("microbenchmarks", loaded(MICROBENCHMARKS), FULL)
    yield Step("ranking", with_empty_kernel(load_kernel_files(RANKING_SETS)), FEW_RUNS)
    if backend == "cuda":
        yield from (Step(f"occupancy-{each}", with_empty_kernel(rodinia), FEW_RUNS, each) for each in OCCUPANCY)


def loaded(folder: str) -> tuple[KernelFile, ...]:
    """Return the kernel files of a bundled *folder*."""
    return load_kernel_files(bundled_folder(folder))


def opened(backend: str, device: str | None, step: Step) -> Backend:
    """Return the backend that measures *step*."""
    named = {} if device is None else {"device": device}
    return open_backend(backend, **named, **({"dynamic_local_memory": step.local_memory} if step.local_memory else {}))


def run(step: Step, machine: Backend, folder: Path, end: float) -> tuple[int, list[str]]:
    """Measure *step* until it is done, or until *end*; return how many measurements there are, and what failed."""
    failed: list[str] = []

    def checked(progress: Progress) -> None:
        if time.monotonic() > end:
            raise TimeIsUpError

    def noted(kernel_class: str, configuration: Configuration, error: MeasurementError) -> None:
        failed.append(f"{kernel_class}, {configuration.label}: {error}")

    archive = folder / f"{step.name}.jsonl"
    recording = measure(machine, step.files, archive, step.protocol, checked, noted)
    return len(recording.standing), failed


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and say what there is and what is missing."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the archives go; those that are there are continued")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--device", help="part of its name")
    parser.add_argument("--seconds", type=float, default=540, help="for everything together")
    parser.add_argument("--only", action="append", help="of the steps, one; all unless named")
    asked = parser.parse_args(arguments)
    end = time.monotonic() + asked.seconds
    asked.folder.mkdir(parents=True, exist_ok=True)
    for step in steps(asked.backend):
        if asked.only and step.name not in asked.only:
            continue
        begin = time.monotonic()
        try:
            number, failed = run(step, opened(asked.backend, asked.device, step), asked.folder, end)
        except TimeIsUpError:
            print(f"{step.name}: the time is up; the archive goes on in the next run", flush=True)
            break
        except BackendError as error:
            print(f"{step.name}: {error}", flush=True)
            continue
        print(f"{step.name}: {number} measurements, {time.monotonic() - begin:.0f} s", flush=True)
        for each in failed:
            print(f"  failed: {each}", flush=True)


if __name__ == "__main__":
    main()
