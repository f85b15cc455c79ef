"""A fit from timings that were taken elsewhere: rows of a kernel, its sizes and the seconds that it took."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from loopyperf.calibration.candidates import possible
from loopyperf.calibration.fit_files import save_fit
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.fitting import fit_observations
from loopyperf.calibration.problem import Observation
from loopyperf.counts.execution import Counting
from loopyperf.device.description import Device
from loopyperf.device.names import device_slug
from loopyperf.errors import CalibrationError, LoopyperfError
from loopyperf.measurement.environment import installed_versions
from loopyperf.models import find_fitted_model
from loopyperf.models.sampling import SampledProgram
from loopyperf.oracle.analysis import Program
from loopyperf.oracle.observation import described, observe


@dataclass(frozen=True, slots=True)
class Measured:
    """A kernel at one size, and how long it took."""

    kernel: Program
    sizes: Mapping[str, Any]
    seconds: float
    kernel_class: str = ""
    """cross-validation leaves out all rows of a class; by default the kernel's name"""
    label: str = ""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what the source does not tell (:func:`loopyperf.count`)"""
    samples: Sequence[SampledProgram] = ()
    """what the first groups of each launch took; only learned models look at them"""
    launching: float = 0.0
    """seconds that the host takes beside them"""


Row = Measured | Sequence[Any] | Mapping[str, Any]
"""a :class:`Measured`, its fields in their order, or its fields by name"""


Task = tuple[Measured, Counting, Device | None]
Asked = TypeVar("Asked")
Found = TypeVar("Found")


def fit(
    measurements: Iterable[Row],
    *,
    device: Device | str,
    model: str | None = None,
    counting: Counting = "executed",
    source: str = "timings taken elsewhere",
    save: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None = None,
) -> Fit:
    """Return the fit of *measurements* that were taken on *device*: of *model*, or of the one that generalises best.

    *measurements* are rows of a kernel, its sizes, the seconds that it took, and the class that it is of: tuples in
    this order, mappings, or :class:`Measured`. *device* is a name, or a description: where the device is described,
    how long its pipelines are busy is tried beside property counts. A row that cannot be analysed raises its error;
    with *on_failure* this is called instead, and the fit is made without it. Rows are analysed by *executor*, if one
    is given. The fit is saved to *save*, if that is given; it holds what :func:`loopyperf.calibrate` writes.

    Raises :class:`CalibrationError` for rows that are none, or that leave nothing to fit, :class:`UnknownModelError`
    for a model that is not fitted.
    """
    if model is not None:
        find_fitted_model(model)
    known = device if isinstance(device, Device) else described(device_slug(device))
    rows = [measured(row, number) for number, row in enumerate(measurements)]
    observations = _observed(rows, counting, known, executor, on_failure)
    fits = fit_observations(
        stated_provenance(device, known, counting, source),
        observations,
        possible(observations, model),
    )
    if save is not None:
        save_fit(fits[0], Path(save))
    return fits[0]


def stated_provenance(device: Device | str, known: Device | None, counting: Counting, source: str) -> Provenance:
    """Return where what is made from rows taken on *device* comes from; *known* is its description, if it has one."""
    return Provenance(
        model="",
        device=known.name if known else str(device),
        slug=known.slug if known else device_slug(str(device)),
        versions=installed_versions(),
        counting=counting,
        created=datetime.now(UTC),
        source=source,
    )


def measured(row: Row, number: int) -> Measured:
    """Return *row* number *number* as what it says it is; raises :class:`CalibrationError` where that is none."""
    if isinstance(row, Measured):
        return row
    try:
        return Measured(**row) if isinstance(row, Mapping) else Measured(*row)
    except TypeError as error:
        raise CalibrationError(
            f"row {number} is none: kernel, sizes, seconds and, if you like, kernel_class, label, typical; "
            f"received {row!r} ({error})"
        ) from error


def _observed(
    rows: Sequence[Measured],
    counting: Counting,
    device: Device | None,
    executor: Executor | None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None,
) -> list[Observation]:
    tasks: list[Task] = [(row, counting, device) for row in rows]
    return analysed(_observation, tasks, rows, executor, on_failure)


def analysed(
    analyse: Callable[[Asked], Found | LoopyperfError],
    tasks: Sequence[Asked],
    rows: Sequence[Measured],
    executor: Executor | None,
    on_failure: Callable[[Measured, LoopyperfError], None] | None,
) -> list[Found]:
    """Return what *analyse* finds of each of *tasks*, one for each of *rows*, by *executor* if there is one.

    The first error is raised; with *on_failure* this is called with the row instead, which is left out.
    """
    found = map(analyse, tasks) if executor is None else executor.map(analyse, tasks)
    kept: list[Found] = []
    for row, each in zip(rows, found, strict=True):
        if not isinstance(each, LoopyperfError):
            kept.append(each)
        elif on_failure is None:
            raise each
        else:
            on_failure(row, each)
    return kept


def _observation(task: Task) -> Observation | LoopyperfError:
    row, counting, device = task
    entry: Any = getattr(row.kernel, "default_entrypoint", row.kernel)
    name = str(getattr(entry, "name", entry))
    try:
        return observe(
            row.kernel,
            row.sizes,
            row.seconds,
            kernel_class=row.kernel_class or name,
            label=row.label or name,
            counting=counting,
            device=device,
            typical=row.typical or None,
        )
    except LoopyperfError as error:
        return error
