"""A learned model: the table that it was trained with, and what makes a regressor of it again.

What is kept is no regressor but its lesson: features, targets, classes, and hyper-parameters. Teaching it anew takes
milliseconds for ε-SVR and seconds for trees, depends on no pickle, and is the same wherever the same version of
scikit-learn is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
import numpy as np

from loopyperf.calibration.documents import Amount, Number, Whole
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.intervals.uncertainty import quantile
from loopyperf.calibration.learning.regressors import RECIPES, Regressor, taught
from loopyperf.models.features import Features
from loopyperf.models.result import LEVEL
from loopyperf.sheet import Sheet, Shown, Table
from loopyperf.units import in_percent

BASE = "base"
"""the score of the base alone"""
SAMPLED = "sampled"
"""the base that knows samples"""
TARGET = 7.0
"""magnitude of a logarithm that is learned, which is within that of a thousand"""
ERROR = 700.0
"""magnitude of a logarithm of times, of which floating point has the exponential"""
NEAR = 10
"""times what training tries, up or down: a hyper-parameter beyond takes for ever, or says nothing"""


def _is_near(value: float, tried: Sequence[float]) -> bool:
    """Return whether a hyper-parameter is like those that are *tried*, and whole where they are."""
    is_whole = not all(isinstance(each, int) for each in tried) or isinstance(value, int)
    return is_whole and min(tried) / NEAR <= value <= max(tried) * NEAR


class Taught(msgspec.Struct, frozen=True):
    """A row of the training table."""

    kernel_class: str
    """what the kernel is one of"""
    label: str
    """the configuration within its class"""
    seconds: Amount
    """measured"""
    target: Annotated[float, msgspec.Meta(ge=-TARGET, le=TARGET)]
    """ln(seconds over what the base says that has not seen the class)"""
    features: tuple[Number, ...]
    """those told, then the amounts, in the order of their names"""


class Score(msgspec.Struct, frozen=True):
    """How near predictions of kernel classes are that were left out."""

    median_log_error: Amount
    """median |ln(predicted/measured)|"""
    explained: Number
    """share of the squared logarithms that the base leaves over: 1 where nothing is left, 0 for the base itself"""


class Record(Provenance, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file of a learned model holds."""

    base: str
    """the model whose error is learned"""
    fit: Fit | None = None
    """of the base, where that is fitted"""
    recipe: str
    """what learns (:data:`loopyperf.calibration.learning.regressors.RECIPES`)"""
    parameters: Mapping[str, Whole | Amount]
    """its hyper-parameters"""
    told: tuple[str, ...]
    """names of the features that every kernel has"""
    amounts: tuple[str, ...]
    """names of those of which a kernel may have none"""
    scores: Mapping[str, Score]
    """of the base alone and of all that were tried, by name"""
    errors: tuple[Annotated[float, msgspec.Meta(ge=0, le=ERROR)], ...]
    """|ln(predicted/measured)| of all rows when their class was left out, ascending: what intervals are made from"""
    rows: Annotated[tuple[Taught, ...], msgspec.Meta(min_length=1)]
    """the training table"""

    def __post_init__(self) -> None:
        """Refuse rows with another number of features than there are names, and what no recipe can be taught with."""
        if self.recipe not in RECIPES:
            raise ValueError(f"nothing learns by {self.recipe!r}; there are: {', '.join(RECIPES)}")
        grid = RECIPES[self.recipe].grid
        if set(self.parameters) != set(grid) or not all(
            _is_near(value, grid[name]) for name, value in self.parameters.items()
        ):
            raise ValueError(
                f"{self.recipe!r} takes {', '.join(grid)}, up to {NEAR} times what is tried: "
                f"{', '.join(f'{name} {values}' for name, values in grid.items())}; received {dict(self.parameters)}"
            )
        if list(self.errors) != sorted(self.errors):
            raise ValueError("errors must ascend")
        if len({*self.told, *self.amounts}) != len(self.told) + len(self.amounts):
            raise ValueError("a feature stands twice")
        if missing := [name for name in (BASE, self.recipe) if name not in self.scores]:
            raise ValueError(f"there is no score of {' and '.join(missing)}")
        number = len(self.told) + len(self.amounts)
        for row in self.rows:
            if len(row.features) != number:
                raise ValueError(f"{row.kernel_class!r} has {len(row.features)} features, but {number} are named")


@dataclass(frozen=True, repr=False)
class Learned(Shown):
    """A model that corrects another one by what it has learned; made by :func:`loopyperf.train`."""

    record: Record
    """what its file holds: base, recipe, scores, training table"""

    @property
    def model(self) -> str:
        """Return the name of the model, as a fit has it."""
        return self.record.model

    @property
    def slug(self) -> str:
        """Return the short name of the device, as a fit has it."""
        return self.record.slug

    @cached_property
    def regressor(self) -> Regressor:
        """Return what has learned the table; raises :class:`LoopyperfError` where scikit-learn is not installed."""
        record = self.record
        features = np.array([row.features for row in record.rows])
        return taught(record.recipe, record.parameters, features, np.array([row.target for row in record.rows]))

    def correction(self, features: Features) -> float:
        """Return ln(T/T₀) of a kernel; raises :class:`ModelInputError` where a feature is missing."""
        row = features.rounded().vector(self.record.told, self.record.amounts)
        return float(self.regressor.predict(row[None, :])[0])

    @property
    def half_width(self) -> float:
        """Return by how much ln T may be off, with a probability of 80 %; infinity after too few measurements."""
        return quantile(self.record.errors, LEVEL)

    def doubts(self, features: Features) -> tuple[str, ...]:
        """Return what speaks against the correction of a kernel, in sentences."""
        return (*self._of_all(), *self._of(features))

    def _of_all(self) -> Sequence[str]:
        alone, own = (self.record.scores[name].median_log_error for name in (BASE, self.record.recipe))
        if own < alone:
            return ()
        return [
            f"kernels that were left out are predicted no better than by {self.record.base} alone: "
            f"errors of {in_percent(own)} and {in_percent(alone)}"
        ]

    def _of(self, features: Features) -> Sequence[str]:
        found: list[str] = []
        strange = sorted(name for name, value in features.amounts.items() if value and name not in self.record.amounts)
        if strange:
            found.append(f"no kernel of the training set has any {', '.join(strange)}: not seen by the correction")
        table = np.array([row.features for row in self.record.rows])
        asked = features.rounded().vector(self.record.told, self.record.amounts)
        names = (*self.record.told, *self.record.amounts)
        outside = (asked < table.min(axis=0)) | (asked > table.max(axis=0))
        if outside.any():
            listed = ", ".join(name for name, is_outside in zip(names, outside, strict=True) if is_outside)
            found.append(f"beyond the kernels of the training set in {listed}")
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the record alone."""
        return {"record": self.record}

    def sheet(self) -> Sheet:
        """Return what was learned of what, and how well it does on kernels left out."""
        scores = [
            (name, in_percent(score.median_log_error, 1), in_percent(score.explained))
            for name, score in self.record.scores.items()
        ]
        return Sheet(
            asked=f"learned model of {self.record.slug}",
            answer=self._taught(),
            tables=[Table(("on classes left out", "median error", "explained"), scores)],
            remarks=[f"source: {self.record.source}"] if self.record.source else [],
        )

    def _taught(self) -> str:
        record = self.record
        classes = len({row.kernel_class for row in record.rows})
        return f"{record.recipe} on {record.base}, from {len(record.rows)} measurements of {classes} classes"
