"""A fit: the weights of one model on one device, with everything needed to judge and to reproduce them.

The fields are those of the files in ``fits/``, whose README describes them; units are seconds.
"""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import CrossValidation, Uncertainty
from loopyperf.calibration.problem import Coverage, Indistinguishable, Matrix, Vector
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import CalibrationError, FitFileError, later_schema
from loopyperf.files import Amount, Document, Number, Whole, read_document, write_document
from loopyperf.models.linear import Sensitivity, sensitivity_of, side
from loopyperf.models.model_interface import Basis
from loopyperf.models.result import LEVEL
from loopyperf.models.workload import LAUNCHES, shown
from loopyperf.units import amount, duration, in_percent, number_of, unit_cost

SCHEMA = 2
"""Version of the fit files that this loopyperf writes."""

Setting = bool | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | Number | str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where weights come from."""

    model: str
    """the model that they are for, e.g. ``"linear"``"""
    device: str
    """the device's full name, e.g. ``"AMD Radeon R9 Fury"``"""
    slug: str
    """the device's short name: that of its folder, e.g. ``"amd-r9-fury"``"""
    described_as: str = ""
    """short name of the description that pipelines are of, where it is not the device's own"""
    driver: str = ""
    """its version, as the device reported it"""
    backend: str = ""
    """what the kernels were run through, e.g. ``"opencl"``"""
    versions: Mapping[str, str] = {}
    """of loopyperf and what it counted and compiled with, by package"""
    protocol: Mapping[str, Setting] = {}
    """how the kernels were timed"""
    counting: Literal["paper", "executed"]
    """whether instructions count over their own inames only, or as often as the hardware runs them"""
    created: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """when the fit was made, in UTC"""
    source: str = ""
    """free text, e.g. a citation"""
    launch_overhead: Number | None = None
    """measured run time of an empty kernel"""
    noise_floor: Amount | None = None
    """standard deviation of times that should be the same, relative; of the yardstick, a kernel that was timed again
    around each measurement that stands"""
    pace: Amount | None = None
    """seconds of a round of that kernel's loop then: how fast the device was"""


class Residual(msgspec.Struct, frozen=True):
    """What the weights leave unexplained of one observation."""

    kernel_class: str
    """what the kernel is one of, e.g. ``"transpose"``"""
    label: str
    """the configuration within its class"""
    sizes: Mapping[str, Whole]
    """values of its parameters, by name"""
    seconds: Amount
    """measured"""
    residual: Number
    """1 − predicted/measured; negative where the model is too slow"""


class ResidualSummary(msgspec.Struct, frozen=True):
    """Relative residuals of all observations in three numbers."""

    geometric_mean: Amount
    """of magnitudes (:func:`loopyperf.calibration.accuracy.geometric_mean`)"""
    root_mean_square: Amount
    """what the plain fit minimises"""
    worst: Amount
    """largest magnitude"""


