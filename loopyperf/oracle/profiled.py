"""How near is what is predicted to what a profiler has counted? The public function :func:`compare_counters`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from statistics import median
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.device_files import device_slug
from loopyperf.device.library import DeviceChoice, given_device, names_without_brand, without_brand
from loopyperf.errors import MeasurementError
from loopyperf.models.on_device.counters import Counters, LaunchCounters, unit_of_metric
from loopyperf.oracle.profiler_files import Profiled, read_profile
from loopyperf.sheet import Sheet, Table, Tabular, called
from loopyperf.units import amount, listed, number_of

NAMED = 3
"""kernels that a sentence names, at most"""


@dataclass(frozen=True, slots=True)
class ComparedCounter:
    """A metric of a launch, predicted and counted."""

    launch: str
    """name of the device program"""
    metric: str
    """as Nsight Compute calls it"""
    predicted: float
    """in one execution of the launch"""
    counted: float
    """the median, where a file tells of several launches of that name"""

    @property
    def error(self) -> float | None:
        """Return by which part of what is counted the prediction is more; None where that is zero and this is not."""
        if self.counted:
            return self.predicted / self.counted - 1
        return None if self.predicted else 0.0


@dataclass(frozen=True, repr=False)
class CountersComparison(Tabular):
    """What was predicted of a kernel, beside what a profiler has counted."""

    counters: Counters
    """all that is predicted"""
    rows: tuple[ComparedCounter, ...]
    """metrics that are both predicted and counted"""
    notes: tuple[str, ...]
    """what was counted several times, and what is not predicted, in sentences"""

    def sheet(self) -> Sheet:
        """Return both numbers of each metric, and by how much the predicted one is off."""
        several = len({each.launch for each in self.rows}) > 1
        rows = [
            (
                each.metric,
                amount(each.predicted),
                amount(each.counted),
                "" if each.error is None else f"{each.error:+.1%}",
                unit_of_metric(each.metric),
                *([each.launch] if several else []),
            )
            for each in self.rows
        ]
        headings = ("metric", "predicted", "counted", "error", "unit", *(["launch"] if several else []))
        about = self.counters
        return Sheet(
            asked=f"{called(about.kernel, about.sizes, about.typical)} on {about.device}",
            answer=f"{number_of(len(rows), 'metric')}, predicted and counted",
            tables=[Table(headings, rows, last=len(headings) - 4)],
            notes=(*self.notes, *about.notes),
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each metric that is predicted and counted, in its unit; errors are relative."""
        return [
            {
                "launch": each.launch,
                "metric": each.metric,
                "predicted": each.predicted,
                "counted": each.counted,
                "error": each.error,
            }
            for each in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values that JSON can hold."""
        return {**self.counters.to_dict(), "compared": self.records(), "notes": [*self.notes, *self.counters.notes]}


def compare_counters(
    counters: Counters, profile: str | PathLike[str], /, *, device: DeviceChoice | None = None
) -> CountersComparison:
    """Return *counters* beside those in the file *profile*: Nsight Compute's ``--csv``, or KTT's JSON.

    Launches are matched by the names of their device functions, or by groups and work-items if a file lacks names. Of
    several launches of that name, medians are taken. *device* is the one that *counters* are of, where its description
    has no name. Raises :class:`MeasurementError` for a file that is no profile, and for one of another kernel, another
    device, or other sizes.
    """
    found = read_profile(profile)
    _check_device(found, given_device(counters.device if device is None else device), profile)
    rows: list[ComparedCounter] = []
    notes: list[str] = []
    for launch in counters.launches:
        own = _of_launch(found, launch, profile)
        if len(own) > 1:
            notes.append(f"{launch.name} was counted {len(own):,} times: medians")
        metrics = dict.fromkeys(metric for each in own for metric in each.values)
        both = [metric for metric in launch.values if metric in metrics]
        rows += [ComparedCounter(launch.name, each, launch.values[each], _median(own, each)) for each in both]
        notes += _left(metrics, launch)
    return CountersComparison(counters, tuple(rows), tuple(dict.fromkeys(notes)))


def _median(launches: Sequence[Profiled], metric: str) -> float:
    return median(each.values[metric] for each in launches if metric in each.values)


def _left(metrics: Mapping[str, None], launch: LaunchCounters) -> Iterator[str]:
    left = [each for each in metrics if each not in launch.values]
    if left:
        yield f"not predicted: {listed(left, NAMED)}"


def _check_device(found: Sequence[Profiled], device: Device, profile: str | PathLike[str]) -> None:
    """Raise :class:`MeasurementError` for a profile of another device, as far as it tells."""
    for each in found:
        if each.device and without_brand(device_slug(each.device)) not in names_without_brand(device):
            raise MeasurementError(f"{profile} is of {each.device}, the prediction of {device.slug}: name that device")
        if each.capability and device.target and each.capability != device.target:
            raise MeasurementError(
                f"{profile} is of a device of compute capability {each.capability}, {device.slug} has {device.target}: "
                "name the device that was profiled"
            )


def _of_launch(found: Sequence[Profiled], launch: LaunchCounters, profile: str | PathLike[str]) -> Sequence[Profiled]:
    """Return what was counted of *launch*; raises :class:`MeasurementError` where nothing was."""
    named = [each for each in found if each.kernel in ("", launch.name)]
    if not named:
        others = listed(dict.fromkeys(each.kernel for each in found), NAMED)
        raise MeasurementError(f"{profile} is of {others}, and has nothing of {launch.name}: give a profile of it")
    own = [each for each in named if _is_of_size(each, launch)]
    if not own:
        sizes = dict.fromkeys((each.groups, each.work_items) for each in named)
        shown = listed((f"{groups:,} groups of {items:,}" for groups, items in sizes if groups and items), NAMED)
        raise MeasurementError(
            f"{profile} is of {shown} work-items, {launch.name} has {launch.groups:,} groups of {launch.work_items:,}: "
            "state the sizes that were profiled"
        )
    return own


def _is_of_size(profiled: Profiled, launch: LaunchCounters) -> bool:
    return profiled.groups in (None, launch.groups) and profiled.work_items in (None, launch.work_items)
