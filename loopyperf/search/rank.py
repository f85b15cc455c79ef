"""The function :func:`rank`, which orders variants of a kernel by predicted run time."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import islice
from math import hypot, inf, log, sqrt
from typing import Any

import numpy as np

from loopyperf.calibration.accuracy import Uncertainty, quantile
from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import NoteKind, ReportText, Table, Tabular, abridged, fields_of, kind_of, plain, tagged
from loopyperf.errors import MAX_NAMED, ParameterError, unanswered
from loopyperf.executors import Processes, is_number
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.catalog import find_model
from loopyperf.models.result import LEVEL, Estimate
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.predictor import Predictor
from loopyperf.search.cascade import Beaten, Predicting
from loopyperf.search.measuring import MeasuredRanking, check_measuring, measured_ranking
from loopyperf.search.task import executes_kernels
from loopyperf.search.variants import Variant, Variants, check_top, is_iterable, named
from loopyperf.stages.case import merged_sizes
from loopyperf.stages.compile import Compiler
from loopyperf.units import duration, listed, number_of

NO_ESTIMATE = "none could be predicted"
MAX_NOTED = 8
"""number of fastest variants whose notes on atomic updates are repeated"""


# {{{ variants that cannot be distinguished
#
# With Tᵢ the predicted time of variant i and hᵢ half the width of its interval, in ln of times, its true time is
# modeled as tᵢ = Tᵢ·exp(hᵢ·uᵢ). The uᵢ are independent. They are distributed as the errors of held-out kernels about
# the mean error of their class, divided by half the width of their intervals, because an error that is common to all
# variants does not change their order. If the fit lacks these errors, the uᵢ are normal, scaled to match the interval.


MAX_COMPARED = 1000
"""largest number of errors that are compared in pairs"""


@dataclass(frozen=True, slots=True)
class TimedVariant:
    """The time of a variant and its uncertainty."""

    name: str
    seconds: float
    """predicted time; for a variant that is not ranked, its lower bound"""
    spread: float | None
    """half the width of its interval, in ln of times; None without an interval"""


def errors_of(known: Uncertainty | None) -> tuple[float, ...]:
    """Return the errors of kernels about their class's mean, over half the width of an interval; () if unknown."""
    if known is None or not known.deviations:
        return ()
    half = quantile(known.scores, LEVEL)
    return tuple(deviation / half for deviation in known.deviations) if 0 < half < float("inf") else ()


