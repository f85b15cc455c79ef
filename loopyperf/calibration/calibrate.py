"""Calibrate a device: measure the measurement kernels, count them, fit the weights, and save the fit.

:func:`sample_measured` also samples the first groups of the archive's measured kernels and records the samples there.
Measurements with samples reveal the error of the sampled model, which a residual model can learn.
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from pathlib import Path

import numpy as np

from loopyperf.calibration.archived import check_fitting, fit_recording
from loopyperf.calibration.fit_library import save_fits
from loopyperf.calibration.fits import Fit
from loopyperf.counts.execution import Counting
from loopyperf.counts.sizes import Typical
from loopyperf.errors import BackendError, FitFileError, LoopyperfError, LoopyperfWarning, ParameterError
from loopyperf.files import why_unwritable
from loopyperf.measurement.archive import Archive
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
from loopyperf.measurement.environment import Arguments, Configuration, Sizes
from loopyperf.measurement.kernel_files import KernelFile, configurations_of, measurement_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Sampled
from loopyperf.measurement.samples import SampledKernel, SamplingTask, take_samples
from loopyperf.stages.case import Case, prepared
from loopyperf.stages.timing import groups_at_once
from loopyperf.units import listed, number_of

MAX_NAMED = 6
"""maximum number of kernel classes named in a warning"""
SAMPLING = "sampling"
"""name of the stage in progress reports"""


def sample_measured(
    machine: RunsParts,
    whole: Backend,
    files: Iterable[KernelFile],
    archive: Archive,
    progress: Callable[[Progress], None] | None = None,
) -> str:
    """Sample the measured kernels of *archive* that have no samples yet, and say which cannot be used for training.

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
    complete = Counter(each.kernel_class for each in taken if each.is_whole)
    remarks: list[str] = []
    if complete:
        classes = ", ".join(f"{name} ({number})" for name, number in sorted(complete.items()))
        remarks.append(
            f"{complete.total()} measurements were run completely and cannot be used for training, because of too few "
            f"groups or dominant launch overhead: {classes}"
        )
    if refusals:
        remarks.append(f"{len(refusals)} measurements have no samples: {'; '.join(refusals)}")
    return "; ".join(remarks)


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
    archive.append_samples(
        Sampled(
            run=archive.run.id,
            kernel_class=case.kernel_class,
            label=case.configuration.label,
            sizes={name: int(value) for name, value in case.sizes.items()},
            programs=taken.programs,
            launching=taken.launching,
            taken=datetime.now(UTC),
        )
    )
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
        *samples* is set for a backend that cannot run parts of kernels, or *counting* is invalid. Raised before
        measuring, as are the following errors.
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
    check_fitting(model, counting)
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
    fits = fit_recording(recording, files, counting, model)
    save_fits(fits, save)
    if archive is None and not rest:
        keep(path)
    return fits[0]


def _sampling(
    machine: Backend, files: Sequence[KernelFile], progress: ProgressReport | None
) -> Callable[[Archive], None]:
    """Return a function that samples the measured kernels of an archive and warns of those without samples."""
    if not isinstance(machine, RunsParts):
        raise ParameterError(
            f"samples need a backend that runs parts of kernels, got {machine.environment.backend!r}; omit samples, or "
            "use 'opencl' or 'cuda'"
        )
    parts = machine

    def afterwards(archive: Archive) -> None:
        if message := sample_measured(parts, machine, files, archive, progress):
            warnings.warn(message, LoopyperfWarning, stacklevel=4)

    return afterwards
