"""Measurement campaigns: which kernels to time, in which order and from which size (Stevens and Klöckner, section 4.2).

The empty kernel comes first: its launch time determines how long a kernel must run to be worth measuring. All
configurations follow in a random order given by the protocol's seed, so that a slow drift of the device is not mistaken
for a property of a kernel class, but one of each class comes first: a campaign with a time limit then has measured all
classes. The sizes of a configuration are measured in a row, because it is compiled once. Each sample is archived before
the next one is taken. Archived samples are not measured again unless the device was slow.

:class:`ProgressBar` is the ``progress=`` callback of :func:`loopyperf.rank`, :func:`loopyperf.search`,
:func:`loopyperf.calibrate` and :func:`loopyperf.validate`. It needs tqdm, which is imported on first use.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from loopyperf.errors import IncompatibleRunsError, LoopyperfError, MeasurementError
from loopyperf.files import user_data
from loopyperf.measurement.archive import Archive, Recording, read_archive
from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import DriftMonitor, measured, probed
from loopyperf.measurement.environment import Configuration, DeviceLimits, Sizes, incompatibilities
from loopyperf.measurement.kernel_files import KernelFile, configurations_of
from loopyperf.measurement.protocol import Protocol, sizes_to_measure
from loopyperf.measurement.records import Key, Kind, Measurement, Run, standing

EMPTY_KERNEL = "empty kernel"
"""``NAME`` of the kernel file whose launch time is the overhead of all others."""

Planned = tuple[str, Configuration]
"""The ``NAME`` of a kernel file and one of its configurations."""
FailureReport = Callable[[str, Configuration, MeasurementError], None]
"""called with the kernel class, the configuration that failed, and the reason"""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a stage: *done* of *total* configurations or samples, and the current one."""

    done: int
    total: int
    """0 in a stage without a count, such as fitting"""
    kernel_class: str
    label: str
    stage: str = "measuring"
    """name of the stage, one word"""


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """Time after which a campaign starts no other configuration."""

    seconds: float
    left_out: list[Planned] = field(default_factory=list[Planned])
    """configurations that were not started in time; the campaign fills the list"""


def _ignore(progress: Progress) -> None:
    """Ignore *progress*."""


def run_campaign(
    backend: Backend,
    files: Iterable[KernelFile],
    archive: Archive,
    *,
    progress: Callable[[Progress], None] = _ignore,
    on_failure: FailureReport | None = None,
    limit: TimeLimit | None = None,
) -> tuple[Measurement, ...]:
    """Measure all *files* by the protocol of *archive*'s run and return their measurements in order.

    The result includes earlier measurements from *archive*, and no probes. Measurements that were taken while the
    device was slow are repeated, the last time at the end of the campaign; the one with the fastest reference kernel is
    returned. *progress* is called before each configuration and repeat, and once at the end. A kernel that cannot be
    measured or computes a wrong result raises :class:`MeasurementError`; with *on_failure*, that is called instead and
    the campaign continues. After the *limit*, no other configuration is started, and no measurement repeated. Raises
    :class:`IncompatibleRunsError` if *archive*'s run used another device than *backend*, and :class:`BackendError` if
    the device is lost.
    """
    end = math.inf if limit is None else monotonic() + limit.seconds
    planned = plan(files, backend.limits)
    campaign = Campaign(backend, archive, planned, on_failure)
    order = one_of_each_class_first(in_random_order(planned, archive.run.protocol.seed))
    for done, each in enumerate(order):
        if limit is not None and monotonic() > end:
            limit.left_out.extend(order[done:])
            break
        progress(Progress(done, len(planned), each[0], each[1].label))
        campaign.measure(each, campaign.repeats_at_once)
    for again in [each for each in order if campaign.was_slow(each)]:
        if monotonic() < end:
            progress(Progress(len(planned), len(planned), again[0], again[1].label))
            campaign.measure(again, archive.run.protocol.repeats)
    if order:
        progress(Progress(len(planned), len(planned), order[-1][0], order[-1][1].label))
    return tuple(measurement for each in planned for measurement in campaign.measurements(each))


def plan(files: Iterable[KernelFile], limits: DeviceLimits) -> tuple[Planned, ...]:
    """Return all configurations of *files* for a device with *limits*, starting with the empty kernel's.

    Raises :class:`KernelFileError` for configurations with equal labels or no sizes.
    """
    planned = [(file.name, configuration) for file in files for configuration in configurations_of(file, limits)]
    return tuple(sorted(planned, key=lambda item: item[0] != EMPTY_KERNEL))


def in_random_order(planned: Sequence[Planned], seed: int | None) -> tuple[Planned, ...]:
    """Return *planned* shuffled with *seed*, or in its own order if *seed* is None."""
    order = list(planned)
    if seed is not None:
        Random(seed).shuffle(order)
    return tuple(order)