class Fit(Shown, Provenance, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Weights with their provenance, as a fit file holds them; all but the provenance and the weights may be empty."""

    weights: Annotated[Mapping[str, Number], msgspec.Meta(min_length=1)]
    """seconds per unit of each property"""
    sharpness: Number = 1.0
    """p of the overlap model; 1 where nothing overlaps"""
    basis: Basis = "counts"
    """what the weights are for: property counts, or the pipelines of the device's description"""
    undetermined: tuple[Indistinguishable, ...] = ()
    """properties without a weight of their own, because the measured kernels cannot tell them apart"""
    ranges: Mapping[str, tuple[Amount, Amount]] = {}
    """least and greatest amount of each property among the observations that have it"""
    rank: Whole | None = None
    """how many weights the measurements determine; None where nobody recorded it"""
    condition: Amount | None = None
    """of the matrix whose columns they are: the most by which relative errors grow from times to weights"""
    at_bound: tuple[str, ...] = ()
    """properties whose weight the non-negative fit holds at 0"""
    candidate: str = ""
    """which way to fit it is (:data:`loopyperf.calibration.validation.CANDIDATES`); empty where none of them"""
    options: Mapping[str, Setting] = {}
    """the solver's"""
    residual_summary: ResidualSummary | None = None
    """how far the fit is off on what it was fitted to; None where nobody recorded it"""
    cross_validation: CrossValidation | None = None
    """how far off it is on kernel classes that were left out; None where it was not judged so"""
    uncertainty: Uncertainty | None = None
    """what intervals are made from; None where fewer than two kernel classes were fitted"""
    coverage: tuple[Coverage, ...] = ()
    """which kernels exercise each property, and how well it is told apart; empty in fits from before it was recorded"""
    residuals: tuple[Residual, ...] = ()
    """one for each observation that it was fitted to"""

    def __post_init__(self) -> None:
        """Refuse parts that do not belong together."""
        if self.uncertainty is not None and (strange := set(self.uncertainty.columns) - set(self.weights)):
            raise ValueError(f"the uncertainty is of {', '.join(sorted(strange))}, which has no weight")
        if wrong := [name for name, (least, most) in self.ranges.items() if least > most]:
            raise ValueError(f"the range of {wrong[0]!r} ends before it begins")
        ridge = self.options.get("ridge", 0)
        if isinstance(ridge, str) or ridge < 0:
            raise ValueError(f"the option ridge is a number of at least 0, received {ridge!r}")

    def report_text(self) -> ReportText:
        """Return the weights with what they were fitted to, and how well they do on kernel classes left out."""
        validated = self.cross_validation
        return ReportText(
            question=f"{self.model} model of {self.device} ({self.slug})",
            answer=", ".join(self._origin()),
            tables=[self._weights(), *([] if validated is None else [validated.table(self.candidate)])],
            remarks=list(self._remarks()),
        )

    def _origin(self) -> Iterator[str]:
        """Yield what there is, from how much, how well determined, and how far off it is there."""
        yield f"{number_of(len(self.weights), 'weight')} of {self.basis}"
        if not self.residuals:
            return
        yield f"from {number_of(len(self.residuals), 'measurement')}"
        # Where they leave pipelines open, the description stands for them, so that every column has its weight.
        if self.basis == "counts" and self.rank is not None:
            yield f"rank {self.rank}" if self.condition is None else f"rank {self.rank}, condition {self.condition:.3g}"
        if self.residual_summary is not None:
            mean, worst = self.residual_summary.geometric_mean, self.residual_summary.worst
            yield f"residuals of {in_percent(mean, 1)} (geometric mean), at worst {in_percent(worst, 1)}"

    def _weights(self) -> Table:
        """Return the weights, how sure each is, and where it is known the most that a measurement had of it."""
        of_pipelines = self.basis == "pipelines"
        first, each, most = (
            ("pipeline", "takes", "at most busy") if of_pipelines else ("property", "each", "most counted")
        )
        columns = {
            first: [shown(name) if of_pipelines else name for name in self.weights],
            each: [self._in_words(name, weight) for name, weight in self.weights.items()],
        }
        if widths := self._widths():
            columns["off by"] = [_off_by(widths.get(name), weight) for name, weight in self.weights.items()]
        if self.ranges:
            columns[most] = [self._most_in_words(name) for name in self.weights]
        return Table(tuple(columns), list(zip(*columns.values(), strict=True)))

    def _widths(self) -> dict[str, float]:
        """Return by how much each weight may be off, where that is known."""
        widths = {} if self.uncertainty is None else self.uncertainty.of_weights()
        return {name: width for name, width in widths.items() if math.isfinite(width)}

    def _in_words(self, name: str, weight: float) -> str:
        if self.basis == "counts":
            return unit_cost(weight)
        return f"{unit_cost(weight)} each" if name == LAUNCHES else f"{weight:.3g} times"

    def _most_in_words(self, name: str) -> str:
        if name not in self.ranges:
            return ""
        most = self.ranges[name][1]
        if self.basis == "counts":
            return amount(most)
        return number_of(int(most), "launch") if name == LAUNCHES else duration(most)

    def _remarks(self) -> Iterator[str]:
        if self.basis == "pipelines":
            yield (
                "times: of what the device's description says, drawn to 1 as far as measurements leave it open; busy: "
                "by the description, in one measurement"
            )
        if self._widths():
            yield f"off by: with a probability of {in_percent(LEVEL)}, up or down, if the model is right otherwise"
        if self.cross_validation is not None:
            if self.cross_validation.not_compared:
                yield self.cross_validation.not_compared
            yield f"kept: {self.candidate or self.cross_validation.better}"
        yield from (f"not told apart: {', '.join(group.properties)}" for group in self.undetermined)
        if self.source:
            yield f"source: {self.source}"

    @property
    def is_better(self) -> bool:
        """Return whether the cross-validation found that no other way to fit these measurements generalises better."""
        return self.cross_validation is not None and self.cross_validation.better == self.candidate


def _off_by(width: float | None, weight: float) -> str:
    """Return in words by how much a *weight* may be off, up or down, if that is known."""
    if width is None:
        return ""
    return in_percent(width / weight) if weight > width else "all of it"


# {{{ fit files: JSON, the schema version first


def _from_schema_1(document: Document) -> Document:
    """Return a document in which the errors of a cross-validation stand by candidate, of which there were two."""

    def by_candidate(errors: Document) -> Document:
        rest = {name: value for name, value in errors.items() if name not in ("plain", "non_negative")}
        return {**rest, "errors": {"linear, plain": errors["plain"], "linear, non-negative": errors["non_negative"]}}

    found = document.get("cross_validation")
    if not isinstance(found, dict):
        return document
    table = cast("Document", found)
    classes = [by_candidate(each) for each in cast("list[Document]", table["classes"])]
    return {**document, "cross_validation": {**by_candidate(table), "classes": classes}}


UPGRADES: Mapping[int, Callable[[Document], Document]] = {1: _from_schema_1}
"""For each older schema version, the function that makes its document one of the next."""

_RECALIBRATE = "give the path of a fit file, or make one with `loopyperf calibrate`"


def save_fit(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write *fit* to *path*, making its folder; whoever reads meanwhile finds the old file or the new one, whole.

    :raises FitFileError: a number in the fit is not finite, or the file cannot be written.
    """
    write_document(fit_document(fit), Path(path), "fit")


def fit_document(fit: Fit) -> Document:
    """Return what the file of *fit* holds, as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(fit, order="deterministic"))}


