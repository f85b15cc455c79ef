"""Calibrate a device: measure the measurement kernels, count them, fit the weights, and save the fit.

:func:`sample_measured` also samples the first groups of the archive's measured kernels and records the samples there.
Measurements with samples reveal the error of the sampled model, which a residual model can learn.
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np

from loopyperf.calibration.archived import check_fitting, fit_recording
from loopyperf.calibration.fit_library import save_fits
from loopyperf.calibration.fits import Fit
from loopyperf.calibration.problem import Coverage, tabulate
from loopyperf.counts.execution import Counting
from loopyperf.counts.property_vector import PAPER_PROPERTIES
from loopyperf.counts.sizes import Typical
from loopyperf.errors import BackendError, FitFileError, LoopyperfError, LoopyperfWarning, ParameterError
from loopyperf.files import why_unwritable
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import SEED, Backend, BenchmarkCase, RunsParts
from loopyperf.measurement.campaign import (
    Progress,
    ProgressReport,
    TimeLimit,
    keep,
    measure,
    report_stage,
    unfinished_archive,
)
from loopyperf.measurement.drift_monitor import DriftMonitor
from loopyperf.measurement.environment import Arguments, Configuration, DeviceLimits, Sizes
from loopyperf.measurement.kernel_files import KernelFile, configurations_of, measurement_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Sampled
from loopyperf.measurement.samples import SampledKernel, SamplingTask, take_samples
from loopyperf.stages.case import Case, prepared
from loopyperf.stages.counting import count
from loopyperf.stages.timing import groups_at_once
from loopyperf.units import listed, number_of

MAX_NAMED = 6
"""maximum number of kernel classes named in a warning"""
SAMPLING = "sampling"
"""name of the stage in progress reports"""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Measurements without samples for training."""

    whole: tuple[str, ...]
    """kernel classes of kernels that were run completely because they have too few groups, one entry per measurement"""
    refusals: tuple[str, ...]
    """reasons why other kernels cannot be sampled, in sentences"""

    def __str__(self) -> str:
        """Return a description; empty if there are none."""
        remarks: list[str] = []
        if self.whole:
            classes = ", ".join(f"{name} ({number})" for name, number in sorted(Counter(self.whole).items()))
            remarks.append(
                f"{len(self.whole)} measurements were run completely and cannot be used for training, because of too "
                f"few groups or dominant launch overhead: {classes}"
            )
        if self.refusals:
            remarks.append(f"{len(self.refusals)} measurements have no samples: {'; '.join(self.refusals)}")
        return "; ".join(remarks)


def checked_parts(machine: object, name: str) -> RunsParts:
    """Return *machine*, the backend *name*; raises :class:`ParameterError` if it cannot run parts of kernels."""
    if not isinstance(machine, RunsParts):
        raise ParameterError(
            f"samples need a backend that runs parts of kernels, got {name!r}; omit samples, or use 'opencl' or 'cuda'"
        )
    return machine


def sample_measured(
    machine: RunsParts,
    whole: Backend,
    files: Iterable[KernelFile],
    archive: Archive,
    progress: Callable[[Progress], None] | None = None,
) -> Skipped:
    """Sample the measured kernels of *archive* that have no samples yet, and return those without samples.

    *whole*, a backend of the same device, times the reference kernel. Samples taken while the device was slow are
    repeated as often as the archive's protocol repeats measurements; the last ones are kept. *progress* is called
    before each kernel and once at the end. A kernel with too few groups is run completely; one that cannot be sampled
    is skipped. Raises :class:`BackendError` if the device is lost.
    """
    known = {(file.name, each.label): each for file in files for each in configurations_of(file, machine.limits)}
    wanted = [key for key in archive.completed if key.kind == "measurement" and (key.kernel_class, key.label) in known]
    wanted.sort(key=lambda key: (key.kernel_class, key.label))  # so that each is compiled once

    @lru_cache(maxsize=1)
    def subject(kernel_class: str, label: str) -> Configuration:
        return made_once(known[kernel_class, label])

    watch = DriftMonitor(whole, archive) if any(key not in archive.samples for key in wanted) else None
    refusals: list[str] = []
    for done, key in enumerate(wanted):
        if progress is not None:
            progress(Progress(done, len(wanted), key.kernel_class, key.label, SAMPLING))
        if watch is not None and key not in archive.samples:
            case = BenchmarkCase(key.kernel_class, subject(key.kernel_class, key.label), dict(key.sizes))
            refusals += _sample(machine, watch, case, archive)
    if progress is not None and wanted:
        progress(Progress(len(wanted), len(wanted), wanted[-1].kernel_class, wanted[-1].label, SAMPLING))
    taken = (archive.samples[key] for key in wanted if key in archive.samples)
    return Skipped(tuple(each.kernel_class for each in taken if each.is_whole), tuple(refusals))


