"""Estimates by fits, of counts or pipelines: which fit predicts, times, intervals, and notes on extrapolation."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from loopyperf.calibration.choice import FitChoice, chosen_fit, fit_with_notes, requested_device, usual_answer
from loopyperf.calibration.fit_library import find_fit
from loopyperf.calibration.fits import Fit, path_of, priceless, widths
from loopyperf.calibration.problem import doubts
from loopyperf.calibration.residual_model import ResidualModel, load_residual_model
from loopyperf.counts.execution import Counting
from loopyperf.counts.item import work_of_one
from loopyperf.counts.kernel_counts import KernelCounts
from loopyperf.counts.sizes import beyond_floats
from loopyperf.device.device_library import description_or_none, is_one_device, load_device
from loopyperf.display import Note, NoteKind
from loopyperf.errors import MissingNumberError, ParameterError
from loopyperf.files import read_document
from loopyperf.kernel.kernel import Group
from loopyperf.models.catalog import DEVICE_MODELS, LEARNED, MODELS, find_fitted_model
from loopyperf.models.model_interface import Count, RegressionModel, Shares
from loopyperf.models.pipeline_shares import pipeline_shares
from loopyperf.models.result import MAX_NAMED, Estimate, ModelTime, Seconds, clipped, no_interval, total
from loopyperf.models.timing import notes_of
from loopyperf.models.workload import shown
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.polyhedral.quasipolynomial import engine_is_exact
from loopyperf.predict.estimate import Options, check_type
from loopyperf.predict.on_device import BOUND, SIMULATED, DevicePredictor
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, common_shape, has_arrays
from loopyperf.stages.counting import USUAL, CountingOptions, count_at
from loopyperf.stages.device_choice import backends
from loopyperf.units import in_percent, listed, ratio_in_words

Floats = NDArray[np.float64]
MAX_LEVERAGE = 1.0
"""leverage above which the uncertainty of the weights contributes more to a kernel's error than the model does"""
NOT_VALIDATED = no_interval("the fit was not validated on held-out kernels")
NEGATIVE = no_interval("the fit does not apply to this kernel")
TOO_FEW_KERNELS = no_interval("the fit was validated on too few held-out kernels")


def prediction_interval(
    fit: Fit, shares: Shares, seconds: Seconds
) -> tuple[tuple[Seconds, Seconds] | None, tuple[str, ...]]:
    """Return the prediction interval of a run time (at the probability ``LEVEL``), and notes on it.

    *seconds* is the time that the fit's model predicts for *shares*, a number or an array over sizes. The interval is
    None if the fit has none (it is handwritten, or from fewer than two kernel classes or too few measurements), if it
    lacks a weight for more than a negligible part of the counts, or if a time is negative.
    """
    if np.any(np.asarray(seconds) < 0):
        return None, (NEGATIVE,)
    if fit.uncertainty is None:
        return None, (NOT_VALIDATED,)
    found = widths(fit, *totals(shares))
    if found.priceless:
        return None, (no_interval(f"the fit has no weight for {', '.join(found.priceless)}"),)
    with np.errstate(over="ignore"):  # an infinite factor gives no interval
        factor = np.exp(found.half)
    leverage = float(found.leverage.max(initial=0.0))
    unlike = f"unlike the kernels of the fit: leverage {leverage:.2g} (above {MAX_LEVERAGE:g})"
    notes = (unlike,) if leverage > MAX_LEVERAGE else ()
    if not np.isfinite(factor).all():
        return None, (TOO_FEW_KERNELS, *notes)
    if not isinstance(seconds, np.ndarray):
        return (seconds / float(factor[0]), seconds * float(factor[0])), notes
    spread = factor.reshape(seconds.shape)
    return (seconds / spread, seconds * spread), notes


def left_out(fit: Fit, shares: Shares) -> tuple[str, ...]:
    """Return the properties without a weight in *fit* that are more than a negligible part of the counts at any size.

    Their cost is missing in the predicted time, which is then a lower bound without an interval.
    """
    return priceless(fit, *totals(shares))


def totals(shares: Shares) -> tuple[tuple[str, ...], Floats]:
    """Return the columns of *shares*, and their amounts summed over sources, an array (sizes × columns)."""
    names = tuple(shares)
    sums: list[Any] = [sum(parts.values()) for parts in shares.values()]
    shape = np.broadcast_shapes(*(np.shape(each) for each in sums))
    columns = [np.broadcast_to(np.asarray(each, np.float64), shape).ravel() for each in sums]
    return names, np.stack(columns, axis=1) if columns else np.zeros((1, 0))


