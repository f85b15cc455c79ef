"""Residual models: a regression learns the error of another model from kernel features.

A residual model stores features, targets, classes and hyper-parameters instead of a trained regressor. Training it
again takes milliseconds, needs no pickle, and gives the same result with the same version of scikit-learn.

The regressor is an ε-SVR with a Gaussian kernel (Dao) in a scikit-learn pipeline that starts with scaling: constant
features are dropped, the others get mean 0 and variance 1. The hyper-parameters are those with the minimal mean
absolute error on held-out kernel classes.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast

import msgspec
import numpy as np

from loopyperf.calibration.accuracy import quantile, splits
from loopyperf.calibration.fit_library import PREFERRED
from loopyperf.calibration.fits import Fit, Provenance, path_of
from loopyperf.calibration.problem import Matrix, Vector
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import is_one_device
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import FitFileError, LoopyperfError, brief
from loopyperf.files import (
    Amount,
    Document,
    Number,
    file_names,
    read_document,
    user_data,
    without_schema,
    write_document,
)
from loopyperf.models.residual_regression import Features
from loopyperf.models.result import LEVEL
from loopyperf.units import in_percent

Parameters = Mapping[str, float]
"""hyper-parameter values by name"""


class Regressor(Protocol):
    """A trained regressor."""

    def predict(self, features: Matrix) -> Vector:
        """Return the predicted target for each row of *features*."""
        ...


GRID: Mapping[str, Sequence[float]] = {"C": (0.1, 0.3, 1.0), "gamma": (0.005, 0.02, 0.08), "epsilon": (0.02, 0.1)}
"""candidate values of each hyper-parameter"""
SEARCH_FOLDS = 5
"""maximum number of folds in the search for hyper-parameters"""
STEP = "learner"
"""name of the pipeline's last step"""


def trained_regressor(parameters: Parameters, features: Matrix, targets: Vector) -> Regressor:
    """Return an ε-SVR with these hyper-parameters trained on *targets*; deterministic.

    If all features are constant, it predicts the median of *targets*.
    """
    if not _has_spread(features):
        return _imported("sklearn.dummy").DummyRegressor(strategy="median").fit(features, targets)
    return _pipeline(parameters).fit(features, targets)


