"""Samples beside measurements: the first groups of whatever an archive has measurements of are run, and recorded there.

Of what was measured and sampled, the error of the sampled model is known, and can be learned.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache

import numpy as np

from loopyperf.counts.typical import Typical
from loopyperf.errors import BackendError, LoopyperfError, ParameterError
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends.interface import SEED, Backend, BenchmarkCase, RunsParts
from loopyperf.measurement.campaign import Progress
from loopyperf.measurement.configuration import Arguments, Configuration, Sizes
from loopyperf.measurement.kernel_files import KernelFile, configurations_of
from loopyperf.measurement.records import Sampled
from loopyperf.measurement.watch import Watch
from loopyperf.predict.case import prepared
from loopyperf.predict.samples import SampledKernel, SamplingTask, described_saturations, take_samples

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

    watch = Watch(whole, archive) if any(key not in archive.samples for key in wanted) else None
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


def _sample(machine: RunsParts, watch: Watch, case: BenchmarkCase, archive: Archive) -> list[str]:
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


def _taken(machine: RunsParts, watch: Watch, case: BenchmarkCase, repeats: int) -> SampledKernel:
    """Return samples of *case* that were taken while the device was not slow, or the last of so many *repeats*."""
    asked = sampling_task(machine, case)
    described = described_saturations(case.configuration.build(), machine, None, asked.sizes)
    while True:
        watch.wait()
        before = watch.latest
        taken = take_samples(asked, described=described)
        around = [seconds for seconds in (before, watch.look()) if seconds is not None]
        if not repeats or not any(map(watch.is_slow, around)):
            return taken
        repeats -= 1