def extrapolations(fit: Fit, shares: Shares) -> Iterator[str]:
    """Yield a note on amounts above, and one on amounts below, the ranges of the measured kernels.

    An amount of zero is not below a range.
    """
    names, amounts = totals(shares)
    ranged = [(name, amounts[:, index], fit.ranges[name]) for index, name in enumerate(names) if name in fit.ranges]
    more = {name: each.max(initial=0.0) / most for name, each, (_, most) in ranged}
    less = {name: least / each[each > 0].min() for name, each, (least, _) in ranged if (each > 0).any()}
    for word, excess in (("more", more), ("less", less)):
        beyond = sorted((name for name in excess if excess[name] > 1), key=lambda name: (-excess[name], name))
        if beyond:
            called = shown if fit.basis == "pipelines" else str
            listed = ", ".join(f"{called(name)} ({ratio_in_words(excess[name])} times)" for name in beyond)
            yield Note(NoteKind.EXTRAPOLATED, f"extrapolated: {word} than in any measured kernel: {listed}")


def extrapolates(fit: Fit, shares: Shares) -> NDArray[np.bool_]:
    """Return for each size, in order, whether any amount is outside its range in :attr:`Fit.ranges`."""
    names, amounts = totals(shares)
    least, most = np.array([fit.ranges.get(name, (0.0, np.inf)) for name in names]).reshape(-1, 2).T
    return np.asarray(((amounts > most) | ((amounts > 0) & (amounts < least))).any(axis=1))


# {{{ counts times weights


BELOW_ZERO = "negative run time: the fit has negative weights and does not apply to this kernel"
MOST_UNPRICED = 0.5
"""largest share of a kernel's work without weights; with more, a prediction would be meaningless"""


@dataclass(frozen=True, eq=False)
class CountsPredictor(Predictor):
    """A fit of counts: the counts of a kernel at given sizes times the fitted weights."""

    fit: Fit = field(kw_only=True)
    counting: Counting = field(kw_only=True)
    """how work is counted (see :func:`loopyperf.count`)"""

    def predict(self, case: Case) -> Estimate:
        """Return the predicted run time of *case*; see :func:`loopyperf.estimate`."""
        counted = count_at(case.kernel, self._options(case.typical), case.sizes)
        priced = _Counted(counted, self.fit, case.sizes, self.notes)
        try:
            seconds = priced.seconds()
        except OverflowError as error:
            raise beyond_floats(case.sizes) from error
        return Estimate.explained_later(
            kernel=counted.kernel.name,
            sizes=dict(case.sizes),
            device=self.device,
            model=self.model,
            counting=counted.counting,
            seconds=seconds,
            explain=priced.explained,
            typical=case.typical,
            columns="counts" if priced.answer is None else priced.answer.columns,
        )

    def group(self, case: Case) -> Group:
        """Return the resources of a work-group, from cached counts if possible, which avoids Loopy's passes."""
        if engine_is_exact():
            return count_at(case.kernel, self._options(case.typical), case.sizes).kernel.group
        return super().group(case)

    def _options(self, typical: Mapping[str, Any] | None) -> CountingOptions:
        return USUAL[self.counting] if typical is None else CountingOptions(self.counting, typical)


def _check_priced(kernel: str, fit: Fit, shares: Shares) -> None:
    """Raise :class:`MissingNumberError` if *fit* lacks weights for more than half of the work of *kernel* at any size.

    Work is the number of operations plus bytes / 32. Properties that the fit left out because they are collinear with
    others count as paid for.
    """
    unpaid = [name for name in shares if name not in fit.weights and work_of_one(name)]
    if unpaid and fit.undetermined:
        left_out = frozenset[str]().union(*(group.left_out for group in fit.undetermined))
        unpaid = [name for name in unpaid if name not in left_out]
    if not unpaid:
        return
    missing = {name: sum(shares[name].values()) * work_of_one(name) for name in unpaid}
    lost = sum(missing.values())
    whole = lost + sum(
        [sum(parts.values()) * work_of_one(name) for name, parts in shares.items() if name not in missing]
    )
    is_batch = isinstance(whole, np.ndarray)  # NumPy's functions take ten times as long for a number
    share = np.max(lost / np.maximum(whole, 1.0), initial=0.0) if is_batch else lost / max(whole, 1.0)
    if share > MOST_UNPRICED:
        most = sorted((name for name in missing if np.any(missing[name])), key=lambda name: -np.max(missing[name]))
        other = "" if description_or_none(fit.slug) is None else ", or use a model without a fit: model='roofline'"
        raise MissingNumberError(
            f"the fit of {fit.slug!r} has no weights for {in_percent(float(share))} of the work of "
            f"{kernel!r}: {listed(most, MAX_NAMED)}; calibrate with kernels that have these{other}"
        )