def one_of_each_class_first(planned: Iterable[Planned]) -> tuple[Planned, ...]:
    """Return *planned* with the first configuration of each class before the others."""
    first: dict[str, Planned] = {}
    others = [each for each in planned if first.setdefault(each[0], each) is not each]
    return (*first.values(), *others)


class Campaign:
    """Probes and measurements of kernels on a backend, each taken once per archive unless the device was slow."""

    def __init__(
        self, backend: Backend, archive: Archive, planned: Sequence[Planned], on_failure: FailureReport | None = None
    ) -> None:
        """Prepare to measure *planned* on *backend* into *archive*, and measure the empty kernel's launch."""
        fields = incompatibilities(archive.run.environment, backend.environment)
        if fields:
            raise IncompatibleRunsError(
                f"{archive.path} was opened for a run on {archive.run.environment.device} but the backend runs on "
                f"{backend.environment.device}; they differ in {', '.join(fields)}; start the run with the backend's "
                "environment"
            )
        self._backend = backend
        self._archive = archive
        self._protocol = archive.run.protocol
        self._on_failure = on_failure
        self._keys: dict[tuple[str, str], list[Key]] = {}
        self._watch = DriftMonitor(backend, archive)
        # Built once, for the memory check here and for the backend, which identifies a configuration by identity.
        self._built_once = {(name, each.label): replace(each, build=cache(each.build)) for name, each in planned}
        self._shortest = self._protocol.overhead_factor * self._launch_overhead(planned)

    @property
    def repeats_at_once(self) -> int:
        """Return how often a measurement is repeated immediately; the last repeat waits for the campaign's end."""
        return max(0, self._protocol.repeats - 1)

    def measure(self, planned: Planned, repeats: int) -> None:
        """Measure one configuration at each size schedule, from the smallest size that runs long enough.

        Measurements taken while the device was slow are repeated up to *repeats* times. The empty kernel has no minimum
        run time. Raises :class:`MeasurementError` unless the campaign has an ``on_failure``.
        """
        kernel_class, configuration = planned
        self._keys[kernel_class, configuration.label] = keys = []
        try:
            keys.extend(
                self._measured(case, repeats).key for case in self._worth_measuring(kernel_class, configuration)
            )
        except MeasurementError as error:
            if self._on_failure is None:
                raise
            self._on_failure(kernel_class, configuration, error)

    def measurements(self, planned: Planned) -> tuple[Measurement, ...]:
        """Return the best repeat of each measurement of a configuration."""
        kernel_class, configuration = planned
        return tuple(self._archive.completed[key] for key in self._keys.get((kernel_class, configuration.label), ()))

    def was_slow(self, planned: Planned) -> bool:
        """Return whether the device was slow during the best repeat of any measurement of a configuration."""
        return any(self._watch.was_slow(measurement) for measurement in self.measurements(planned))

    # {{{ which sizes

    def _launch_overhead(self, planned: Iterable[Planned]) -> float:
        """Return the seconds of an empty kernel at its smallest size.

        Without an empty kernel in *planned*, this is the fastest one in the archive. Raises
        :class:`MeasurementError` if there is none either.
        """
        for kernel_class, configuration in planned:
            if kernel_class == EMPTY_KERNEL:
                smallest = self._case(kernel_class, configuration, configuration.sizes[0])
                return self._protocol.measured_time(self._measured(smallest, self.repeats_at_once).samples)
        empty = [
            self._protocol.measured_time(record.samples)
            for key, record in self._archive.completed.items()
            if key.kernel_class == EMPTY_KERNEL and key.kind == "measurement"
        ]
        if not empty:
            raise MeasurementError(
                f"the launch overhead is unknown: the kernel files and {self._archive.path} have no "
                f'"{EMPTY_KERNEL}"; include it in the kernel files'
            )
        return min(empty)

    def _worth_measuring(self, kernel_class: str, configuration: Configuration) -> Iterator[BenchmarkCase]:
        """Yield a configuration at the sizes to measure, probing each as late as possible."""
        floor = 0.0 if kernel_class == EMPTY_KERNEL else self._shortest

        def probe(sizes: Sizes) -> float | None:
            case = self._case(kernel_class, configuration, sizes)
            known = self._archive.completed.get(case.key("probe"))
            if known is None:
                kernel = case.configuration.build().default_entrypoint
                if allocated_bytes(kernel, case.sizes) > self._backend.limits.global_memory:
                    return None
                known = self._recorded(case, "probe", probed(self._backend, case, self._protocol))
            return self._protocol.probed_time(known.samples)

        for schedule in configuration.ladders:
            for sizes in sizes_to_measure(
                replace(configuration, sizes=schedule), probe, floor, self._protocol.longest_run
            ):
                yield self._case(kernel_class, configuration, sizes)

    def _case(self, kernel_class: str, configuration: Configuration, sizes: Sizes) -> BenchmarkCase:
        return BenchmarkCase(kernel_class, self._built_once[kernel_class, configuration.label], sizes)

    # }}}

    # {{{ taking samples

    def _measured(self, case: BenchmarkCase, repeats: int) -> Measurement:
        key = case.key("measurement")
        while len(takes := self._archive.takes(key)) <= repeats and (
            not takes or self._watch.was_slow(standing(takes))
        ):
            timing, yardstick = self._watch.watched(partial(measured, self._backend, case, self._protocol))
            self._recorded(case, "measurement", timing, len(takes) + 1, yardstick)
        return self._archive.completed[key]

    def _recorded(
        self, case: BenchmarkCase, kind: Kind, timing: MeasuredTimes, attempt: int = 1, yardstick: float | None = None
    ) -> Measurement:
        measurement = case.measurement(self._archive.run.id, kind, timing, attempt, yardstick)
        self._archive.append(*self._watch.records(), measurement)
        return measurement

    # }}}


