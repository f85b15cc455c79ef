"""Which of many variants is fastest, which can never be, and how sure that is: :func:`rank`."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from math import inf, log
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, abridged, plain, tagged
from loopyperf.errors import NAMED, ParameterError, unanswered
from loopyperf.executors import Processes, is_number
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.catalog import find_model
from loopyperf.models.result import Estimate
from loopyperf.predict.estimate import given_or_named
from loopyperf.predict.predictor import Predictor
from loopyperf.search.cascade import Beaten, Cascade, Shortlist, ShortlistCandidate, errors_of, shortlisted, tied
from loopyperf.search.measured import MeasuredRanking, check_measuring, measured_ranking
from loopyperf.search.task import (
    Sizes,
    SizesSeen,
    bound_of,
    bounds_note,
    check_ranked,
    executes_kernels,
    predicted,
    without_notes,
)
from loopyperf.search.tasks_in_flight import TaskRunner
from loopyperf.search.variants import Variant, Variants, check_top, is_iterable, named
from loopyperf.stages.case import merged_sizes
from loopyperf.units import duration, listed, number_of

NO_ESTIMATE = "none has an estimate"


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Tabular):
    """Variants of a kernel at one size, fastest first."""

    sizes: Mapping[str, Any]
    """values of the kernels' parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    model: str
    """name of the model"""
    estimates: Mapping[str, Estimate]
    """by name, fastest first; of each property one row"""
    failures: Mapping[str, str]
    """by name, why there is no estimate"""
    beaten: tuple[Beaten, ...]
    """those that cannot be among the fastest: the model was not asked about them"""
    notes: tuple[str, ...]
    """how variants were judged, and what became of the executor, in sentences"""
    variants: Mapping[str, Variant]
    """by name, what was ranked; it can be pickled where its builders can, and no lambda can"""
    errors: tuple[float, ...]
    """how far kernels alike are off from each other, in ln of times over half the width of an interval"""
    typical: Mapping[str, Any] | None = None
    """what was stated of what the source does not tell"""

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
        """Return the name of the fastest variant; raises :class:`ParameterError` where no variant has an estimate."""
        if not self.estimates:
            reasons = "; ".join(dict.fromkeys(self.failures.values()))
            raise ParameterError(f"of {number_of(len(self.failures), 'variant')} {NO_ESTIMATE}: {reasons}")
        return self.order[0]

    @property
    def ties(self) -> tuple[tuple[str, ...], ...]:
        """Return the names in groups, fastest first, whose members the model cannot tell from the group's first one.

        That is, the interval of the ratio of their times, which holds it with the probability that intervals are
        stated with, has 1 in it. Each is on its own where the model states no intervals.
        """
        return tied(self._candidates(), self.errors)

    def shortlist(self, regret: float = 0.05, probability: float = 0.9) -> Shortlist:
        """Return the fewest variants of which one is, with *probability*, at most *regret* slower than the fastest.

        They are to be measured. *regret* is relative, not negative; *probability* below 1. Errors of variants are
        taken to be independent of each other, and distributed as those of alike kernels that the model was judged on.
        Raises :class:`ParameterError` where the model states no intervals, or where it takes more variants than the
        model was asked about.
        """
        return shortlisted(self._candidates(), self.errors, regret, probability)

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
        """Return the *top* fastest variants, or those of these names, with run times measured now through *backend*.

        *backend* is ``"opencl"``, ``"cuda"`` or an open one, *device* a part of the device's name. *arguments* are by
        name; others are made up, the same for all variants. What they write is compared with what the first one wrote,
        unless they are not to be compared. What cannot be measured is in the answer's ``failures``; its
        ``measurements`` are rows for :func:`loopyperf.fit`.

        Raises :class:`ParameterError` for names that were not ranked and options that make no sense,
        :class:`BackendError` without a device.
        """
        check_measuring(backend, arguments, protocol)
        names = self._named(top)
        chosen = [(self.variants[name], float(self.estimates[name])) for name in names]
        machine = opened(backend, device)
        return measured_ranking(machine, chosen, self.sizes, arguments, protocol, self.typical, are_compared)

    def _named(self, top: int | Iterable[str]) -> tuple[str, ...]:
        """Return the names that *top* stands for, each once."""
        if is_number(top):
            return self.order[:top]
        if isinstance(top, str | int) or not is_iterable(top):
            raise ParameterError(
                f"top is how many of the fastest are measured, 1 or more, or a list of names; received {top!r:.80}"
            )
        names = tuple(dict.fromkeys(top))
        if not names:
            raise ParameterError("there is nothing to measure: top is an empty list of names")
        strangers = [name for name in names if name not in self.estimates]
        if strangers:
            raise ParameterError(f"this ranking has no estimate of {strangers[0]!r} to compare with: name others")
        return names

    def _candidates(self) -> list[ShortlistCandidate]:
        known = [ShortlistCandidate(name, float(each.seconds), _spread(each)) for name, each in self.estimates.items()]
        spreads = [each.spread for each in known if each.spread is not None]
        widest = max(spreads, default=None)
        beaten = [(each, widest if each.at_least > 0 else None) for each in self.beaten]
        return [
            *known,
            *(ShortlistCandidate(each.name, each.at_least, spread, is_ranked=False) for each, spread in beaten),
        ]

    def report_text(self) -> ReportText:
        """Return the fastest and the slowest variants, and who has no place in the order."""
        asked = tagged(number_of(len(self.variants), "variant"), self.sizes, self.typical)
        answer = f"{self.best} takes {self.fastest_in_words}" if self.order else NO_ESTIMATE
        return ReportText(
            question=f"{asked} on {self.device}, model {self.model}",
            answer=answer,
            tables=[self._table()] if self.order else [],
            remarks=list(self.remarks()),
            notes=self.notes,
            alone="\n".join(self.order),
        )

    @property
    def fastest_in_words(self) -> str:
        """Return the run time of the fastest variant, and how many others the model cannot tell from it."""
        time = self.estimates[self.best].time_in_words
        others = sum(name in self.estimates for name in self.ties[0]) - 1
        return f"{time}, and {number_of(others, 'other')} may be as fast" if others else time

    def _table(self) -> Table:
        """Return number, name, time and bound of the fastest and the slowest, and how many there are between."""
        number = {name: place for place, group in enumerate(self.ties, 1) for name in group}

        def row(name: str) -> tuple[str, ...]:
            estimate = self.estimates[name]
            return str(number[name]), name, estimate.time_in_words, estimate.bound

        rows = abridged(self.order, row, called=1)
        return Table(("", "variant", "time", "bound by"), rows, text=2, last=1)

    def remarks(self) -> Iterator[str]:
        """Yield what times are without, and a line for what has no place in the order."""
        lacking: dict[tuple[str, ...], list[str]] = {}
        for name, estimate in self.estimates.items():
            lacking.setdefault(estimate.left_out, []).append(name)
        lacking.pop((), None)
        yield from (f"at least, without {', '.join(what)}: {listed(names, NAMED)}" for what, names in lacking.items())
        if 0 < sum(map(len, lacking.values())) < len(self.estimates):
            yield "variants whose times lack something stand behind all others, whatever is left of their times"
        beaten = {each.name: each.at_least for each in self.beaten}
        negative = [name for name, seconds in {**self.seconds, **beaten}.items() if seconds < 0]
        if negative:
            names = listed(negative, NAMED)
            yield f"behind all others, since the fit does not apply where a run time is below 0: {names}"
        if slower := [seconds for seconds in beaten.values() if seconds >= 0]:
            yield f"no place in the order: {number_of(len(slower), 'variant')} of {duration(min(slower))} or more"
        yield from unanswered(self.failures, as_said=str)

    def records(self) -> list[dict[str, Any]]:
        """Return a row for each variant, fastest first: its place, seconds, their interval, and what costs most.

        Variants that the model cannot tell from each other have one place.
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
        return {
            "sizes": plain(self.sizes),
            "typical": plain(self.typical or {}),
            "device": self.device,
            "model": self.model,
            "estimates": {name: each.to_dict() for name, each in self.estimates.items()},
            "ties": [list(group) for group in self.ties],
            "beaten": {each.name: {"at_least": each.at_least, "bound": each.bound} for each in self.beaten},
            "failures": dict(self.failures),
            "notes": list(self.notes),
        }


def rank(
    variants: Variants,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
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
    """Return *variants* of a kernel at one size, with predicted run times in seconds, fastest first.

    *variants* are programs, or pairs of a name and a program, or of a name and a callable that returns one: it is
    called where the variant is analysed. They may be a mapping. *executor* is any of :mod:`concurrent.futures`, or one
    with the same interface; by default variants are analysed here, one after the other, or with a *time_limit* in
    another process, which is killed if it goes on for 5 seconds more. A variant that cannot be built or counted, whose
    groups fit on no core, that takes more than *time_limit* seconds, or whose process dies, is in
    :attr:`Ranking.failures` with the reason, and the others are ranked all the same.

    *device*, *model*, *fit*, *typical*, *parameters* and sizes are those of :func:`loopyperf.estimate`, but each size
    is one integer. A variant gets those of the sizes that it takes, so that variants may have different ones.
    *predictor* takes the place of the first three (see :func:`loopyperf.predictor`).

    *bounds* are models whose times are bounds of the model's, the cheapest first: ``"throughput"``, which only counts,
    and ``"roofline"``. They are bounds of each other and of ``"volkov"`` and ``"pipeline"``, in which the busiest
    pipeline is busy that long, too; of other models and of fits they need not be, which the notes say. The model is
    then asked about as few variants as make sure that the *top* fastest ones are right, and :attr:`Ranking.estimates`
    has those *top*. Without bounds, *top* only cuts the ranking. *progress* is told after each answer how many there
    are, and how many there can be at most: with bounds, fewer will do.

    Raises :class:`ParameterError` for no variants, for two of one name, for options that make no sense, and for a size
    that none of eight variants from all over the list takes, or that all of these lack; and what
    :func:`loopyperf.estimate` raises for a model, a device or a fit that does not exist.
    """
    check_top(top, bounds)
    every = named(variants, are_kept=bool(bounds))
    merged = merged_sizes(parameters, sizes)
    chosen = chosen_predictor(predictor, device, model, fit)
    check_ranked(chosen, merged, typical)
    asked = (*(bound_of(chosen, name) for name in bounds), without_notes(chosen))
    cascade = Cascade(asked, every, merged, typical, top)
    questions = TaskRunner(predicted, executor, time_limit)
    seen = SizesSeen(merged, len(every))
    for number, (task, answer) in enumerate(questions.about(cascade.tasks()), 1):
        seen.note(task.variant.name, answer)
        cascade.take(task, answer)
        if progress is not None:
            progress(number, len(every) * len(asked))
    return ranking_of(
        chosen,
        merged,
        typical,
        every,
        cascade.fastest,
        cascade.failures,
        beaten=cascade.beaten,
        notes=(*questions.notes, *(cascade.notes or bounds_note(chosen, bounds))),
    )


def chosen_predictor(
    given: Predictor | None, device: DeviceChoice | None, model: str | None, fit: FitChoice | ResidualModel | None
) -> Predictor:
    """Return the predictor that is *given*, else the one of these names, without alternatives.

    Raises :class:`ParameterError` if both are given, and what :func:`loopyperf.predictor` raises.
    """
    if given is None and isinstance(model, str) and "samples" in find_model(model).needs:
        raise executes_kernels(model)
    return given_or_named(given, device=device, model=model, fit=fit, alternatives=False)


def ranking_of(
    predictor: Predictor,
    sizes: Sizes,
    typical: Mapping[str, Any] | None,
    variants: Sequence[Variant],
    estimates: Mapping[str, Estimate],
    failures: Mapping[str, str],
    *,
    beaten: tuple[Beaten, ...] = (),
    notes: Sequence[str] = (),
) -> Ranking:
    """Return the ranking of *variants* by *predictor*; *estimates* are by name, fastest first."""
    return Ranking(
        sizes=dict(sizes),
        device=predictor.device,
        model=predictor.model,
        estimates=estimates,
        failures=failures,
        beaten=beaten,
        notes=(*predictor.notes, *notes),
        variants={each.name: each for each in variants},
        errors=errors_of(predictor.uncertainty),
        typical=typical,
    )


def _spread(estimate: Estimate) -> float | None:
    """Return half the width of the interval, in ln of times."""
    if estimate.interval is None:
        return None
    low, high = map(float, estimate.interval)
    return log(high / low) / 2 if 0 < low <= high < inf else None