def path_of(fit: str | os.PathLike[str]) -> str:
    """Return where the file of *fit* is; raises :class:`FitFileError` for what is no path."""
    try:
        return os.fspath(fit)
    except TypeError as error:
        raise FitFileError(f"a fit, or the path of one, is needed, received {fit!r}") from error


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Return the fit in the file at *path*, brought up to the current schema.

    :raises FitFileError: there is no such file, it is corrupt or no fit, a later loopyperf wrote it, or the overlap
        model has no answer with its weights.
    """
    source = Path(path_of(path))
    document = read_document(source, "fit", _RECALIBRATE)
    current = _upgraded(document, source)
    current.pop("schema")
    try:
        fit = msgspec.convert(current, Fit)
    except msgspec.ValidationError as error:
        raise FitFileError(
            f"{source} does not hold a fit: {error!s:.300}; mend it by fits/README.md, or {_RECALIBRATE}"
        ) from error
    _check_overlap(fit, source)
    return fit


def _check_overlap(fit: Fit, source: Path) -> None:
    """Raise :class:`FitFileError` for weights or a sharpness of which the overlap model's smooth maximum is no time."""
    if fit.model != "overlap":
        return
    if not 1 <= fit.sharpness < math.inf:
        raise FitFileError(
            f"{source} states the sharpness {fit.sharpness:g}, but in the overlap model it is a number of at least 1, "
            f"where nothing overlaps; mend it by fits/README.md, or {_RECALIBRATE}"
        )
    negative = {name: weight for name, weight in fit.weights.items() if weight < 0 and side(name, fit.basis)}
    if negative:
        listed = ", ".join(f"{name!r} {weight:g}" for name, weight in negative.items())
        raise FitFileError(
            f"{source} has negative weights, {listed}, of what overlaps with the rest: a smooth maximum of times below "
            f"0 is no time. State weights of at least 0, make it a fit of the linear model, or {_RECALIBRATE}"
        )


def _upgraded(document: object, source: Path) -> Document:
    """Return a copy of *document* in the current schema."""
    version = cast("Document", document).get("schema") if isinstance(document, dict) else None
    if type(version) is not int or not (version >= SCHEMA or version in UPGRADES):
        raise FitFileError(
            f'{source} is no fit file: it must be a JSON object with "schema": {SCHEMA}, but has '
            f"{type(document).__name__ if not isinstance(document, dict) else f'schema {version!r}'}; {_RECALIBRATE}"
        )
    current = dict(cast("Document", document))
    if version > SCHEMA:
        versions = current.get("versions")
        writer = cast("Document", versions).get("loopyperf") if isinstance(versions, dict) else None
        raise FitFileError(later_schema(source, version, SCHEMA, writer))
    for step in range(version, SCHEMA):
        try:
            current = UPGRADES[step](current)
        except (KeyError, TypeError, AttributeError) as error:
            problem = f"{source} is no fit of schema {step}: {error!r:.300}; restore it, or {_RECALIBRATE}"
            raise FitFileError(problem) from error
    return current