def made_once(configuration: Configuration) -> Configuration:
    """Return *configuration* with its kernel and the arguments of its latest size cached."""

    @lru_cache(maxsize=1)
    def made(sizes: tuple[tuple[str, int], ...]) -> Arguments:
        return configuration.arguments(np.random.default_rng(SEED), dict(sizes))

    def arguments(_: np.random.Generator, sizes: Sizes) -> Arguments:
        return made(tuple(sizes.items()))

    return replace(configuration, build=cache(configuration.build), arguments=arguments)


def sampling_task(machine: RunsParts, case: BenchmarkCase) -> SamplingTask:
    """Return the sampling task of *case*, a kernel file's; its integer parameters are among its arguments."""
    arguments = case.configuration.arguments(np.random.default_rng(SEED), case.sizes)
    kernel = prepared(case.configuration.build(), arguments)
    sizes = {name: int(arguments[name]) for name in sorted(kernel.parameters)}
    return SamplingTask(machine, case, kernel, sizes, Typical({}))


def sampled_record(case: BenchmarkCase, taken: SampledKernel, run: str) -> Sampled:
    """Return the record of the samples *taken* of *case* in the run with the id *run*."""
    return Sampled(
        run=run,
        kernel_class=case.kernel_class,
        label=case.configuration.label,
        sizes={name: int(value) for name, value in case.sizes.items()},
        programs=taken.programs,
        launching=taken.launching,
        taken=datetime.now(UTC),
    )


def _sample(machine: RunsParts, watch: DriftMonitor, case: BenchmarkCase, archive: Archive) -> list[str]:
    """Record samples of *case*; return the reason if there are none."""
    try:
        taken = _taken(machine, watch, case, archive.run.protocol.repeats)
    except BackendError:
        raise
    except LoopyperfError as error:
        return [str(error)]
    if not taken.programs:
        return [f"{case}: no groups are launched"]
    archive.append(*watch.records())
    archive.append_samples(sampled_record(case, taken, archive.run.id))
    return []


def _taken(machine: RunsParts, watch: DriftMonitor, case: BenchmarkCase, repeats: int) -> SampledKernel:
    """Return samples of *case* taken while the device was not slow, or the last ones after *repeats* repeats."""
    task = sampling_task(machine, case)
    described = groups_at_once(Case(case.configuration.build(), task.sizes), machine.environment.slug)
    while True:
        taken, yardstick = watch.watched(partial(take_samples, task, described=described))
        if not repeats or yardstick is None or not watch.is_slow(yardstick):
            return taken
        repeats -= 1