def tied(ranked: Sequence[TimedVariant], errors: Sequence[float]) -> tuple[tuple[str, ...], ...]:
    """Return the names of *ranked* in groups, whose members cannot be distinguished from the group's first one.

    *errors* are those of :func:`errors_of`. Variants without a spread tie only if their times are equal.
    """
    # the quantile, at the probability of intervals, of the difference between two kernels' errors
    apart = sqrt(2)
    if len(errors) > 1:
        some = np.array(errors)[:: -(-len(errors) // MAX_COMPARED)]
        pairs = np.triu_indices(len(some), 1)
        apart = float(np.quantile(np.abs(np.subtract.outer(some, some))[pairs], LEVEL))
    groups: list[list[str]] = []
    first: TimedVariant | None = None
    for each in ranked:
        if first is None or not _is_within(first, each, apart):
            first = each
            groups.append([])
        groups[-1].append(each.name)
    return tuple(map(tuple, groups))


def _is_within(one: TimedVariant, other: TimedVariant, apart: float) -> bool:
    if one.spread is None or other.spread is None:
        return one.seconds == other.seconds
    return log(other.seconds / one.seconds) <= apart * hypot(one.spread, other.spread) / sqrt(2)


# }}}


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Tabular):
    """Variants of a kernel at one size, fastest first; :func:`loopyperf.rank` returns it.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> def doubled(group):
    ...     knl = lp.make_kernel(
    ...         "{[i]: 0 <= i < n}",
    ...         "b[i] = 2*a[i]",
    ...         [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...         assumptions="n >= 1",
    ...         lang_version=(2018, 2),
    ...     )
    ...     return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    >>> variants = {"small groups": doubled(32), "large groups": doubled(256)}
    >>> ranking = lpp.rank(variants, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> ranking.order
    ('large groups', 'small groups')
    >>> ranking.ties
    (('large groups',), ('small groups',))
    """

    _OMITTED = ("variants", "errors")
    _DERIVED = ("ties",)

    sizes: Mapping[str, Any]
    """values of the kernels' parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    model: str
    """name of the model"""
    estimates: Mapping[str, Estimate]
    """variant -> estimate, fastest first; its breakdown has one row per property"""
    failures: Mapping[str, str]
    """variant -> reason why there is no estimate"""
    beaten: tuple[Beaten, ...]
    """variants that cannot be among the fastest, according to bounds or *top*"""
    notes: tuple[str, ...]
    """notes on the predictor, on bounds, and on failures of the executor"""
    variants: Mapping[str, Variant]
    """name -> variant; picklable if the builders are, so builders must not be lambdas"""
    errors: tuple[float, ...]
    """errors of similar kernels relative to each other, in ln of times over half the width of an interval"""
    typical: Mapping[str, Any] | None = None
    """typical values that were given (:func:`loopyperf.count`)"""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names of the variants, fastest first."""
        return tuple(self.estimates)

    @property
    def seconds(self) -> dict[str, float]:
        """Return name -> run time in seconds, fastest first."""
        return {name: float(each.seconds) for name, each in self.estimates.items()}

    @property
    def best(self) -> str:
        """Return the name of the fastest variant; raises :class:`ParameterError` if no variant has an estimate."""
        if not self.estimates:
            reasons = "; ".join(dict.fromkeys(self.failures.values()))
            raise ParameterError(f"{number_of(len(self.failures), 'variant')}, {NO_ESTIMATE}: {reasons}")
        return self.order[0]

    @property
    def ties(self) -> tuple[tuple[str, ...], ...]:
        """Return the names in groups, fastest first, whose members the model cannot distinguish from the first one.

        Two variants tie if the prediction interval of the ratio of their times contains 1. Without intervals, only
        equal times tie.
        """
        return tied(self._timed(), self.errors)

    def measure(
        self,
        backend: str | Backend,
        top: int | Iterable[str] = 8,
        *,
        device: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        protocol: Protocol | None = None,
        are_compared: bool = True,
    ) -> MeasuredRanking:
        """Measure the *top* fastest variants, or those of the names *top*, on *backend*.

        *backend* is ``"opencl"``, ``"cuda"`` or an open backend, *device* a part of the device's name. *arguments* are
        kernel arguments by name; missing ones are generated, the same for all variants. The results of each variant
        are compared with those of the first one, unless *are_compared* is False. Variants that cannot be measured are
        in ``failures`` of the returned :class:`MeasuredRanking`; its ``measurements`` are rows for
        :func:`loopyperf.fit`.

        Raises :class:`ParameterError` for names that were not ranked and for invalid options, and
        :class:`BackendError` without a device.
        """
        check_measuring(backend, arguments, protocol)
        names = self._named(top)
        chosen = [(self.variants[name], float(self.estimates[name])) for name in names]
        machine = opened(backend, device)
        return measured_ranking(machine, chosen, self.sizes, arguments, protocol, self.typical, are_compared)

    def _named(self, top: int | Iterable[str]) -> tuple[str, ...]:
        """Return the names that *top* selects, each once."""
        if is_number(top):
            return self.order[:top]
        if isinstance(top, str | int) or not is_iterable(top):
            raise ParameterError(f"top must be an integer >= 1 or a list of names, got {top!r:.80}")
        names = tuple(dict.fromkeys(top))
        if not names:
            raise ParameterError("top is an empty list; name a variant to measure")
        unknown = [name for name in names if name not in self.estimates]
        if unknown:
            raise ParameterError(f"the ranking has no estimate of {unknown[0]!r}; name a ranked variant")
        return names

    def _timed(self) -> list[TimedVariant]:
        ranked = [TimedVariant(name, float(each.seconds), _spread(each)) for name, each in self.estimates.items()]
        widest = max((each.spread for each in ranked if each.spread is not None), default=None)
        slower = [TimedVariant(each.name, each.at_least, widest if each.at_least > 0 else None) for each in self.beaten]
        return [*ranked, *slower]

    def report_text(self) -> ReportText:
        """Return a table of the fastest and the slowest variants, and remarks on variants that are not ranked."""
        ranked = tagged(number_of(len(self.variants), "variant"), self.sizes, self.typical)
        answer = f"{self.best} takes {self.fastest_in_words}" if self.order else NO_ESTIMATE
        return ReportText(
            question=f"{ranked} on {self.device}, model {self.model}",
            answer=answer,
            tables=[self._table()] if self.order else [],
            remarks=list(self.remarks()),
            notes=self.notes,
            alone="\n".join(self.order),
        )

    @property
    def fastest_in_words(self) -> str:
        """Return the run time of the fastest variant, and the number of variants that tie with it."""
        time = self.estimates[self.best].time_in_words
        others = sum(name in self.estimates for name in self.ties[0]) - 1
        return f"{time}, and {number_of(others, 'other')} may be as fast" if others else time

    def _table(self) -> Table:
        """Return a table of the fastest and the slowest variants, with the number of those in between."""
        number = {name: place for place, group in enumerate(self.ties, 1) for name in group}

        def row(name: str) -> tuple[str, ...]:
            estimate = self.estimates[name]
            return str(number[name]), name, estimate.time_in_words, estimate.bound

        rows = abridged(self.order, row, called=1)
        return Table(("", "variant", "time", "bound by"), rows, text=2, last=1)

    def remarks(self) -> Iterator[str]:
        """Yield remarks on incomplete estimates, and on variants that are not ranked."""
        lacking: dict[tuple[str, ...], list[str]] = {}
        for name, estimate in self.estimates.items():
            lacking.setdefault(estimate.left_out, []).append(name)
        lacking.pop((), None)
        yield from (
            f"lower bounds without {', '.join(what)}: {listed(names, MAX_NAMED)}" for what, names in lacking.items()
        )
        if 0 < sum(map(len, lacking.values())) < len(self.estimates):
            yield "variants with incomplete times are ranked last"
        beaten = {each.name: each.at_least for each in self.beaten}
        negative = [name for name, seconds in {**self.seconds, **beaten}.items() if seconds < 0]
        if negative:
            names = listed(negative, MAX_NAMED)
            yield f"ranked last, since their times are negative and the fit does not apply: {names}"
        if slower := [seconds for seconds in beaten.values() if seconds >= 0]:
            yield f"not ranked: {number_of(len(slower), 'variant')} of {duration(min(slower))} or more"
        yield from unanswered(self.failures, as_said=str)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each variant, fastest first: place, name, seconds, interval, and bound.

        Tied variants have the same place.
        """
        places = {name: place for place, group in enumerate(self.ties, 1) for name in group}
        return [
            {
                "place": places[name],
                "variant": name,
                "seconds": float(each.seconds),
                "low": None if each.interval is None else float(each.interval[0]),
                "high": None if each.interval is None else float(each.interval[1]),
                "bound": each.bound,
            }
            for name, each in self.estimates.items()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the ranking as plain values that JSON can hold."""
        return {**fields_of(self), "beaten": {each.name: plain(each) for each in self.beaten}}


def rank(
    variants: Variants,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    predictor: Predictor | None = None,
    bounds: Sequence[str] = (),
    top: int | None = None,
    typical: Mapping[str, Any] | None = None,
    executor: Executor | Processes | None = None,
    time_limit: float | None = None,
    parameters: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    **sizes: Any,
) -> Ranking:
    """Rank *variants* of a kernel at one size by predicted run time, fastest first.

    A variant that cannot be built or counted, whose groups do not fit on a core, that exceeds the time limit, or whose
    process dies is in ``failures`` of the ranking with the reason; the others are ranked.

    Parameters
    ----------
    variants : Mapping or iterable
        Programs, or (name, program) or (name, builder) pairs, or a mapping of names to programs or builders. A builder
        is a callable without arguments that returns a program; it is called in the process that analyzes the variant.
    device, model, fit, compiler, typical, parameters, **sizes
        As in :func:`loopyperf.estimate`, but each size is one integer. A variant gets only the sizes that it takes, so
        variants may have different sizes.
    predictor : Predictor, optional
        Replaces *device*, *model*, *fit* and *compiler* (see :func:`loopyperf.predictor`).
    bounds : sequence of {"throughput", "roofline"}
        Models whose times are lower bounds of the model's times, cheapest first. The model then runs on as few variants
        as are needed to find the *top* fastest. They are lower bounds of ``"roofline"``, ``"volkov"`` and
        ``"pipeline"``; for other models and for fits a note says that they need not be.
    top : int, optional
        Number of fastest variants in the ranking; required with *bounds*. Default: all.
    executor : concurrent.futures.Executor or Processes, optional
        Runs the variants in parallel; any object with the same interface works. Default: serially in this process or,
        with *time_limit*, in one other process.
    time_limit : float, optional
        Time limit for each variant, in seconds. A process that continues for 5 seconds more is killed.
    progress : callable, optional
        Called after each result with the number of results and their largest possible number; *bounds* need fewer.

    Returns
    -------
    Ranking
        Estimates by variant, fastest first.

    Raises
    ------
    ParameterError
        There are no variants, two have the same name, an option is invalid, or of eight variants from all over the
        list none takes one of the sizes, or all lack another size.
    UnknownModelError, UnknownDeviceError, FitFileError, DeviceFileError
        As in :func:`loopyperf.estimate`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> def doubled(group):
    ...     knl = lp.make_kernel(
    ...         "{[i]: 0 <= i < n}",
    ...         "b[i] = 2*a[i]",
    ...         [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...         assumptions="n >= 1",
    ...         lang_version=(2018, 2),
    ...     )
    ...     return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    >>> variants = {f"groups of {group}": doubled(group) for group in (32, 64, 256)}
    >>> ranking = lpp.rank(variants, n=2**20, device="nvidia-titan-v", model="roofline")
    >>> ranking.best
    'groups of 256'
    """
    check_top(top, bounds)
    every = named(variants, are_kept=bool(bounds))
    merged = merged_sizes(parameters, sizes)
    otherwise = compiler if predictor is model is fit is None else None
    chosen = chosen_predictor(predictor, device, model, fit, compiler)
    by = Predicting(chosen, merged, typical, executor, time_limit, otherwise)
    cascade = by.cascade(every, bounds, top, progress)
    return ranking_of(by, every, cascade.fastest, cascade.failures, cascade.beaten)


def chosen_predictor(
    given: Predictor | None,
    device: DeviceChoice | None,
    model: str | None,
    fit: FitChoice | ResidualModel | None,
    compiler: Compiler,
) -> Predictor:
    """Return the *given* predictor, else a new one.

    Raises :class:`ParameterError` if both are given, and what :func:`loopyperf.predictor` raises.
    """
    if given is None and isinstance(model, str) and "samples" in find_model(model).needs:
        raise executes_kernels(model)
    return given_or_named(given, device=device, model=model, fit=fit, compiler=compiler)


def ranking_of(
    by: Predicting,
    variants: Sequence[Variant],
    estimates: Mapping[str, Estimate],
    failures: Mapping[str, str],
    beaten: tuple[Beaten, ...] = (),
) -> Ranking:
    """Return the ranking of *variants* predicted *by* a model; *estimates* are by name, fastest first."""
    return Ranking(
        sizes=dict(by.sizes),
        device=by.predictor.device,
        model=by.predictor.model,
        estimates=estimates,
        failures=failures,
        beaten=beaten,
        notes=(*by.predictor.notes, *by.notes, *_on_atomic_updates(estimates)),
        variants={variant.name: variant for variant in variants},
        errors=errors_of(by.predictor.uncertainty),
        typical=None if callable(by.typical) else by.typical,
    )


def _on_atomic_updates(estimates: Mapping[str, Estimate]) -> Iterator[str]:
    """Yield the notes on atomic updates of the fastest variants, each with the names of its variants."""
    found: dict[str, list[str]] = {}
    for name, estimate in islice(estimates.items(), MAX_NOTED):
        for note in (each for each in estimate.notes if kind_of(each) == NoteKind.ATOMIC_UPDATES):
            found.setdefault(note, []).append(name)
    yield from (f"{listed(names, MAX_NAMED)}: {note}" for note, names in found.items())


def _spread(estimate: Estimate) -> float | None:
    """Return half the width of the interval, in ln of times."""
    if estimate.interval is None:
        return None
    low, high = map(float, estimate.interval)
    return log(high / low) / 2 if 0 < low <= high < inf else None