def time_by_counts(counted: KernelCounts, fit: Fit, sizes: Mapping[str, Any]) -> ModelTime:
    """Return the run time of a *counted* kernel at *sizes* by a *fit* of counts, with interval and notes."""
    return _Counted(counted, fit, sizes).explained()


class _Counted:
    """A counted kernel at given sizes, with a fit; the time is computed at once, its explanation on demand."""

    __slots__ = ("answer", "counted", "fit", "notes", "sizes")

    def __init__(self, counted: KernelCounts, fit: Fit, sizes: Mapping[str, Any], notes: tuple[str, ...] = ()) -> None:
        self.counted, self.fit, self.sizes, self.notes = counted, fit, sizes, notes
        self.answer: ModelTime | None = None

    def seconds(self) -> Seconds:
        model, weights, shares = find_fitted_model(self.fit.model), self.fit.weights, _shares(self.counted, self.sizes)
        _check_priced(self.counted.kernel.name, self.fit, shares)
        if not model.is_weighted_sum:
            self.answer = model.time(self.fit, shares)
            return self.answer.seconds
        costs: list[Seconds] = []
        for name, parts in shares.items():
            if (weight := weights.get(name)) is not None:
                costs += [weight * count for count in parts.values()]
        return total(costs)

    def explained(self) -> ModelTime:
        shares = _shares(self.counted, self.sizes)
        answer = self.answer or find_fitted_model(self.fit.model).time(self.fit, shares)
        spread, unlike = prediction_interval(self.fit, shares, answer.seconds)
        unknowns = (f"assumed: {sentence}" for sentence in self.counted.assumed)
        notes = (*self.notes, *unknowns, *_notes(self.counted, self.fit, answer.unfitted, shares), *unlike)
        missing = left_out(self.fit, shares)
        if np.any(np.asarray(answer.seconds) < 0):
            notes = (*notes, BELOW_ZERO)
        if missing and spread is not None:
            spread, notes = None, (*notes, no_interval("the cost of the omitted part is unknown"))
        return replace(answer, interval=spread, notes=notes, left_out=missing)


# {{{ sizes


def _shares(counted: KernelCounts, sizes: Mapping[str, Any]) -> Shares:
    """Return the counts by property and source at one size; by property alone in a batch."""
    if not has_arrays(sizes):
        return counted.shares(sizes)
    arrays = {name: cast("NDArray[Any]", size) for name, size in sizes.items() if isinstance(size, np.ndarray)}
    shape = common_shape({name: array.shape for name, array in arrays.items()})
    counts = counted.properties().evaluate(**sizes)
    return {name: {"": _spread(np.asarray(count), shape)} for name, count in counts.items()}


def _spread(counts: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64] | NDArray[np.float64]:
    """Return *counts*, which may be a single number, in the shape of the batch."""
    return np.broadcast_to(counts.astype(np.float64) if counts.dtype == object else counts, shape)


# }}}


# {{{ notes


def _notes(counted: KernelCounts, fit: Fit, unfitted: tuple[str, ...], shares: Shares) -> Iterator[str]:
    explained = {name for group in fit.undetermined for name in group.left_out}
    yield from (f"no weight for {name!r} in the fit; assumed 0" for name in unfitted if name not in explained)
    if fit.undetermined:
        doubted = (sentence for totals in _samples(shares) for sentence in doubts(fit.undetermined, totals))
        yield from dict.fromkeys(doubted)
    yield from extrapolations(fit, shares)
    if counted.counting != fit.counting:
        yield f"the fit uses {fit.counting!r} counts, but this prediction uses {counted.counting!r} counts"


def _samples(shares: Shares) -> Iterator[dict[str, float]]:
    """Yield the counts by property; in a batch, those at its first and at its last size."""
    lengths = {count.size for parts in shares.values() for count in parts.values() if isinstance(count, np.ndarray)}
    indices = [0, max(lengths) - 1] if lengths else [0]
    for index in indices if indices[-1] >= 0 else []:
        yield {name: sum(_at(count, index) for count in parts.values()) for name, parts in shares.items()}


def _at(count: Count, index: int) -> float:
    return count.flat[index].item() if isinstance(count, np.ndarray) else count


# }}}


# }}}

# {{{ pipelines times weights


@dataclass(frozen=True, eq=False)
class PipelinesPredictor(DevicePredictor):
    """A fit of the pipelines of a device: their busy times, by the device's parameters, times the fitted weights."""

    def time(self, kernel: TimedProgram) -> ModelTime:
        """Return the predicted run time of *kernel*, in seconds, without alternatives."""
        assert self.fit is not None, "the fit is what predicts"
        return time_by_pipelines(self.fit, kernel)