def calibrate(
    backend: str | Backend = "opencl",
    *,
    device: str | None = None,
    kernels: str | os.PathLike[str] | None = None,
    archive: str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    protocol: Protocol | None = None,
    counting: Counting = "executed",
    model: str | None = None,
    non_negative: bool | None = None,
    samples: bool = False,
    minutes: float | None = None,
    progress: ProgressReport | None = None,
) -> Fit:
    """Measure a device, fit a model to the measurements, and return and save the fit.

    Every raw sample is stored in an archive. The fit is saved where :func:`loopyperf.estimate` finds it, next to those
    of other backends, together with a fit of each other model.

    Parameters
    ----------
    backend : {"opencl", "cuda"} or Backend, optional
        Backend that runs the kernels.
    device : str, optional
        Part of the device's name.
    kernels : path, optional
        Folder of kernel files to measure. The default is the bundled measurement kernels.
    archive : path, optional
        Archive for the samples. The default is in the user data folder, where an interrupted calibration is resumed and
        a finished archive is kept under its date.
    save : path, optional
        File for the fit, instead of the default location; fits of other models are not saved then.
    protocol : loopyperf.measurement.protocol.Protocol, optional
        Rules for timing: how often each kernel runs and which samples count.
    counting : {"executed", "paper"}, optional
        How to count operations; see :func:`loopyperf.count`.
    model : str, optional
        Model to fit. The default is the one that generalizes best.
    non_negative : bool, optional
        Whether the linear model's weights must be non-negative. The default is the choice that generalizes best.
    samples : bool, optional
        Whether to also sample the first groups of each measured kernel, for :func:`loopyperf.train`. Kernels of
        *archive* that are already measured are only sampled. A warning lists kernels without samples.
    minutes : float, optional
        Time for measuring, at least 0; the fit takes some time more. The default is as long as necessary. Kernels of as
        many classes as possible are measured, a warning says which are missing, and another call measures the rest.
    progress : callable, optional
        Called with a :class:`loopyperf.measurement.campaign.Progress` before each configuration, each sample and the
        fit; for example a :class:`loopyperf.ProgressBar`.

    Returns
    -------
    Fit
        Weights in seconds per unit of work, with provenance, residuals and cross-validation.

    Raises
    ------
    BackendError
        There is no device.
    MeasurementError
        A kernel computes a wrong result or cannot be measured.
    IncompatibleRunsError
        *archive* is of another device or protocol.
    ParameterError
        *samples* is set for a backend that cannot run parts of kernels, *non_negative* for a model other than linear,
        or *counting* is invalid. Raised before measuring, as are the following errors.
    UnknownModelError
        *model* is not a fitted model.
    FitFileError
        The fit cannot be saved to *save*.

    Examples
    --------
    >>> import loopyperf
    >>> fit = loopyperf.calibrate("cuda", progress=loopyperf.ProgressBar())  # doctest: +SKIP
    >>> print(fit)  # doctest: +SKIP
    overlap model of NVIDIA H200 (nvidia-h200): 15 weights of pipelines, from 1,149 measurements, ...
    """
    check_fitting(model, counting, non_negative)
    if minutes is not None and not minutes >= 0:
        raise ParameterError(f"minutes must be a number >= 0, got {minutes!r}")
    if save is not None and (reason := why_unwritable(Path(save), makes_folders=True)):
        raise FitFileError(f"cannot write the fit to {save}: {reason}; use another path")
    machine = opened(backend, device)
    files = measurement_kernels(kernels)
    path = unfinished_archive(machine, "calibration") if archive is None else Path(archive)
    afterwards = _sampling(machine, files, progress) if samples else None
    limit = None if minutes is None else TimeLimit(60 * minutes)
    recording = measure(machine, files, path, protocol, progress, afterwards=afterwards, limit=limit)
    rest = [] if limit is None else limit.left_out
    if rest:
        classes = sorted({name for name, _ in rest} - {each.kernel_class for each in recording.standing})
        warnings.warn(
            f"no time for {number_of(len(rest), 'configuration')} of the measurement kernels in {minutes:g} minutes, "
            f"among them all of {listed(classes, MAX_NAMED) or 'no class'}; calibrate again to measure the rest",
            LoopyperfWarning,
            stacklevel=2,
        )
    report_stage("fitting", progress)
    fits = fit_recording(recording, files, counting, model, non_negative)
    save_fits(fits, save)
    if archive is None and not rest:
        keep(path)
    return fits[0]


def _sampling(
    machine: Backend, files: Sequence[KernelFile], progress: ProgressReport | None
) -> Callable[[Archive], None]:
    """Return a function that samples the measured kernels of an archive and warns of those without samples."""
    parts = checked_parts(machine, machine.environment.backend)

    def afterwards(archive: Archive) -> None:
        if message := str(sample_measured(parts, machine, files, archive, progress)):
            warnings.warn(message, LoopyperfWarning, stacklevel=4)

    return afterwards


@dataclass(frozen=True, slots=True)
class CountedRun:
    """Counts of a configuration at one size."""

    kernel_class: str
    label: str
    sizes: Mapping[str, int]
    properties: Mapping[str, int]


def kernel_coverage(
    limits: DeviceLimits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> tuple[Coverage, ...]:
    """Return how the kernels of a folder exercise the paper's and other properties on a device with *limits*.

    *kernels* is by default the bundled measurement kernels. Ranges are over all sizes that fit into memory, of which a
    calibration measures a few. Configurations excluded from the linear model do not count.
    """
    return tabulate(counted_runs(limits, kernels, counting), PAPER_PROPERTIES)


def counted_runs(
    limits: DeviceLimits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> Iterator[CountedRun]:
    """Yield the counts of all configurations of the linear model at each size."""
    for file in measurement_kernels(kernels):
        for configuration in configurations_of(file, limits):
            if not configuration.beyond:
                yield from _counted(file.name, configuration, limits, counting)


def _counted(
    kernel_class: str, configuration: Configuration, limits: DeviceLimits, counting: Counting
) -> Iterator[CountedRun]:
    unit = configuration.build()
    totals = count(unit, counting).properties().totals
    for sizes in (sizes for schedule in configuration.ladders for sizes in schedule):
        if allocated_bytes(unit.default_entrypoint, sizes) <= limits.global_memory:
            properties = dict(zip(totals.keys, totals.evaluator.at(sizes), strict=True))
            yield CountedRun(kernel_class, configuration.label, sizes, properties)
