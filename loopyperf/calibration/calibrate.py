"""From a device to a fit: measure the measurement kernels, count them, fit the weights, keep everything.

Samples beside measurements: the first groups of whatever an archive has measurements of are run, and recorded there.

Of what was measured and sampled, the error of the sampled model is known, and can be learned.
"""

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
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
from loopyperf.measurement.campaign import Progress, ProgressReport, keep, measure, report_stage, unfinished_archive
from loopyperf.measurement.drift_monitor import DriftMonitor
from loopyperf.measurement.environment import Arguments, Configuration, DeviceLimits, Sizes
from loopyperf.measurement.kernel_files import KernelFile, configurations_of, measurement_kernels
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Sampled
from loopyperf.stages.case import count, prepared
from loopyperf.stages.samples import SampledKernel, SamplingTask, saturation_notes, take_samples

SAMPLING = "sampling"
"""the stage of a calibration, as its progress says"""


@dataclass(frozen=True, slots=True)
class Skipped:
    """Measurements without samples to learn from."""

    whole: tuple[str, ...]
    """classes of those that were run on all their groups, as they have too few; one for each"""
    refusals: tuple[str, ...]
    """why others cannot be sampled, in sentences"""

    def __str__(self) -> str:
        """Return in words what was skipped; nothing if nothing was."""
        said: list[str] = []
        if self.whole:
            classes = ", ".join(f"{name} ({number})" for name, number in sorted(Counter(self.whole).items()))
            said.append(
                f"{len(self.whole)} measurements have too few groups, or launches that take most of their time, and "
                f"were run as a whole, which teaches nothing: {classes}"
            )
        if self.refusals:
            said.append(f"{len(self.refusals)} measurements have no samples: {'; '.join(self.refusals)}")
        return "; ".join(said)


def checked_parts(machine: object, name: str) -> RunsParts:
    """Return *machine*, which is called *name*; raises :class:`ParameterError` if it cannot run a part of a kernel."""
    if not isinstance(machine, RunsParts):
        raise ParameterError(
            f"samples are runs of a part of a kernel, and the backend {name!r} runs whole ones only: "
            "leave samples out, or measure through 'opencl' or 'cuda'"
        )
    return machine


def sample_measured(
    machine: RunsParts,
    whole: Backend,
    files: Iterable[KernelFile],
    archive: Archive,
    progress: Callable[[Progress], None] | None = None,
) -> Skipped:
    """Take samples of what *archive* has measurements of and no samples yet, and return what is without.

    The same device, through *whole*, runs the yardstick: what was sampled while it was slow is sampled again, as often
    as measurements are repeated by the protocol of the archive's run, and the last samples stand. *progress* is called
    before each and once at the end. A kernel whose groups are too few is run on all of them, and one that cannot be
    sampled is left out. Raises :class:`BackendError` if the device is lost.
    """
    known = {(file.name, each.label): each for file in files for each in configurations_of(file, machine.limits)}
    wanted = [key for key in archive.completed if key.kind == "measurement" and (key.kernel_class, key.label) in known]
    wanted.sort(key=lambda key: (key.kernel_class, key.label))  # each is compiled once

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
    """Return *configuration*, built once, and with the arguments of its latest size made once."""

    @lru_cache(maxsize=1)
    def made(sizes: tuple[tuple[str, int], ...]) -> Arguments:
        return configuration.arguments(np.random.default_rng(SEED), dict(sizes))

    def arguments(_: np.random.Generator, sizes: Sizes) -> Arguments:
        return made(tuple(sizes.items()))

    return replace(configuration, build=cache(configuration.build), arguments=arguments)


def sampling_task(machine: RunsParts, case: BenchmarkCase) -> SamplingTask:
    """Return what is asked of the *case* of a kernel file: its integer parameters are those among its arguments."""
    arguments = case.configuration.arguments(np.random.default_rng(SEED), case.sizes)
    kernel = prepared(case.configuration.build(), arguments)
    sizes = {name: int(arguments[name]) for name in sorted(kernel.parameters)}
    return SamplingTask(machine, case, kernel, sizes, Typical({}))


def sampled_record(case: BenchmarkCase, taken: SampledKernel, run: str) -> Sampled:
    """Return the record of the samples *taken* of *case* in the run of that id."""
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
    """Record samples of *case*; return why there are none, if there are none."""
    try:
        taken = _taken(machine, watch, case, archive.run.protocol.repeats)
    except BackendError:
        raise
    except LoopyperfError as error:
        return [str(error)]
    if not taken.programs:
        return [f"{case}: launches no groups"]
    archive.append(*watch.records())
    archive.append_samples(sampled_record(case, taken, archive.run.id))
    return []


