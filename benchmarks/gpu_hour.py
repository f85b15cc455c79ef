"""Measure a device for a given time, the most valuable kernels first, and save the raw samples in one folder.

1. ``calibration.jsonl``: the measurement kernels, which fits use
2. ``test-kernels.jsonl``: the kernels that no fit uses, including Rodinia and the optimization steps
3. ``microbenchmarks.jsonl``: latencies and throughputs of instructions and memories
4. ``occupancy-BYTES.jsonl``: the test kernels and Rodinia with BYTES of additional local memory per group
5. ``ranking.jsonl``: many transformed variants of a few computations (``ranking_sets``)

Each of these steps gets a share of the time. Time that a step does not need goes to the next one, and finally to the
steps that had too little. Another run with the same folder measures what is still missing. Each step runs in its own
processes. Kernels that fail are skipped and listed, as well as those that ended their process twice
(``unfinished.py``).
Afterwards, ``loopyperf fit`` and ``loopyperf microbenchmark --from-archive`` compute fits and device files from the
archives, without the device.

    .venv/bin/python benchmarks/gpu_hour.py FOLDER [--backend cuda] [--seconds 540]

The exit status is 0, or 1 if a step failed for another reason than the time limit, or 2 if nothing can be measured.
"""

import argparse
import lzma
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from parts import RANKING_SETS
from parts.own_process import Outcome, Send, run_in_process
from parts.unfinished import Starts, UnfinishedConfigurations, without

from loopyperf.errors import ArchiveError, MeasurementError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.campaign import Progress, measure
from loopyperf.measurement.environment import Configuration
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, load_kernel_files
from loopyperf.measurement.microbenchmarks.measured_description import KERNELS as MICROBENCHMARKS
from loopyperf.measurement.microbenchmarks.pace import FULL
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.validate import PATIENT, with_empty_kernel

SWEPT = ("test_kernels", "test_kernels/rodinia")
"""folders of the kernels to measure at several occupancies"""
OCCUPANCY = (8192, 32768, 16384, 4096, 24576, 12288)
"""additional bytes of local memory per group; every NVIDIA GPU supports up to 48 KiB per group. The first values are
far apart, in case there is not enough time for all"""
FEW_RUNS = Protocol(runs=12, dropped=2, fewest=4, longest_run=0.2)
TIMEOUT = 60.0
"""time limit of a configuration in seconds, after which its process is killed"""
GRACE = 20.0
"""seconds by which a step may exceed its deadline to finish a configuration"""


class TimeIsUpError(Exception):
    """The time limit has been reached."""


@dataclass(frozen=True)
class Step:
    """The kernels of one archive, with protocol and share of the time."""

    name: str
    share: float
    """share of the time, relative to the other steps"""
    files: tuple[KernelFile, ...]
    protocol: Protocol
    local_memory: int = 0


@dataclass
class StepState:
    """The time limit, progress and failures of a step."""

    step: Step
    limit: float
    """time limit in seconds"""
    elapsed: float = 0.0
    """elapsed seconds"""
    progress: Progress | None = None
    """latest progress, None before the first configuration"""
    failed: list[str] = field(default_factory=list)
    problem: str | None = "not started, out of time"
    """why the step is not complete; None if it is"""
    is_broken: bool = False
    """whether :attr:`problem` is another reason than the time limit"""


