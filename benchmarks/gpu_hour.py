"""What a device owes the project, most valuable first, in a given time: raw samples into one folder, resumable.

1. ``calibration.jsonl``: the measurement kernels, which fits are made from
2. ``test-kernels.jsonl``: the kernels that no fit sees, Rodinia's and the optimization steps among them
3. ``microbenchmarks.jsonl``: latencies and throughputs of instructions and memories
4. ``occupancy-BYTES.jsonl``: the test kernels and Rodinia's with so many bytes of local memory more in each group
5. ``ranking.jsonl``: many transformed variants of a few computations (``ranking_sets``)

Each has a share of the time; what one leaves over goes to the next, and in the end to those that had too little. What
the time does not suffice for is measured by the next run with the same folder. Each is measured in processes of its
own. Kernels that fail are left out and named, and so are those that ended their process twice (``begun.py``). Fits and
descriptions are made from the archives afterwards, without the device: ``loopyperf fit``.

    .venv/bin/python benchmarks/gpu_hour.py FOLDER [--backend cuda] [--seconds 540]

The exit status is 0 unless a step could not go on, for another reason than the time, or there is nothing to measure on.
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
from parts.begun import Begun, Times, without
from parts.own_process import Ended, Tell, in_own_process

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
"""folders of the kernels that are measured at several occupancies"""
OCCUPANCY = (8192, 32768, 16384, 4096, 24576, 12288)
"""bytes of local memory that a group takes beside its own; 48 KiB are the most that every NVIDIA GPU gives a group. The
first few are far apart, should the time not suffice for all"""
FEW_RUNS = Protocol(runs=12, dropped=2, fewest=4, longest_run=0.2)
SILENCE = 60.0
"""seconds that a configuration may take; then its process is ended"""
GRACE = 20.0
"""seconds that a step may go on beyond its end, to finish a configuration"""


class TimeIsUpError(Exception):
    """The time that was given is over."""


@dataclass(frozen=True)
class Step:
    """One archive."""

    name: str
    share: float
    """of the time, relative to the other steps"""
    files: tuple[KernelFile, ...]
    protocol: Protocol
    local_memory: int = 0


@dataclass
class Account:
    """What a step got, and how far it came."""

    step: Step
    given: float
    """seconds"""
    took: float = 0.0
    """seconds"""
    progress: Progress | None = None
    """the latest, None before the first"""
    failed: list[str] = field(default_factory=list)
    problem: str | None = "there was no time for it"
    """why it is not finished"""
    is_broken: bool = False
    """whether that is another reason than the time"""


@dataclass(frozen=True)
class Hour:
    """What was asked for."""

    folder: Path
    backend: str
    device: str | None

    def archive(self, step: Step) -> Path:
        """Return where the samples of *step* go."""
        return self.folder / f"{step.name}.jsonl"

    def say(self, text: str) -> None:
        """Print *text*, and keep it."""
        print(text, flush=True)
        self.log(text)

    def log(self, text: str) -> None:
        """Keep *text*."""
        with (self.folder / "log.txt").open("a", encoding="utf-8") as log:
            log.write(f"{text}\n")


def steps() -> Iterator[Step]:
    """Yield what is measured, in this order."""
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
    """Return the backend, whose groups take *local_memory* bytes beside their own."""
    named = {} if device is None else {"device": device}
    return open_backend(backend, **named, **({"dynamic_local_memory": local_memory} if local_memory else {}))


# {{{ one step


def go_on(account: Account, hour: Hour, end: float) -> None:
    """Measure a step until it is done, or until *end*, in as many processes as that takes."""
    start, archive = time.monotonic(), hour.archive(account.step)

    def hear(told: Progress | str) -> None:
        if isinstance(told, Progress):
            account.progress = told
        else:
            account.failed.append(told)

    while True:
        before, account.progress = Begun(archive).times, None
        account.failed.clear()
        ended = in_own_process(lambda tell: measured(account.step, hour, end, tell), hear, SILENCE, end + GRACE)
        if ended.trace:
            hour.log(ended.trace)
        if ended.is_late:  # the time was up, which is no fault of the configuration
            Begun(archive).note(before)
        if not is_to_blame(account.progress, before, Begun(archive).times) or time.monotonic() > end:
            break
        hour.say(f"{account.step.name}: {ended.problem}; begun again")
    account.took += time.monotonic() - start
    conclude(account, ended)


def is_to_blame(latest: Progress | None, before: Times, after: Times) -> bool:
    """Return whether the *latest* configuration was noted to begin, and nothing was noted since."""
    key = latest and (latest.kernel_class, latest.label)
    return key is not None and after.get(key, 0) > before.get(key, 0)


def measured(step: Step, hour: Hour, end: float, tell: Tell) -> bool:
    """Measure *step* until *end*, and tell how far it is; return whether it is finished."""
    begun = Begun(hour.archive(step))

    def checked(progress: Progress) -> None:
        begun.finish()
        tell(progress)
        if time_is_up(end):
            raise TimeIsUpError
        begun.begin(progress.kernel_class, progress.label)

    def noted(kernel_class: str, configuration: Configuration, error: MeasurementError) -> None:
        tell(f"{kernel_class}, {configuration.label}: {error}")

    machine = opened(hour.backend, hour.device, step.local_memory)
    try:
        measure(machine, without(step.files, begun.skipped), hour.archive(step), step.protocol, checked, noted)
    except TimeIsUpError:
        return False
    begun.finish()
    return True


def time_is_up(end: float) -> bool:
    """Return whether it is later than *end*."""
    return time.monotonic() > end


def conclude(account: Account, ended: Ended) -> None:
    """Enter in *account* how its latest process *ended*."""
    cut_off = ended.is_late or (ended.problem is None and not ended.result)
    account.problem = "the time was up" if cut_off else ended.problem
    account.is_broken = ended.problem is not None and not cut_off


# }}}


# {{{ all steps


def ends(chosen: Sequence[Step], begin: float, seconds: float) -> list[float]:
    """Return until when each of *chosen* may go on: by then all shares up to its own are over."""
    shares = list(accumulate(step.share for step in chosen))
    return [begin + seconds * share / shares[-1] for share in shares]


def measure_all(chosen: Sequence[Step], hour: Hour, seconds: float) -> list[Account]:
    """Measure the *chosen* steps, each in its share of the time, and then those again that had too little."""
    begin = time.monotonic()
    whole = sum(step.share for step in chosen)
    accounts = [Account(step, seconds * step.share / whole) for step in chosen]
    for account, end in zip(accounts, ends(chosen, begin, seconds), strict=True):
        if time.monotonic() < end:
            go_on(account, hour, end)
    for account in accounts:
        if account.problem and not account.is_broken and time.monotonic() < begin + seconds:
            go_on(account, hour, begin + seconds)
    return accounts


def report(accounts: Sequence[Account], hour: Hour) -> None:
    """Say what each step got, what there is, what was left out, and what is left to do."""
    for account in accounts:
        archive = hour.archive(account.step)
        hour.say(
            f"{account.step.name}: {account.took:.0f} of {account.given:.0f} s; {standing(archive)}{left(account)}"
        )
        for each in account.failed:
            hour.say(f"  failed: {each}")
        for kernel_class, label in sorted(Begun(archive).skipped):
            hour.say(f"  left out, since it was begun twice and never finished: {kernel_class}, {label}")


def standing(archive: Path) -> str:
    """Return how much *archive* holds."""
    try:
        return f"{len(read_archive(archive).standing) if archive.exists() else 0} measurements"
    except ArchiveError as error:
        return str(error)


def left(account: Account) -> str:
    """Return what is left to do, and why."""
    if account.problem is None:
        return ", all there are"
    seen = account.progress
    rest = "whatever is not there" if seen is None else f"{seen.total - seen.done} of {seen.total} configurations"
    return f"; left to do: {rest} ({account.problem})"


def compress(folder: Path) -> None:
    """Leave a compressed copy beside each archive in *folder*."""
    for archive in sorted(folder.glob("*.jsonl")):
        archive.with_suffix(".jsonl.xz").write_bytes(lzma.compress(archive.read_bytes()))


# }}}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and say what there is and what is missing."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="where the archives go; those that are there are continued")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--device", help="part of its name")
    parser.add_argument("--seconds", type=float, default=540, help="for everything together")
    parser.add_argument("--only", action="append", help="of the steps, one; all unless named")
    asked = parser.parse_args(arguments)
    every = {step.name: step for step in steps()}
    if unknown := set(asked.only or ()) - every.keys():
        return refuse(f"no step is called {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    hour = Hour(asked.folder, asked.backend, asked.device)
    try:
        hour.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return refuse(f"there can be no folder {hour.folder}: {error.strerror}")
    found = in_own_process(lambda _: device_name(hour), lambda _: None, SILENCE, time.monotonic() + SILENCE)
    if found.problem is not None:
        return refuse(found.problem)
    hour.say(f"measuring on {found.result} through {hour.backend} for {asked.seconds:g} s")
    try:
        accounts = measure_all([every[name] for name in asked.only or every], hour, asked.seconds)
    finally:
        compress(hour.folder)
    report(accounts, hour)
    for broken in (account for account in accounts if account.is_broken):
        refuse(f"{broken.step.name}: {broken.problem}")
    return int(any(account.is_broken for account in accounts))


def device_name(hour: Hour) -> str:
    """Return the name of the device, which is opened for that."""
    return opened(hour.backend, hour.device).environment.device


def refuse(why: str) -> int:
    """Print *why* on one line of standard error, and return an exit status."""
    print(f"gpu_hour.py: {why}", file=sys.stderr, flush=True)
    return 2


if __name__ == "__main__":
    sys.exit(main())
