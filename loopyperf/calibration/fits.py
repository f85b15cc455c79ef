"""Fits: the weights of a model on a device, with the information needed to assess and reproduce them.

The fields are those of the files in ``fits/``, which its README describes; units are seconds.
"""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from loopyperf.calibration.accuracy import CrossValidation, Uncertainty
from loopyperf.calibration.problem import Indistinguishable, Matrix, Vector
from loopyperf.display import ReportText, Table, Tabular
from loopyperf.errors import CalibrationError, FitFileError, brief
from loopyperf.files import Amount, Document, Number, Whole, read_document, without_schema, write_document
from loopyperf.models.linear import Sensitivity, sensitivity_of, side
from loopyperf.models.model_interface import Basis
from loopyperf.models.result import LEVEL
from loopyperf.models.workload import LAUNCHES, shown
from loopyperf.units import amount, duration, in_percent, listed, number_of, ratio_in_words, unit_cost

SCHEMA = 2
"""schema version of the fit files that this version reads and writes"""
MAX_NAMED = 3
"""maximum number of names in an error"""
POOR_ERROR = 0.5
"""error on a held-out kernel class from which predictions of such kernels are not to be trusted"""

Setting = bool | Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | Number | str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Origin of the weights."""

    model: str
    """model of the weights, such as ``"linear"``"""
    device: str
    """full name of the device, such as ``"AMD Radeon R9 Fury"``"""
    slug: str
    """short name of the device and its folder, such as ``"amd-r9-fury"``"""
    described_as: str = ""
    """short name of the device parameters that define the pipelines, if it differs from ``slug``"""
    driver: str = ""
    """driver version as reported by the device"""
    backend: str = ""
    """backend that ran the kernels, such as ``"opencl"``"""
    versions: Mapping[str, str] = {}
    """versions of loopyperf and its dependencies for counting and compiling, by package"""
    protocol: Mapping[str, Setting] = {}
    """rules of the measurements"""
    counting: Literal["paper", "executed"]
    """whether instructions count over their own inames only (paper), or as often as the hardware executes them"""
    created: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    """UTC time at which the fit was made"""
    source: str = ""
    """free text, such as a citation"""
    launch_overhead: Number | None = None
    """measured run time of an empty kernel"""
    noise_floor: Amount | None = None
    """relative standard deviation of repeated times of the reference kernel around the measurements"""
    pace: Amount | None = None
    """seconds per round of the reference kernel's loop, which shows how fast the device was"""


class Residual(msgspec.Struct, frozen=True):
    """Relative error of one observation."""

    kernel_class: str
    """class of the kernel, such as ``"transpose"``"""
    label: str
    """configuration within its class"""
    sizes: Mapping[str, Whole]
    """parameter values by name"""
    seconds: Amount
    """measured run time"""
    residual: Number
    """1 − predicted/measured; negative where the prediction is too slow"""


class ResidualSummary(msgspec.Struct, frozen=True):
    """Summary statistics of the relative residuals of all observations."""

    geometric_mean: Amount
    """geometric mean of magnitudes (:func:`loopyperf.calibration.accuracy.geometric_mean`)"""
    root_mean_square: Amount
    """minimized by the plain fit"""
    worst: Amount
    """maximum magnitude"""