def searched(features: Matrix, targets: Vector, classes: Sequence[str]) -> dict[str, float]:
    """Return the hyper-parameters that best predict *targets* of held-out classes.

    With so few rows that a fold's features are all constant, they are the middle candidates. Raises
    :class:`CalibrationError` for fewer than two classes.
    """
    folds = splits(classes, SEARCH_FOLDS)
    if not all(_has_spread(features[known]) for known, _ in folds):
        return {parameter: values[len(values) // 2] for parameter, values in GRID.items()}
    model_selection = _imported("sklearn.model_selection")
    search = model_selection.GridSearchCV(
        _pipeline({}),
        {f"{STEP}__{parameter}": list(values) for parameter, values in GRID.items()},
        cv=folds,
        scoring="neg_mean_absolute_error",
        refit=False,
        error_score="raise",
    )
    search.fit(features, targets)
    return {key.removeprefix(f"{STEP}__"): value for key, value in search.best_params_.items()}


def _has_spread(features: Matrix) -> bool:
    """Return whether any feature varies between rows."""
    return bool((np.ptp(features, axis=0) > 0).any() and (features.var(axis=0) > 0).any())


def _pipeline(parameters: Parameters) -> Any:
    without_spread = _imported("sklearn.feature_selection").VarianceThreshold()
    scaling = _imported("sklearn.preprocessing").StandardScaler()
    learner = _imported("sklearn.svm").SVR(**parameters)
    return _imported("sklearn.pipeline").Pipeline([("spread", without_spread), ("scaling", scaling), (STEP, learner)])


def _imported(module: str) -> Any:
    """Import a module of scikit-learn, which is in the extra ``learn``."""
    try:
        return cast("Any", importlib.import_module(module))
    except ImportError as error:
        raise LoopyperfError(f"residual models need scikit-learn ({error}): pip install 'loopyperf[learn]'") from error


BASE, CORRECTED = "base", "svr"
"""names of the scores of the base model alone and of the corrected one"""
SAMPLED = "sampled"
"""base model that uses samples"""
TARGET = 7.0
"""maximum magnitude of a logarithmic target, just above ln(1000)"""
ERROR = 700.0
"""maximum magnitude of a logarithmic error whose exponential is a finite float"""
MAX_FACTOR = 10
"""maximum factor between valid hyper-parameters and the candidates: beyond, training is endless or useless"""


class TrainingRecord(msgspec.Struct, frozen=True):
    """A row of the training table."""

    kernel_class: str
    """class of the kernel"""
    label: str
    """configuration within its class"""
    seconds: Amount
    """measured run time"""
    target: Annotated[float, msgspec.Meta(ge=-TARGET, le=TARGET)]
    """ln(measured/base), for a base model that was not fitted to the class"""
    features: tuple[Number, ...]
    """features of all kernels, then amounts, in the order of their names"""


class Score(msgspec.Struct, frozen=True):
    """Accuracy on held-out kernel classes."""

    median_log_error: Amount
    """median |ln(predicted/measured)|"""
    explained: Number
    """explained share of the base model's squared logarithmic errors: 1 for exact predictions, 0 for the base itself"""


class Record(Provenance, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Contents of a residual model's file."""

    base: str
    """model whose error is learned"""
    fit: Fit | None = None
    """fit of the base model, if it is fitted"""
    recipe: Literal["svr"] = "svr"
    """regression method"""
    parameters: Mapping[str, Amount]
    """hyper-parameters of the method"""
    told: tuple[str, ...]
    """names of the features that all kernels have"""
    amounts: tuple[str, ...]
    """names of the features that default to 0"""
    scores: Mapping[str, Score]
    """scores of the base model and of the corrected one, by name"""
    errors: tuple[Annotated[float, msgspec.Meta(ge=0, le=ERROR)], ...]
    """|ln(predicted/measured)| of all rows with their class held out, ascending; the data for prediction intervals"""
    rows: Annotated[tuple[TrainingRecord, ...], msgspec.Meta(min_length=1)]
    """the training table"""

    def __post_init__(self) -> None:
        """Require consistent features, hyper-parameters, errors and scores."""
        near = {
            name: min(GRID[name]) / MAX_FACTOR <= value <= max(GRID[name]) * MAX_FACTOR
            for name, value in self.parameters.items()
            if name in GRID
        }
        if self.parameters.keys() != GRID.keys() or not all(near.values()):
            candidates = ", ".join(f"{name} {values}" for name, values in GRID.items())
            raise ValueError(
                f"parameters of {self.recipe!r} must be {', '.join(GRID)}, within a factor of {MAX_FACTOR} of the "
                f"candidates {candidates}; got {dict(self.parameters)}"
            )
        if list(self.errors) != sorted(self.errors):
            raise ValueError("errors must be in ascending order")
        if len({*self.told, *self.amounts}) != len(self.told) + len(self.amounts):
            raise ValueError("feature names must be distinct")
        if missing := [name for name in (BASE, CORRECTED) if name not in self.scores]:
            raise ValueError(f"scores of {' and '.join(missing)} are missing")
        number = len(self.told) + len(self.amounts)
        for row in self.rows:
            if len(row.features) != number:
                raise ValueError(f"{row.kernel_class!r} has {len(row.features)} features, expected {number}")


@dataclass(frozen=True, repr=False)
class ResidualModel(Shown):
    """A model that multiplies another model's prediction by a learned correction.

    :func:`loopyperf.train` and :func:`loopyperf.load_residual_model` return it; ``loopyperf.estimate(..., fit=...)``
    uses it. ``str`` gives a table of its errors on held-out kernel classes. It needs scikit-learn.

    Examples
    --------
    >>> import loopyperf
    >>> learned = loopyperf.load_residual_model("learned.json")  # doctest: +SKIP
    >>> learned.record.scores["svr"].median_log_error  # doctest: +SKIP
    0.09
    >>> loopyperf.estimate(kernel, fit=learned, n=4096)  # doctest: +SKIP
    """

    record: Record
    """contents of the file: base, recipe, scores, training table"""

    @property
    def model(self) -> str:
        """Return the name of the model, as in a fit."""
        return self.record.model

    @property
    def slug(self) -> str:
        """Return the short name of the device, as in a fit."""
        return self.record.slug

    @cached_property
    def regressor(self) -> Regressor:
        """Return the trained regressor; raises :class:`LoopyperfError` if scikit-learn is not installed."""
        record = self.record
        features = np.array([row.features for row in record.rows])
        return trained_regressor(record.parameters, features, np.array([row.target for row in record.rows]))

    def correction(self, features: Features) -> float:
        """Return ln(T/T₀) of a kernel; raises :class:`ModelInputError` if a feature is missing."""
        row = features.rounded().vector(self.record.told, self.record.amounts)
        return float(self.regressor.predict(row[None, :])[0])

    @property
    def half_width(self) -> float:
        """Return the half width of ln T's 80 % interval; infinite with too few measurements."""
        return quantile(self.record.errors, LEVEL)

    def doubts(self, features: Features) -> tuple[str, ...]:
        """Return notes on reasons to doubt the correction of a kernel."""
        found: list[str] = []
        alone, own = (self.record.scores[name].median_log_error for name in (BASE, CORRECTED))
        if own >= alone:
            found.append(
                f"no better than {self.record.base} alone on held-out kernels: "
                f"errors of {in_percent(own)} and {in_percent(alone)}"
            )
        strange = sorted(name for name, value in features.amounts.items() if value and name not in self.record.amounts)
        if strange:
            found.append(f"{', '.join(strange)} not in the training set: ignored by the correction")
        table = np.array([row.features for row in self.record.rows])
        row = features.rounded().vector(self.record.told, self.record.amounts)
        names = (*self.record.told, *self.record.amounts)
        outside = (row < table.min(axis=0)) | (row > table.max(axis=0))
        if outside.any():
            listed = ", ".join(name for name, is_outside in zip(names, outside, strict=True) if is_outside)
            found.append(f"outside the training set's range: {listed}")
        return tuple(found)

    def __getstate__(self) -> dict[str, Any]:
        """Return the pickled state: the record alone."""
        return {"record": self.record}

    def report_text(self) -> ReportText:
        """Return the training data and the errors on held-out kernel classes as report text."""
        scores = [
            (name, in_percent(score.median_log_error, 1), in_percent(score.explained))
            for name, score in self.record.scores.items()
        ]
        record, classes = self.record, len({row.kernel_class for row in self.record.rows})
        return ReportText(
            question=f"residual model of {record.slug}",
            answer=f"{record.recipe} on {record.base}, from {len(record.rows)} measurements of {classes} classes",
            tables=[Table(("on held-out classes", "median error", "explained"), scores)],
            remarks=[f"source: {self.record.source}"] if self.record.source else [],
        )


# {{{ files of residual models: the training table and hyper-parameters as JSON, with the schema version first


SCHEMA = 1
"""Schema version of the residual model files that this version writes and reads."""
_TRAIN = "pass the path of a residual model, or train one with `loopyperf train`"


def save_residual_model(learned: ResidualModel, path: str | os.PathLike[str]) -> None:
    """Write *learned* to a file, creating its folder.

    The file is replaced atomically: a concurrent reader finds the old or the new model.

    Parameters
    ----------
    learned : ResidualModel
        The model to save.
    path : path
        The file, with the extension ``.json``.

    Raises
    ------
    FitFileError
        A number in the model is not finite, or the file cannot be written.

    Examples
    --------
    >>> import loopyperf
    >>> learned = loopyperf.train(rows, device="nvidia-h200")  # doctest: +SKIP
    >>> loopyperf.save_residual_model(learned, "learned.json")  # doctest: +SKIP
    """
    write_document(residual_document(learned), Path(path), "residual model")


def residual_document(learned: ResidualModel) -> Document:
    """Return the contents of *learned*'s file as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(learned.record, order="deterministic"))}


def load_residual_model(path: str | os.PathLike[str]) -> ResidualModel:
    """Load a residual model from a file. Its regressor is trained again on first use.

    Parameters
    ----------
    path : path
        A residual model file, as written by :func:`loopyperf.save_residual_model` or ``loopyperf train``.

    Returns
    -------
    ResidualModel
        The model that corrects its base model.

    Raises
    ------
    FitFileError
        The file is missing, is not a valid residual model, or was written by a later version.

    Examples
    --------
    >>> import loopyperf
    >>> learned = loopyperf.load_residual_model("learned.json")  # doctest: +SKIP
    >>> print(learned)  # doctest: +SKIP
    residual model of nvidia-h200: svr on sampled, from 1118 measurements of 26 classes
    """
    source = Path(path_of(path))
    document = read_document(source, "residual model", _TRAIN)
    try:
        record = msgspec.convert(without_schema(document, source, "residual model", _TRAIN, SCHEMA), Record)
    except ValueError as error:  # msgspec's error is one
        raise FitFileError(f"{source} is not a valid residual model: {brief(error)}; {_TRAIN}") from error
    if record.model != "learned":
        raise FitFileError(f"{source} is not a residual model, but has model {record.model!r:.80}; {_TRAIN}")
    return ResidualModel(record)


def own_residual_models(device: str, backend: str = "") -> Path:
    """Return the path of the user's own residual model for *device*; it may not exist.

    *backend* is the backend of the measurements; one other than :data:`PREFERRED` is part of the file name.
    """
    through = "" if backend in ("", PREFERRED) else f".{device_slug(backend)}"
    return user_data() / "learned" / f"{device_slug(device)}{through}.json"


def find_residual_model(device: str, backend: str = "") -> ResidualModel:
    """Return the user's own residual model for *device* and *backend*, or else the one of the preferred backend.

    It may be stored under any name of the device. Raises :class:`FitFileError` if there is none.
    """
    slug = device_slug(device)
    folder = own_residual_models(slug).parent
    known = [folder / name for name in file_names(folder) if name.endswith(".json")]
    found = [each for each in known if is_one_device(each.name.partition(".")[0], slug)]
    best = [own_residual_models(slug, backend).name, own_residual_models(slug).name]
    if not found:
        raise FitFileError(f"no residual model for device {slug!r}; {_TRAIN}")
    return load_residual_model(min(found, key=lambda each: best.index(each.name) if each.name in best else len(best)))


# }}}