@dataclass(frozen=True)
class Run:
    """Output folder, backend and device of a run."""

    folder: Path
    backend: str
    device: str | None

    def archive(self, step: Step) -> Path:
        """Return the path of the archive of *step*."""
        return self.folder / f"{step.name}.jsonl"

    def print_and_log(self, text: str) -> None:
        """Print *text* and append it to the log."""
        print(text, flush=True)
        self.log(text)

    def log(self, text: str) -> None:
        """Append *text* to the log."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")


def steps() -> Iterator[Step]:
    """Yield the steps in the order in which they are measured."""
    tests = (*SWEPT, "test_kernels/optimization_steps")
    swept = with_empty_kernel(tuple(file for each in SWEPT for file in loaded(each)))
    yield Step("calibration", 40, loaded("measurement_kernels"), Protocol())
    yield Step("test-kernels", 15, with_empty_kernel(tuple(file for each in tests for file in loaded(each))), PATIENT)
    yield Step("microbenchmarks", 15, loaded(MICROBENCHMARKS), FULL)
    for each in OCCUPANCY:
        yield Step(f"occupancy-{each}", 15 / len(OCCUPANCY), swept, FEW_RUNS, each)
    yield Step("ranking", 15, with_empty_kernel(load_kernel_files(RANKING_SETS)), FEW_RUNS)


def loaded(folder: str) -> tuple[KernelFile, ...]:
    """Return the kernel files of a bundled *folder*."""
    return load_kernel_files(bundled_folder(folder))


def opened(backend: str, device: str | None, local_memory: int = 0) -> Backend:
    """Return the backend. Groups allocate *local_memory* additional bytes of local memory."""
    named = {} if device is None else {"device": device}
    return open_backend(backend, **named, **({"dynamic_local_memory": local_memory} if local_memory else {}))


# {{{ one step


def continue_step(state: StepState, run: Run, end: float) -> None:
    """Measure a step until it is complete or until *end*, and start a new process if one ends early."""
    start, archive = time.monotonic(), run.archive(state.step)

    def receive(message: Progress | str) -> None:
        if isinstance(message, Progress):
            state.progress = message
        else:
            state.failed.append(message)

    while True:
        before, state.progress = UnfinishedConfigurations(archive).starts, None
        state.failed.clear()
        outcome = run_in_process(lambda send: measured(state.step, run, end, send), receive, TIMEOUT, end + GRACE)
        if outcome.trace:
            run.log(outcome.trace)
        if outcome.is_late:  # killed at the deadline: do not count it as a failure of the configuration
            UnfinishedConfigurations(archive).replace_all(before)
        if (
            not ended_in_configuration(state.progress, before, UnfinishedConfigurations(archive).starts)
            or time.monotonic() > end
        ):
            break
        run.print_and_log(f"{state.step.name}: {outcome.problem}; restarting")
    state.elapsed += time.monotonic() - start
    record_outcome(state, outcome)


def ended_in_configuration(latest: Progress | None, before: Starts, after: Starts) -> bool:
    """Return whether the process ended in the *latest* configuration: it was started and has not finished since."""
    key = latest and (latest.kernel_class, latest.label)
    return key is not None and after.get(key, 0) > before.get(key, 0)


def measured(step: Step, run: Run, end: float, send: Send) -> bool:
    """Measure *step* until *end*, and send progress and failures; return whether the step is complete."""
    unfinished = UnfinishedConfigurations(run.archive(step))

    def on_progress(progress: Progress) -> None:
        unfinished.finish()
        send(progress)
        if time_is_up(end):
            raise TimeIsUpError
        unfinished.begin(progress.kernel_class, progress.label)

    def on_failure(kernel_class: str, configuration: Configuration, error: MeasurementError) -> None:
        send(f"{kernel_class}, {configuration.label}: {error}")

    device_backend = opened(run.backend, run.device, step.local_memory)
    try:
        measure(
            device_backend,
            without(step.files, unfinished.skipped),
            run.archive(step),
            step.protocol,
            on_progress,
            on_failure,
        )
    except TimeIsUpError:
        return False
    unfinished.finish()
    return True


def time_is_up(end: float) -> bool:
    """Return whether *end* has passed."""
    return time.monotonic() > end


def record_outcome(state: StepState, outcome: Outcome) -> None:
    """Record in *state* the *outcome* of its latest process."""
    cut_off = outcome.is_late or (outcome.problem is None and not outcome.result)
    state.problem = "out of time" if cut_off else outcome.problem
    state.is_broken = outcome.problem is not None and not cut_off


# }}}


# {{{ all steps


def ends(selected: Sequence[Step], begin: float, seconds: float) -> list[float]:
    """Return the deadline of each of *selected*, at which all shares up to and including its own have elapsed."""
    shares = list(accumulate(step.share for step in selected))
    return [begin + seconds * share / shares[-1] for share in shares]


def measure_all(selected: Sequence[Step], run: Run, seconds: float) -> list[StepState]:
    """Measure the *selected* steps, each in its share of the time, and then continue those that had too little time."""
    begin = time.monotonic()
    whole = sum(step.share for step in selected)
    states = [StepState(step, seconds * step.share / whole) for step in selected]
    for state, end in zip(states, ends(selected, begin, seconds), strict=True):
        if time.monotonic() < end:
            continue_step(state, run, end)
    for state in states:
        if state.problem and not state.is_broken and time.monotonic() < begin + seconds:
            continue_step(state, run, begin + seconds)
    return states


def report(states: Sequence[StepState], run: Run) -> None:
    """Print the time, measurements, failures, skipped kernels and remaining work of each step."""
    for state in states:
        archive = run.archive(state.step)
        run.print_and_log(
            f"{state.step.name}: {state.elapsed:.0f} of {state.limit:.0f} s; "
            f"{measurement_count(archive)}{remaining_work(state)}"
        )
        for each in state.failed:
            run.print_and_log(f"  failed: {each}")
        for kernel_class, label in sorted(UnfinishedConfigurations(archive).skipped):
            run.print_and_log(f"  skipped, started twice without finishing: {kernel_class}, {label}")


def measurement_count(archive: Path) -> str:
    """Return the number of measurements in *archive*, as text."""
    try:
        return f"{len(read_archive(archive).standing) if archive.exists() else 0} measurements"
    except ArchiveError as error:
        return str(error)


def remaining_work(state: StepState) -> str:
    """Return the remaining work of a step and the reason, as text."""
    if state.problem is None:
        return ", complete"
    progress = state.progress
    rest = (
        "all that are missing"
        if progress is None
        else f"{progress.total - progress.done} of {progress.total} configurations"
    )
    return f"; remaining: {rest} ({state.problem})"


def compress(folder: Path) -> None:
    """Write a compressed copy of each archive in *folder*."""
    for archive in sorted(folder.glob("*.jsonl")):
        archive.with_suffix(".jsonl.xz").write_bytes(lzma.compress(archive.read_bytes()))


# }}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure a device, and print what is complete and what is missing."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder of the archives; existing ones are continued")
    parser.add_argument("--backend", default="cuda", help="cuda or opencl")
    parser.add_argument("--device", help="part of the device's name")
    parser.add_argument("--seconds", type=float, default=540, help="time limit for all steps")
    parser.add_argument("--only", action="append", help="a step, may be repeated; by default all steps")
    options = parser.parse_args(arguments)
    every = {step.name: step for step in steps()}
    if unknown := set(options.only or ()) - every.keys():
        return fail(f"unknown step {', '.join(map(repr, sorted(unknown)))}; choose from {', '.join(every)}")
    run = Run(options.folder, options.backend, options.device)
    try:
        run.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return fail(f"cannot create folder {run.folder}: {error.strerror}")
    found = run_in_process(lambda _: device_name(run), lambda _: None, TIMEOUT, time.monotonic() + TIMEOUT)
    if found.problem is not None:
        return fail(found.problem)
    run.print_and_log(f"measuring {found.result} with backend {run.backend} for {options.seconds:g} s")
    try:
        states = measure_all([every[name] for name in options.only or every], run, options.seconds)
    finally:
        compress(run.folder)
    report(states, run)
    for broken in (state for state in states if state.is_broken):
        fail(f"{broken.step.name}: {broken.problem}")
    return int(any(state.is_broken for state in states))


def device_name(run: Run) -> str:
    """Open the device and return its name."""
    return opened(run.backend, run.device).environment.device


def fail(message: str) -> int:
    """Print *message* as one line to standard error, and return exit status 2."""
    print(f"gpu_hour.py: {message}", file=sys.stderr, flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