def _taken(machine: RunsParts, watch: DriftMonitor, case: BenchmarkCase, repeats: int) -> SampledKernel:
    """Return samples of *case* that were taken while the device was not slow, or the last of so many *repeats*."""
    asked = sampling_task(machine, case)
    described = saturation_notes(case.configuration.build(), machine, None, asked.sizes)
    while True:
        watch.wait()
        before = watch.latest
        taken = take_samples(asked, described=described)
        around = [seconds for seconds in (before, watch.look()) if seconds is not None]
        if not repeats or not any(map(watch.is_slow, around)):
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
    progress: ProgressReport | None = None,
) -> Fit:
    """Return the fit of a device, in seconds per unit of work, from measurements taken now.

    It is of the model that generalises best, unless *model* names one. Every raw sample goes into *archive* (by default
    in the user data folder, where an interrupted calibration is resumed and a finished one is kept under its date). The
    fit is written to *save*; by default it goes where :func:`loopyperf.estimate` finds it, beside those of other
    backends, and so does a fit of each other model.

    *backend* is ``"opencl"``, ``"cuda"`` or an open one, *device* a part of the device's name. *kernels* is a folder of
    kernel files, by default the bundled ones. *protocol* says how often each kernel runs and which samples count
    (:class:`loopyperf.measurement.protocol.Protocol`), by default as `loopyperf calibrate` does. *non_negative* says
    whether the linear model's weights must not be negative, by default whichever generalises better. With *samples*,
    the first groups of whatever was measured are run too, and recorded for :func:`loopyperf.train`: an archive without
    any gets them, and nothing is measured again; a warning says which kernels have none. *progress* is called with a
    :class:`loopyperf.measurement.campaign.Progress` before each kernel configuration, each sample and the fit.

    Raises :class:`BackendError` without a device, :class:`MeasurementError` for a kernel that computes something
    wrong, :class:`IncompatibleRunsError` for an archive of another device or protocol; and before anything is measured
    :class:`ParameterError` for samples through a backend that runs whole kernels only, for a *non_negative* of a model
    that is not linear and for a counting that there is not, :class:`UnknownModelError` for a model that is not fitted,
    and :class:`FitFileError` where the fit cannot be saved.
    """
    check_fitting(model, counting, non_negative)
    if save is not None and (reason := why_unwritable(Path(save), makes_folders=True)):
        raise FitFileError(f"the fit cannot be written to {save}: {reason}; give another path")
    machine = opened(backend, device)
    files = measurement_kernels(kernels)
    path = unfinished_archive(machine, "calibration") if archive is None else Path(archive)
    afterwards = _sampling(machine, files, progress) if samples else None
    recording = measure(machine, files, path, protocol, progress, afterwards=afterwards)
    report_stage("fitting", progress)
    fits = fit_recording(recording, files, counting, model, non_negative)
    save_fits(fits, save)
    if archive is None:
        keep(path)
    return fits[0]


def _sampling(
    machine: Backend, files: Sequence[KernelFile], progress: ProgressReport | None
) -> Callable[[Archive], None]:
    """Return a function that takes samples of all that an archive has, and warns of kernels that have none."""
    parts = checked_parts(machine, machine.environment.backend)

    def afterwards(archive: Archive) -> None:
        if said := str(sample_measured(parts, machine, files, archive, progress)):
            warnings.warn(said, LoopyperfWarning, stacklevel=4)

    return afterwards


@dataclass(frozen=True, slots=True)
class CountedRun:
    """A configuration at one size, counted."""

    kernel_class: str
    label: str
    sizes: Mapping[str, int]
    properties: Mapping[str, int]


def kernel_coverage(
    limits: DeviceLimits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> tuple[Coverage, ...]:
    """Return which of the paper's properties, and others, the kernels of a folder exercise on a device with *limits*.

    *kernels* is by default the bundled measurement kernels. Ranges are those of all sizes that fit the memory, of which
    a calibration measures a few. Configurations that the linear model is not fitted to do not count.
    """
    return tabulate(counted_runs(limits, kernels, counting), PAPER_PROPERTIES)


def counted_runs(
    limits: DeviceLimits, kernels: str | os.PathLike[str] | None = None, counting: Counting = "executed"
) -> Iterator[CountedRun]:
    """Yield the counts that the linear model can be fitted to, configuration by configuration, at each size."""
    for file in measurement_kernels(kernels):
        for configuration in configurations_of(file, limits):
            if not configuration.beyond:
                yield from _counted(file.name, configuration, limits, counting)


def _counted(
    kernel_class: str, configuration: Configuration, limits: DeviceLimits, counting: Counting
) -> Iterator[CountedRun]:
    unit = configuration.build()
    totals = count(unit, counting).properties().totals
    for sizes in (sizes for ladder in configuration.ladders for sizes in ladder):
        if allocated_bytes(unit.default_entrypoint, sizes) <= limits.global_memory:
            properties = dict(zip(totals.keys, totals.at(sizes), strict=True))
            yield CountedRun(kernel_class, configuration.label, sizes, properties)