# }}}


NEGLIGIBLE = 1e-3
"""of all counts of a kernel: without a weight for so few of them, its time is known nearly as well"""


@dataclass(frozen=True, slots=True)
class Widths:
    """How far the answers of a fit for some kernels may be off, and why."""

    half: Vector
    """by how much ln T of each kernel may be off, up or down; infinite for kernels that do something of
    :attr:`priceless`, and where the fit has too few scores for the level"""
    leverage: Vector
    """of each kernel: the variance of ln T from the weights, in units of that of a measurement"""
    priceless: tuple[str, ...]
    """columns without a weight that are more than a negligible part of some kernel, in order"""


def widths(fit: Fit, names: Sequence[str], amounts: Matrix, level: float = LEVEL) -> Widths:
    """Return how far *fit* may be off, with the probability *level*.

    Kernels have *amounts* (kernels × names) of the columns called *names*.

    Raises :class:`CalibrationError` for a fit that states no uncertainty.
    """
    if fit.uncertainty is None:
        raise CalibrationError("a fit without measurements of two classes or more does not know how far it is off")
    found = sensitivity_of(fit, names, amounts)
    leverage = fit.uncertainty.leverage(fit, found)
    half = fit.uncertainty.half_width(leverage + novelty(fit, names, amounts, found), level)
    unknown = _priceless(fit, names, amounts)
    return Widths(np.where(unknown.any(axis=1), np.inf, half), leverage, _columns(names, unknown))


def novelty(fit: Fit, names: Sequence[str], amounts: Matrix, found: Sensitivity) -> Vector:
    """Return the variance of ln T from what no measurement of the fit tells, in units of that of a measurement.

    Of kernels that have *amounts* (kernels × names) of the columns called *names*, on which T depends as is *found*. A
    decade beyond the range that was measured of a column counts as much as all that the model gets wrong within it, in
    the share that the column has in the time. A pipeline without a weight is as unsure as what draws weights to the
    description leaves it.
    """
    places = {name: place for place, name in enumerate(names)}
    decades = np.zeros_like(found.shares)
    for column, name in enumerate(found.columns):
        if name in places and name in fit.ranges:
            decades[:, column] = _decades(amounts[:, places[name]], fit.ranges[name])
    beyond = (np.abs(found.shares) * decades).sum(axis=1)
    undrawn = found.shares[:, len(fit.weights) :]
    ridge = float(fit.options.get("ridge") or np.inf)
    return beyond**2 + (undrawn**2).sum(axis=1) / ridge**2


def priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> tuple[str, ...]:
    """Return the columns without a weight that are more than a negligible part of some kernel, in order.

    Kernels have *amounts* (kernels × names) of the columns called *names*.
    """
    return _columns(names, _priceless(fit, names, amounts))


def _columns(names: Sequence[str], marked: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted({names[place] for place in np.nonzero(marked)[1].tolist()}))


def _priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> NDArray[np.bool_]:
    """Return which of *amounts* (kernels × names) are without a weight, and more than a negligible part of all."""
    if fit.basis == "pipelines":
        return np.zeros(amounts.shape, np.bool_)
    known = {*fit.weights, *(name for group in fit.undetermined for name in group.left_out)}
    unknown = np.array([name not in known for name in names], np.bool_)
    return unknown & (amounts > NEGLIGIBLE * amounts.sum(axis=1, keepdims=True))


def _decades(amounts: Vector, measured: tuple[float, float]) -> Vector:
    """Return how many powers of ten *amounts* are outside of the range that was *measured*; 0 for none at all."""
    least, most = measured
    if not 0 < least <= most:
        return np.zeros_like(amounts)
    known = np.where(amounts > 0, amounts, least)
    return np.log10(np.maximum(known / most, 1)) + np.log10(np.maximum(least / known, 1))