def time_by_pipelines(fit: Fit, kernel: TimedProgram) -> ModelTime:
    """Return the run time of *kernel* by a *fit* of the pipelines of its device, with interval and notes."""
    shares = pipeline_shares(kernel)
    answer = find_fitted_model(fit.model).time(fit, shares)
    spread, unlike = prediction_interval(fit, shares, answer.seconds)
    if is_one_device(kernel.device.slug, fit.slug):  # else the parameters are those of any processor
        spread = clipped(spread, float(answer.seconds), float(DEVICE_MODELS[BOUND].time(kernel).seconds))
    free = (f"no weight for {name!r} in the fit; using the device parameters" for name in answer.unfitted)
    return replace(answer, interval=spread, notes=(*notes_of(kernel), *free, *extrapolations(fit, shares), *unlike))


# }}}


# {{{ the fit for given options


def bound(model: str | None, options: Options) -> Predictor:
    """Return the predictor of the given fit or of a fit of *model*; without either, the best one for the device."""
    if model is not None:
        return _fitted(model, options)
    if options.fit is None:
        return _usual(options)
    record = record_of(options.fit)
    found = replace(options, fit=record)
    if isinstance(record, ResidualModel):
        return import_module("loopyperf.predict.corrected").bound(LEARNED, found)
    return _fitted(None, found)


def check_fit(fit: object) -> None:
    """Raise :class:`ParameterError` unless *fit* is a fit, a residual model or a path."""
    check_type("fit", fit, "a fit, a residual model, or a path", (str, os.PathLike, Fit, ResidualModel))


def record_of(fit: FitChoice | ResidualModel) -> Fit | ResidualModel:
    """Return *fit*, read from its file if it is a path; raises :class:`FitFileError` for an invalid file."""
    if isinstance(fit, Fit | ResidualModel):
        return fit
    path = path_of(fit)
    document = read_document(Path(path), "fit", "give the path of a fit or residual model")
    model = cast("dict[str, object]", document).get("model") if isinstance(document, dict) else None
    return load_residual_model(path) if isinstance(MODELS.get(str(model)), RegressionModel) else find_fit("", path=path)


def _usual(options: Options) -> Predictor:
    """Return the predictor if neither model nor fit is given: the best fit, else the model for device parameters."""
    record, notes = usual_answer(options.device, _backend_of_fit(options))
    if isinstance(record, Fit):
        return _by_fit(record, notes, options)
    options.check_unused(repr(SIMULATED), "arguments", "counting")
    return DevicePredictor(
        SIMULATED, record.slug, notes, parameters=record, alternatives=options.alternatives, compiler=options.compiler
    )


def _fitted(model: str | None, options: Options) -> Predictor:
    """Return the predictor for the given fit, or for the fit of *model* for the device."""
    backend, device = _backend_of_fit(options), options.device
    if isinstance(options.fit, ResidualModel):
        raise ParameterError(f"a residual model needs model={LEARNED!r}, got model={model!r}")
    if device is not None and not isinstance(device, str):
        raise ParameterError(
            f"a fitted model needs the name of the device or a fit, got device {device!r:.80}; give its name"
        )
    if options.fit is None:
        return _by_fit(*fit_with_notes(model, device, backend), options)
    return _by_fit(chosen_fit(model, device, options.fit, backend), (), options)


def _by_fit(fit: Fit, notes: tuple[str, ...], options: Options) -> Predictor:
    slim = structs.replace(fit, residuals=(), cross_validation=None)
    options.check_unused(repr(fit.model), "arguments")
    if fit.basis == "counts":
        options.check_unused(f"a fit of {fit.model!r}", "compiler")
        counting = options.counting or fit.counting
        return CountsPredictor(fit.model, fit.slug, notes, fit=slim, counting=counting)
    options.check_unused("a fit of pipelines", "counting")
    parameters = requested_device(fit) or load_device(fit.described_as or fit.slug)  # raises an error with the reason
    return PipelinesPredictor(
        fit.model,
        fit.slug,
        notes,
        parameters=parameters,
        fit=slim,
        alternatives=options.alternatives,
        compiler=options.compiler,
    )


def _backend_of_fit(options: Options) -> str | None:
    """Return the backend that a fit must be measured with; raises :class:`ParameterError` for an invalid name."""
    check_type("backend", options.backend, "a name", str)
    if options.backend is None:
        return None
    running: tuple[str, ...] = backends().RUNNING
    if options.backend in running:
        return cast("str", options.backend)
    known = " or ".join(map(repr, running))
    raise ParameterError(f"the backend of a fit must be {known}, got {options.backend!r:.80}")


# }}}