class Fit(Tabular, Provenance, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A model's weights for a device, with provenance and accuracy.

    :func:`loopyperf.calibrate`, :func:`loopyperf.fit` and :func:`loopyperf.load_fit` return it. ``str`` gives a table
    of the weights. All fields except the provenance and the weights may be empty.

    Examples
    --------
    >>> import loopyperf
    >>> fit = loopyperf.Fit(
    ...     model="linear",
    ...     device="My GPU",
    ...     slug="my-gpu",
    ...     counting="executed",
    ...     weights={"f32 mul": 2e-11, "launches": 1e-5},
    ... )
    >>> fit.weights["launches"]
    1e-05
    """

    weights: Annotated[Mapping[str, Number], msgspec.Meta(min_length=1)]
    """seconds per unit of each property; for pipelines, factors on their busy time"""
    sharpness: Number = 1.0
    """p of the overlap model; 1 without overlap"""
    basis: Basis = "counts"
    """columns that the weights are for: property counts, or the pipelines of the device parameters"""
    undetermined: tuple[Indistinguishable, ...] = ()
    """properties without a weight because the measured kernels cannot distinguish them"""
    ranges: Mapping[str, tuple[Amount, Amount]] = {}
    """minimum and maximum amount of each property among the observations that have it"""
    rank: Whole | None = None
    """number of weights that the measurements determine; None if unknown"""
    condition: Amount | None = None
    """condition number of the fitted matrix: maximum amplification of relative errors from times to weights"""
    at_bound: tuple[str, ...] = ()
    """properties whose weight is 0, the bound of the non-negative fit"""
    candidate: str = ""
    """name of the candidate (:data:`loopyperf.calibration.fitting.CANDIDATES`); empty for other fits"""
    options: Mapping[str, Setting] = {}
    """options of the solver"""
    residual_summary: ResidualSummary | None = None
    """residuals of the fitted observations; None if unknown"""
    cross_validation: CrossValidation | None = None
    """errors on held-out kernel classes; None without cross-validation"""
    uncertainty: Uncertainty | None = None
    """data for prediction intervals; None if fewer than two kernel classes were fitted"""
    residuals: tuple[Residual, ...] = ()
    """residual of each fitted observation"""

    def __post_init__(self) -> None:
        """Require consistent fields."""
        if self.uncertainty is not None and (strange := set(self.uncertainty.columns) - set(self.weights)):
            raise ValueError(f"uncertainty.columns without a weight: {listed(sorted(strange), MAX_NAMED)}")
        if wrong := [name for name, (least, most) in self.ranges.items() if least > most]:
            raise ValueError(f"the range of {wrong[0]!r} must have minimum <= maximum")
        ridge = self.options.get("ridge", 0)
        if isinstance(ridge, str) or ridge < 0:
            raise ValueError(f"option ridge must be a number >= 0, got {ridge!r}")

    def report_text(self) -> ReportText:
        """Return the weights, the fitted measurements, and the errors on held-out kernel classes as report text."""
        validated = self.cross_validation
        return ReportText(
            question=f"{self.model} model of {self.device} ({self.slug})",
            answer=", ".join(self._origin()),
            tables=[self._weights(), *([] if validated is None else [validated.table(self.candidate)])],
            remarks=list(self._remarks()),
        )

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each weight."""
        return [{"column": name, "weight": weight} for name, weight in self.weights.items()]

    def _origin(self) -> Iterator[str]:
        """Yield the number of weights and measurements, the rank, and the residuals."""
        yield f"{number_of(len(self.weights), 'weight')} of {self.basis}"
        if not self.residuals:
            return
        yield f"from {number_of(len(self.residuals), 'measurement')}"
        # For pipelines, the device parameters complete the measurements, so that all columns have a weight.
        if self.basis == "counts" and self.rank is not None:
            yield f"rank {self.rank}" if self.condition is None else f"rank {self.rank}, condition {self.condition:.3g}"
        if self.residual_summary is not None:
            mean, worst = self.residual_summary.geometric_mean, self.residual_summary.worst
            yield f"residuals of {in_percent(mean, 1)} (geometric mean), at most {in_percent(worst, 1)}"

    def _weights(self) -> Table:
        """Return the weights, their errors, and the maximum amounts in a measurement, as far as they are known."""
        of_pipelines = self.basis == "pipelines"
        first, each, most = (
            ("pipeline", "factor", "max busy time") if of_pipelines else ("property", "each", "max count")
        )

        def cost(name: str, weight: float) -> str:
            if not of_pipelines:
                return unit_cost(weight)
            return f"{unit_cost(weight)} each" if name == LAUNCHES else f"{ratio_in_words(weight)} times"

        def largest(name: str) -> str:
            if name not in self.ranges:
                return ""
            number = self.ranges[name][1]
            if not of_pipelines:
                return amount(number)
            return number_of(int(number), "launch") if name == LAUNCHES else duration(number)

        def error(name: str, weight: float) -> str:
            width = widths.get(name)
            return "" if width is None else in_percent(width / weight) if weight > width else "100 % or more"

        columns = {
            first: [shown(name) if of_pipelines else name for name in self.weights],
            each: [cost(name, weight) for name, weight in self.weights.items()],
        }
        if widths := self._widths():
            columns["error"] = [error(name, weight) for name, weight in self.weights.items()]
        if self.ranges:
            columns[most] = [largest(name) for name in self.weights]
        return Table(tuple(columns), list(zip(*columns.values(), strict=True)))

    def _widths(self) -> dict[str, float]:
        """Return the half width of each weight's interval, where it is known."""
        widths = {} if self.uncertainty is None else self.uncertainty.of_weights()
        return {name: width for name, width in widths.items() if math.isfinite(width)}

    def _remarks(self) -> Iterator[str]:
        if self.basis == "pipelines":
            yield (
                "factor: relative to published device parameters, regularized toward 1; max busy time: in one "
                "measurement, by published device parameters"
            )
        if self._widths():
            yield f"error: half width of the {in_percent(LEVEL)} interval, if the model is otherwise correct"
        if self.cross_validation is not None:
            if self.cross_validation.not_compared:
                yield self.cross_validation.not_compared
            yield f"selected: {self.candidate or self.cross_validation.better}"
        yield from (f"indistinguishable: {', '.join(group.properties)}" for group in self.undetermined)
        if self.source:
            yield f"source: {self.source}"
        if self.verdict:
            yield self.verdict

    @property
    def verdict(self) -> str:
        """Return how far predictions can be trusted, by the errors on held-out kernel classes; empty if unknown."""
        if not math.isfinite(self.held_out_error) or self.cross_validation is None:
            return ""
        errors = {each.kernel_class: each.errors[self.candidate] for each in self.cross_validation.classes}
        poor = sorted((name for name, error in errors.items() if error >= POOR_ERROR), key=lambda name: -errors[name])
        named = listed((f"{name!r} ({in_percent(errors[name])})" for name in poor), MAX_NAMED)
        number = len(self.cross_validation.compared)
        return f"verdict: off by {in_percent(self.held_out_error)} (geometric mean) on {number} held-out classes" + (
            f"; do not trust it for kernels like {named}" if poor else ""
        )

    @property
    def is_better(self) -> bool:
        """Return whether no other candidate generalizes better in the cross-validation."""
        return self.cross_validation is not None and self.cross_validation.better == self.candidate

    @property
    def held_out_error(self) -> float:
        """Return the geometric mean of the relative errors on held-out kernel classes; infinity if unknown."""
        known = self.cross_validation
        return math.inf if known is None else known.errors.get(self.candidate, math.inf)


# {{{ fit files: JSON with the schema version first


_RECALIBRATE = "pass the path of a fit file, or make one with `loopyperf calibrate`"


def save_fit(fit: Fit, path: str | os.PathLike[str]) -> None:
    """Write *fit* to a file, creating its folder.

    The file is replaced atomically: a concurrent reader finds the old or the new fit.

    Parameters
    ----------
    fit : Fit
        The fit to save.
    path : path
        The file, with the extension ``.json``.

    Raises
    ------
    FitFileError
        A number in the fit is not finite, or the file cannot be written.

    Examples
    --------
    >>> import os, tempfile
    >>> import loopyperf
    >>> fit = loopyperf.Fit(
    ...     model="linear", device="My GPU", slug="my-gpu", counting="executed", weights={"launches": 1e-5}
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "linear.json")
    ...     loopyperf.save_fit(fit, path)
    ...     loopyperf.load_fit(path) == fit
    True
    """
    write_document(fit_document(fit), Path(path), "fit")


def fit_document(fit: Fit) -> Document:
    """Return the contents of *fit*'s file as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(fit, order="deterministic"))}


def path_of(fit: str | os.PathLike[str]) -> str:
    """Return the path of a fit file; raises :class:`FitFileError` if *fit* is not a path."""
    try:
        return os.fspath(fit)
    except TypeError as error:
        raise FitFileError(f"fit must be a fit or the path of one, got {fit!r}") from error


def load_fit(path: str | os.PathLike[str]) -> Fit:
    """Load a fit from a file.

    Parameters
    ----------
    path : path
        A fit file, as written by :func:`loopyperf.save_fit`, :func:`loopyperf.fit` or :func:`loopyperf.calibrate`.

    Returns
    -------
    Fit
        Weights in seconds per unit of work, with provenance and accuracy.

    Raises
    ------
    FitFileError
        The file is missing, is not a valid fit, or was written by a later version; or the weights are invalid for the
        overlap model.

    Examples
    --------
    >>> import os, tempfile
    >>> import loopyperf
    >>> fit = loopyperf.Fit(
    ...     model="linear", device="My GPU", slug="my-gpu", counting="executed", weights={"launches": 1e-5}
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "linear.json")
    ...     loopyperf.save_fit(fit, path)
    ...     loaded = loopyperf.load_fit(path)
    >>> loaded.device, loaded.weights["launches"]
    ('My GPU', 1e-05)
    """
    source = Path(path_of(path))
    document = read_document(source, "fit", _RECALIBRATE)
    try:
        fit = msgspec.convert(without_schema(document, source, "fit", _RECALIBRATE, SCHEMA), Fit)
    except msgspec.ValidationError as error:
        raise FitFileError(
            f"{source} is not a valid fit: {brief(error)}; correct it (see fits/README.md), or {_RECALIBRATE}"
        ) from error
    _check_overlap(fit, source)
    return fit


def _check_overlap(fit: Fit, source: Path) -> None:
    """Raise :class:`FitFileError` if weights or sharpness are invalid for the overlap model's smooth maximum."""
    if fit.model != "overlap":
        return
    if not 1 <= fit.sharpness < math.inf:
        raise FitFileError(
            f"{source}: the sharpness of the overlap model must be a number >= 1, got {fit.sharpness:g}; correct it "
            f"(see fits/README.md), or {_RECALIBRATE}"
        )
    negative = {name: weight for name, weight in fit.weights.items() if weight < 0 and side(name, fit.basis)}
    if negative:
        stated = listed((f"{name!r:.40} {weight:g}" for name, weight in negative.items()), MAX_NAMED)
        raise FitFileError(
            f"{source}: weights of overlapping columns must be >= 0 in the overlap model, got {stated}; correct them, "
            f"change the model to 'linear', or {_RECALIBRATE}"
        )


# }}}


NEGLIGIBLE = 1e-3
"""share of a kernel's counts below which missing weights hardly affect its time"""


@dataclass(frozen=True, slots=True)
class Widths:
    """Uncertainty of a fit's predictions for some kernels."""

    half: Vector
    """half width of ln T's interval for each kernel; infinite for kernels with :attr:`priceless` columns, and if the
    fit has too few scores for the level"""
    leverage: Vector
    """leverage of each kernel: the variance of ln T due to the weights, in units of a measurement's variance"""
    priceless: tuple[str, ...]
    """names of columns without a weight that are a significant part of some kernel, in order"""


def widths(fit: Fit, names: Sequence[str], amounts: Matrix, level: float = LEVEL) -> Widths:
    """Return the uncertainty of *fit*'s predictions at the probability *level*.

    *amounts* (kernels × names) are the kernels' amounts of the columns *names*.

    Raises :class:`CalibrationError` if the fit has no uncertainty.
    """
    if fit.uncertainty is None:
        raise CalibrationError("the fit has no uncertainty; fit measurements of two or more kernel classes")
    found = sensitivity_of(fit, names, amounts)
    leverage = fit.uncertainty.leverage(fit, found)
    half = fit.uncertainty.half_width(leverage + novelty(fit, names, amounts, found), level)
    unknown = _priceless(fit, names, amounts)
    return Widths(np.where(unknown.any(axis=1), np.inf, half), leverage, _columns(names, unknown))


def novelty(fit: Fit, names: Sequence[str], amounts: Matrix, found: Sensitivity) -> Vector:
    """Return the variance of ln T due to work outside the fitted measurements, in units of a measurement's variance.

    *amounts* (kernels × names) are the kernels' amounts of the columns *names*; *found* is the sensitivity of T to
    them. A decade beyond a column's measured range counts as much as all errors of the model within it, scaled by the
    column's share of the time. A pipeline without a weight has the variance of the regularization.
    """
    indices = {name: index for index, name in enumerate(names)}
    decades = np.zeros_like(found.shares)
    for column, name in enumerate(found.columns):
        if name in indices and name in fit.ranges:
            least, most = fit.ranges[name]
            if 0 < least <= most:
                own = amounts[:, indices[name]]
                known = np.where(own > 0, own, least)
                decades[:, column] = np.log10(np.maximum(known / most, 1)) + np.log10(np.maximum(least / known, 1))
    beyond = (np.abs(found.shares) * decades).sum(axis=1)
    without_prior = found.shares[:, len(fit.weights) :]
    ridge = float(fit.options.get("ridge") or np.inf)
    return beyond**2 + (without_prior**2).sum(axis=1) / ridge**2


def priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> tuple[str, ...]:
    """Return the columns without a weight that are a significant part of some kernel, in order.

    *amounts* (kernels × names) are the kernels' amounts of the columns *names*.
    """
    return _columns(names, _priceless(fit, names, amounts))


def _columns(names: Sequence[str], marked: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(sorted({names[index] for index in np.nonzero(marked)[1].tolist()}))


def _priceless(fit: Fit, names: Sequence[str], amounts: Matrix) -> NDArray[np.bool_]:
    """Return which of *amounts* (kernels × names) have no weight and are a significant share of the kernel's total."""
    if fit.basis == "pipelines":
        return np.zeros(amounts.shape, np.bool_)
    known = {*fit.weights, *(name for group in fit.undetermined for name in group.left_out)}
    unknown = np.array([name not in known for name in names], np.bool_)
    return unknown & (amounts > NEGLIGIBLE * amounts.sum(axis=1, keepdims=True))
