"""A campaign: what is measured, in which order, and from which size on (Stevens and Klöckner, section 4.2).

The empty kernel comes first: its launch says how long a kernel must run to be worth measuring. Every sample goes into
the archive before the next one is taken, and what the archive holds is not run again.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache

from loopyperf.errors import IncompatibleRunsError, MeasurementError
from loopyperf.measurement.allocation import allocated_bytes
from loopyperf.measurement.archive import Archive
from loopyperf.measurement.backends.interface import Backend, Case
from loopyperf.measurement.configuration import Configuration, Limits, Sizes
from loopyperf.measurement.environment import incompatibilities
from loopyperf.measurement.kernel_files import KernelFile, configurations_of
from loopyperf.measurement.ladder import sizes_to_measure
from loopyperf.measurement.records import Kind, Measurement

EMPTY_KERNEL = "empty kernel"
"""``NAME`` of the kernel file whose launch is the overhead of all others."""

Planned = tuple[str, Configuration]
"""The ``NAME`` of a kernel file and one of its configurations."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign has come, in configurations: *done* of *total*, and which one it is at."""

    done: int
    total: int
    kernel_class: str
    label: str


def _ignore(progress: Progress) -> None:
    """Show nothing."""


def run_campaign(
    backend: Backend,
    files: Iterable[KernelFile],
    archive: Archive,
    *,
    progress: Callable[[Progress], None] = _ignore,
    on_failure: Callable[[str, Configuration, MeasurementError], None] | None = None,
) -> tuple[Measurement, ...]:
    """Return the measurements of all *files*, by the protocol of the run that *archive* was opened with.

    Those that *archive* held already are among them; probes are not. *progress* is called before each configuration
    and once at the end. A kernel that cannot be measured, or computes something wrong, raises
    :class:`MeasurementError`; with *on_failure* this is called instead, and the campaign goes on with the next
    configuration. Raises :class:`IncompatibleRunsError` if the archive's run is of another device than the backend's.
    """
    campaign = Campaign(backend, archive)
    planned = plan(files, backend.limits)
    shortest = archive.run.protocol.overhead_factor * campaign.launch_overhead(planned)
    measurements: list[Measurement] = []
    for done, (kernel_class, configuration) in enumerate(planned):
        progress(Progress(done, len(planned), kernel_class, configuration.label))
        try:
            measurements.extend(campaign.walk(kernel_class, configuration, shortest))
        except MeasurementError as error:
            if on_failure is None:
                raise
            on_failure(kernel_class, configuration, error)
    if planned:
        progress(Progress(len(planned), len(planned), planned[-1][0], planned[-1][1].label))
    return tuple(measurements)


def plan(files: Iterable[KernelFile], limits: Limits) -> tuple[Planned, ...]:
    """Return every configuration of *files* for a device with *limits*, the empty kernel's first.

    Raises :class:`KernelFileError` for configurations that cannot be told apart or have no sizes.
    """
    planned = [(file.name, configuration) for file in files for configuration in configurations_of(file, limits)]
    return tuple(sorted(planned, key=lambda item: item[0] != EMPTY_KERNEL))


class Campaign:
    """Takes probes and measurements on a backend, each only once for an archive."""

    def __init__(self, backend: Backend, archive: Archive) -> None:
        """Measure on *backend* into *archive*."""
        self._backend = backend
        self._archive = archive
        self._protocol = archive.run.protocol
        fields = incompatibilities(archive.run.environment, backend.environment)
        if fields:
            raise IncompatibleRunsError(
                f"{archive.path} was opened for a run on {archive.run.environment.device}, the backend is on "
                f"{backend.environment.device}, and they differ in {', '.join(fields)}; start the run "
                "with the backend's environment"
            )

    def launch_overhead(self, planned: Iterable[Planned]) -> float:
        """Return the seconds that an empty kernel takes at its smallest size.

        Without an empty kernel in *planned* it is the fastest one in the archive; raises :class:`MeasurementError`
        if there is none either.
        """
        for kernel_class, configuration in planned:
            if kernel_class == EMPTY_KERNEL:
                smallest = Case(kernel_class, configuration, configuration.sizes[0])
                return self._protocol.measured_time(self._recorded(smallest, "measurement").samples)
        empty = [
            self._protocol.measured_time(record.samples)
            for key, record in self._archive.completed.items()
            if key.kernel_class == EMPTY_KERNEL and key.kind == "measurement"
        ]
        if not empty:
            raise MeasurementError(
                f"the launch overhead is not known: neither the kernel files nor {self._archive.path} have an "
                f'"{EMPTY_KERNEL}"; measure it along with the others'
            )
        return min(empty)

    def walk(self, kernel_class: str, configuration: Configuration, shortest: float) -> Iterator[Measurement]:
        """Yield the measurements of one configuration, on each ladder from the size on that runs *shortest* seconds.

        The empty kernel is measured from its smallest size on, however short.
        """
        # Built once, for the memory check here and for the backend.
        built_once = replace(configuration, build=cache(configuration.build))
        floor = 0.0 if kernel_class == EMPTY_KERNEL else shortest

        def probe(sizes: Sizes) -> float | None:
            case = Case(kernel_class, built_once, sizes)
            return self._protocol.probed_time(self._recorded(case, "probe").samples) if self._fits(case) else None

        for ladder in built_once.ladders:
            for sizes in sizes_to_measure(replace(built_once, sizes=ladder), probe, floor, self._protocol.longest_run):
                yield self._recorded(Case(kernel_class, built_once, sizes), "measurement")

    def _fits(self, case: Case) -> bool:
        if case.key("probe") in self._archive.completed:
            return True
        kernel = case.configuration.build().default_entrypoint
        return allocated_bytes(kernel, case.sizes) <= self._backend.limits.global_memory

    def _recorded(self, case: Case, kind: Kind) -> Measurement:
        known = self._archive.completed.get(case.key(kind))
        return known if known is not None else self._taken(case, kind)

    def _taken(self, case: Case, kind: Kind) -> Measurement:
        runs = self._protocol.runs if kind == "measurement" else self._protocol.probe_runs
        samples = self._backend.time(case, runs)
        measurement = Measurement(
            run=self._archive.run.id,
            kernel_class=case.kernel_class,
            label=case.configuration.label,
            sizes={name: int(value) for name, value in case.sizes.items()},
            kind=kind,
            samples=samples,
            taken=datetime.now(UTC),
        )
        self._archive.append(measurement)
        return measurement
