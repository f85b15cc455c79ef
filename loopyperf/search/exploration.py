"""Prediction of the points of a space that may be the fastest: all of a small space, local moves in a large one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import median
from types import CodeType
from typing import Any

from loopyperf.errors import ParameterError, one_line
from loopyperf.models.result import Estimate
from loopyperf.search.cascade import Cascade
from loopyperf.search.space import Builder, Space
from loopyperf.search.tuner import Candidates, coordinates, parts_of
from loopyperf.search.variants import Variant
from loopyperf.units import number_of

PREDICTIONS = 1000
"""default for the largest number of points to predict"""
ENUMERATED = 20_000
"""largest number of points whose restrictions are all evaluated"""
START_POINTS = 128
"""random points with which the exploration of a large space starts"""
BEAM = 8
"""fastest points whose neighbours are predicted next"""
MAX_VIOLATIONS = 1000
"""random points in a row that violate the restrictions before a space counts as empty"""
BOUND_VARIANCE = 3.0
"""additional variance of a point that has only a lower bound, relative to the variance of predictions"""
FUNCTIONS = {"min": min, "max": max, "abs": abs, "len": len, "sum": sum, "any": any, "all": all, "divmod": divmod}
"""functions that a restriction may call"""

Restriction = str | Callable[..., Any]
"""a Python expression over the names of a space, or a function that takes the choices as keyword arguments"""


@dataclass(frozen=True, slots=True)
class Restrictions:
    """Conditions that a point must meet."""

    conditions: tuple[CodeType | Callable[..., Any], ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, restrictions: Restriction | Iterable[Restriction], space: Space) -> "Restrictions":
        """Return *restrictions*; raises :class:`ParameterError` if one is invalid or names no choice of *space*."""
        several = [restrictions] if isinstance(restrictions, str) or callable(restrictions) else list(restrictions)
        conditions: list[CodeType | Callable[..., Any]] = []
        for each in several:
            if callable(each):
                conditions.append(each)
                continue
            try:
                code = compile(each, "<restriction>", "eval")
            except (SyntaxError, ValueError, TypeError) as error:
                raise ParameterError(
                    f"a restriction must be a Python expression, e.g. 'tile*unroll <= 64', or a function; got "
                    f"{each!r:.80}"
                ) from error
            unknown = sorted(set(code.co_names) - set(space.choices) - set(FUNCTIONS))
            if unknown:
                raise ParameterError(
                    f"the restriction {each!r:.80} names {unknown[0]!r}, but the space has {', '.join(space.choices)}"
                )
            conditions.append(code)
        return cls(tuple(conditions), tuple(each if isinstance(each, str) else each.__qualname__ for each in several))

    def admit(self, choice: Mapping[str, Any]) -> bool:
        """Return whether *choice* meets all conditions; raises :class:`ParameterError` if one cannot be evaluated."""
        for condition, text in zip(self.conditions, self.texts, strict=True):
            try:
                is_met = condition(**choice) if callable(condition) else _evaluated(condition, choice)
            except Exception as error:  # the user's code may raise anything
                where = ", ".join(f"{name}={value}" for name, value in choice.items())
                reason = f"{type(error).__name__}: {one_line(error)}"
                raise ParameterError(f"the restriction {text} failed at {where}: {reason}") from error
            if not is_met:
                return False
        return True


def _evaluated(code: CodeType, choice: Mapping[str, Any]) -> object:
    return eval(code, {"__builtins__": {}, **FUNCTIONS, **choice})


@dataclass
class PredictedSpace:
    """The points of a space that were predicted, each with its estimate, its lower bound, or a reason for neither."""

    space: Space
    build: Builder
    restrictions: Restrictions
    predicted: Callable[[Sequence[Variant]], Cascade]
    """predicts variants, at least the fastest"""
    predictions: int
    """largest number of points to predict"""
    seed: int = 0
    estimates: dict[int, Estimate] = field(default_factory=dict[int, Estimate])
    bounds: dict[int, float] = field(default_factory=dict[int, float])
    """lower bounds in seconds, also of points that have no estimate because their bound is high"""
    failures: dict[int, str] = field(default_factory=dict[int, str])
    """points without an estimate -> reason"""
    allowed: int | None = None
    """number of points that meet the restrictions; None if unknown"""

    def run(self) -> None:
        """Predict all points, or of a larger space random ones and then the neighbours of the fastest.

        Raises :class:`ParameterError` if the restrictions exclude all points, or if none could be predicted.
        """
        self._explore()
        if not self.estimates:
            reasons = "; ".join(dict.fromkeys(self.failures.values()))
            raise ParameterError(f"{number_of(len(self.failures), 'point')}, none could be predicted: {reasons}")

    def _explore(self) -> None:
        if self.space.points <= ENUMERATED:
            admitted = [point for point in range(self.space.points) if self._admits(point)]
            self.allowed = len(admitted)
            if not admitted:
                raise self._nothing()
            if len(admitted) <= self.predictions:
                self._predict(admitted)
                return
        random = Random(self.seed)
        batch = list(self._random_points(random))
        while batch and len(self.known) < self.predictions:
            self._predict(batch[: self.predictions - len(self.known)])
            batch = self.neighbours(sorted(self.estimates, key=lambda point: self.estimates[point].place)[:BEAM])

    @property
    def known(self) -> set[int]:
        """Return the points that were predicted, successfully or not."""
        return {*self.estimates, *self.bounds, *self.failures}

    def neighbours(self, points: Iterable[int]) -> list[int]:
        """Return the unknown points that differ from one of *points* in one choice; on a scale, the next one."""
        known, found = self.known, dict[int, None]()
        for point in points:
            places = self.space.places(point)
            for name, place in places.items():
                number = len(self.space.choices[name])
                moves = (place - 1, place + 1) if self.space.is_scale(name) else range(number)
                for move in moves:
                    other = self.space.number({**places, name: move}) if 0 <= move < number else point
                    if other not in known and self._admits(other):
                        found[other] = None
        return list(found)

    def predict_neighbours(self, point: int) -> list[int]:
        """Predict the unknown neighbours of *point*, as far as predictions are left; return them."""
        batch = self.neighbours([point])[: max(0, self.predictions - len(self.known))]
        if batch:
            self._predict(batch)
        return batch

    def candidates(self) -> tuple[list[int], Candidates]:
        """Return the points that may be measured, and their predictions.

        A point that has only a lower bound counts as slower than it by the usual ratio of a time to its bound.
        """
        points = [*self.estimates, *self.bounds.keys() - self.estimates.keys()]
        ratios = [float(each) / self.bounds[point] for point, each in self.estimates.items() if point in self.bounds]
        usual = median(ratios) if ratios else 1.0
        known = {point: float(estimate) for point, estimate in self.estimates.items()}
        parts = [parts_of(self.estimates.get(point)) for point in points]
        doubt = [BOUND_VARIANCE if point not in known or self.estimates[point].place[0] else 0.0 for point in points]
        seconds = [known.get(point) or usual * self.bounds[point] for point in points]
        return points, Candidates.of(seconds, coordinates(self.space, points), parts, doubt)

    def _admits(self, point: int) -> bool:
        return self.restrictions.admit(self.space.choice(point))

    def _random_points(self, random: Random) -> Iterator[int]:
        found = set[int]()
        missed = 0
        while len(found) < START_POINTS and missed < MAX_VIOLATIONS:
            point = random.randrange(self.space.points)
            if point in found or not self._admits(point):
                missed += 1
                continue
            missed = 0
            found.add(point)
            yield point
        if not found:
            raise self._nothing()

    def _nothing(self) -> ParameterError:
        return ParameterError(
            f"no point of the space meets {' and '.join(map(repr, self.restrictions.texts))}; relax the restrictions"
        )

    def _predict(self, points: Sequence[int]) -> None:
        variants = [self.space.variant(point, self.build) for point in points]
        of_name = {variant.name: point for variant, point in zip(variants, points, strict=True)}
        cascade = self.predicted(variants)
        for name, estimate in cascade.estimates.items():
            if 0 < float(estimate) < inf:
                self.estimates[of_name[name]] = estimate
            else:
                self.failures[of_name[name]] = f"the predicted time is {float(estimate):g} s; the fit does not apply"
        self.bounds |= {of_name[name]: seconds for name, seconds in cascade.lower_bounds.items() if 0 < seconds < inf}
        self.failures |= {of_name[name]: reason for name, reason in cascade.failures.items()}