ProgressReport = Callable[[Progress], None]

UNFINISHED = "unfinished"
"""part of the name of an interrupted campaign's archive, which the next campaign resumes"""


def report_stage(stage: str, progress: ProgressReport | None) -> None:
    """Report the start of *stage*, which has no step count, to *progress* if given."""
    if progress is not None:
        progress(Progress(0, 0, "", "", stage))


def unfinished_archive(machine: Backend, purpose: str) -> Path:
    """Return the path of the user's archive for *purpose* until its campaign is finished; it may not exist.

    OpenCL and CUDA have separate archives for the same device, because one cannot resume the other's campaign.
    """
    here = machine.environment
    return user_data() / "archives" / here.slug / f"{UNFINISHED}-{here.backend}-{purpose}.jsonl"


def keep(archive: Path) -> None:
    """Replace "unfinished" in the name of *archive* with a date, so that the next campaign starts a new one."""
    finished = f"{datetime.now(UTC):%Y-%m-%dT%H-%M-%S.%f}"
    archive.rename(archive.with_name(archive.name.replace(UNFINISHED, finished)))


def measure(
    machine: Backend,
    files: Sequence[KernelFile],
    archive: Path,
    protocol: Protocol | None,
    progress: ProgressReport | None,
    on_failure: FailureReport | None = None,
    afterwards: Callable[[Archive], None] | None = None,
    limit: TimeLimit | None = None,
) -> Recording:
    """Measure *files* on *machine* into *archive* and return its contents; archived measurements are not repeated.

    A kernel that cannot be measured raises :class:`MeasurementError`; with *on_failure*, that is called instead and the
    other kernels are measured. *afterwards* is called with the open archive at the end. After the *limit*, no other
    configuration is started.
    """
    run = Run.start(machine.environment, machine.limits, protocol or Protocol())
    with Archive(archive, run) as records:
        run_campaign(machine, files, records, progress=progress or _ignore, on_failure=on_failure, limit=limit)
        if afterwards is not None:
            afterwards(records)
    return read_archive(archive)


class ProgressBar:
    """A tqdm progress bar for the ``progress=`` argument: a widget in notebooks, text in terminals.

    It closes when all steps are done, on :meth:`close`, or at the end of a ``with`` statement.

    Parameters
    ----------
    title
        Text before the bar, until a stage supplies its own.

    Raises
    ------
    LoopyperfError
        If tqdm cannot be imported.

    Examples
    --------
    >>> import loopyperf
    >>> with loopyperf.ProgressBar("ranking") as progress:
    ...     for done in range(4):
    ...         progress(done, 3)
    """

    def __init__(self, title: str = "") -> None:
        """Show a bar after *title*."""
        try:
            with warnings.catch_warnings():
                # Without ipywidgets, tqdm shows text in notebooks and warns.
                warnings.simplefilter("ignore")
                self._bar: Any = import_module("tqdm.auto").tqdm(desc=title or None)
        except ImportError as error:
            raise LoopyperfError(
                f"progress bars need tqdm, which cannot be imported ({error}): pip install 'loopyperf[notebooks]'"
            ) from error

    def __call__(self, progress: int | Progress, total: int | None = None, /) -> None:
        """Show *progress* of *total* steps, or the progress of a stage."""
        if isinstance(progress, Progress):
            self._bar.set_description(f"{progress.stage} {progress.kernel_class}".strip(), refresh=False)
            self._show(progress.done, progress.total or None)
        else:
            self._show(progress, total)

    def _show(self, done: int, total: int | None) -> None:
        if done < self._bar.n or total != self._bar.total:
            self._bar.reset()
            self._bar.total = total
        self._bar.update(done - self._bar.n)
        self._bar.refresh()

    def close(self) -> None:
        """Stop updating the bar and leave it on screen."""
        self._bar.close()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
