"""A learned model: the table that it was trained with, and what makes a regressor of it again.

What is kept is no regressor but its lesson: features, targets, classes, and hyper-parameters. Teaching it anew takes
milliseconds for ε-SVR and seconds for trees, depends on no pickle, and is the same wherever the same version of
scikit-learn is.

What learns a correction from features: ε-SVR, and boosted trees beside it as the check that SVR is worth it.

Each is a pipeline of scikit-learn that begins with scaling: features without any spread are left out, the others have
mean 0 and variance 1. Hyper-parameters are those with the least mean absolute error of kernel classes left out.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import msgspec
import numpy as np

from loopyperf.calibration.accuracy import quantile, splits
from loopyperf.calibration.fit_library import PREFERRED
from loopyperf.calibration.fits import Fit, Provenance, path_of
from loopyperf.calibration.problem import Matrix, Vector
from loopyperf.device.device_files import device_slug
from loopyperf.device.device_library import is_one_device
from loopyperf.display import ReportText, Shown, Table
from loopyperf.errors import CalibrationError, FitFileError, LoopyperfError, later_schema
from loopyperf.files import Amount, Document, Number, Whole, file_names, read_document, user_data, write_document
from loopyperf.models.residual_regression import Features
from loopyperf.models.result import LEVEL
from loopyperf.units import in_percent

Parameters = Mapping[str, float]
"""hyper-parameter -> value"""


class Regressor(Protocol):
    """What has learned a number from features."""

    def predict(self, features: Matrix) -> Vector:
        """Return the number for each row of *features*."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way to learn."""

    summary: str
    grid: Mapping[str, Sequence[float]]
    """the values of each hyper-parameter that are tried"""


RECIPES: Mapping[str, Recipe] = {
    "svr": Recipe(
        "ε-SVR with a Gaussian kernel (Dao)",
        {"C": (0.1, 0.3, 1.0), "gamma": (0.005, 0.02, 0.08), "epsilon": (0.02, 0.1)},
    ),
    "trees": Recipe(
        "the mean of boosters of trees",
        {"n_estimators": (60,), "max_depth": (2, 4)},
    ),
}
"""by name"""
FIXED: Mapping[str, Any] = {
    "loss": "huber",
    "learning_rate": 0.06,
    "max_features": "sqrt",
    "min_samples_leaf": 5,
    "random_state": 0,
}
"""parameters of boosters that are not searched for: a loss as robust as that of SVR, and the same trees at each call"""
BOOSTERS = 10
"""that differ in which features their splits may take, and whose mean is what trees say: which kernel of a group one of
them has for the fastest is a matter of chance (titan-v: a mean regret of 1.14 to 1.58 by seed)"""
SEED = 0
"""that boosters have their own seeds from"""
SEARCHED = 5
"""folds in which hyper-parameters are judged, where there are so many classes"""
STEP = "learner"
"""the last step of the pipeline"""


def check_recipe(name: str) -> None:
    """Raise :class:`CalibrationError` for what is no way to learn."""
    if name not in RECIPES:
        raise CalibrationError(f"nothing learns by {name!r}; there are: {', '.join(RECIPES)}")


def taught(name: str, parameters: Parameters, features: Matrix, targets: Vector) -> Regressor:
    """Return the regressor called *name* with these hyper-parameters, taught *targets*: the same at each call.

    Where no feature differs from row to row, it says the median of *targets*, whatever it is asked.
    """
    check_recipe(name)
    if not _has_spread(features):
        return _imported("sklearn.dummy").DummyRegressor(strategy="median").fit(features, targets)
    learner = _learner(name, parameters)
    if name == "trees":
        learner = _imported("sklearn.ensemble").BaggingRegressor(learner, BOOSTERS, bootstrap=False, random_state=SEED)
    return _pipeline(learner).fit(features, targets)


def searched(name: str, features: Matrix, targets: Vector, classes: Sequence[str]) -> dict[str, float]:
    """Return the hyper-parameters that best predict *targets* of classes that were left out.

    They are the middle ones where so few rows are left that no feature differs among them. Those of trees are judged by
    one booster, since more would take as many times as long. Raises :class:`CalibrationError` for fewer than two
    classes.
    """
    check_recipe(name)
    folds = splits(classes, SEARCHED)
    if not all(_has_spread(features[known]) for known, _ in folds):
        return {parameter: values[len(values) // 2] for parameter, values in RECIPES[name].grid.items()}
    model_selection = _imported("sklearn.model_selection")
    search = model_selection.GridSearchCV(
        _pipeline(_learner(name, {})),
        {f"{STEP}__{parameter}": list(values) for parameter, values in RECIPES[name].grid.items()},
        cv=folds,
        scoring="neg_mean_absolute_error",
        refit=False,
        error_score="raise",
    )
    search.fit(features, targets)
    return {key.removeprefix(f"{STEP}__"): value for key, value in search.best_params_.items()}


def _has_spread(features: Matrix) -> bool:
    """Return whether any feature differs from row to row."""
    return bool((np.ptp(features, axis=0) > 0).any() and (features.var(axis=0) > 0).any())


def _learner(name: str, parameters: Parameters) -> Any:
    if name == "svr":
        return _imported("sklearn.svm").SVR(**parameters)
    return _imported("sklearn.ensemble").GradientBoostingRegressor(**FIXED, **parameters)


def _pipeline(learner: Any) -> Any:
    without_spread = _imported("sklearn.feature_selection").VarianceThreshold()
    scaling = _imported("sklearn.preprocessing").StandardScaler()
    steps = [("spread", without_spread), ("scaling", scaling), (STEP, learner)]
    return _imported("sklearn.pipeline").Pipeline(steps)


def _imported(module: str) -> Any:
    """Return a module of scikit-learn, which is in the extra ``learn``."""
    try:
        return cast("Any", importlib.import_module(module))
    except ImportError as error:
        raise LoopyperfError(
            f"learned models need scikit-learn ({error}); install it: pip install 'loopyperf[learn]'"
        ) from error


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


class TrainingRecord(msgspec.Struct, frozen=True):
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
    """what learns (:data:`loopyperf.calibration.residual_model.RECIPES`)"""
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
    rows: Annotated[tuple[TrainingRecord, ...], msgspec.Meta(min_length=1)]
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
class ResidualModel(Shown):
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

    def report_text(self) -> ReportText:
        """Return what was learned of what, and how well it does on kernels left out."""
        scores = [
            (name, in_percent(score.median_log_error, 1), in_percent(score.explained))
            for name, score in self.record.scores.items()
        ]
        return ReportText(
            question=f"learned model of {self.record.slug}",
            answer=self._taught(),
            tables=[Table(("on classes left out", "median error", "explained"), scores)],
            remarks=[f"source: {self.record.source}"] if self.record.source else [],
        )

    def _taught(self) -> str:
        record = self.record
        classes = len({row.kernel_class for row in record.rows})
        return f"{record.recipe} on {record.base}, from {len(record.rows)} measurements of {classes} classes"


# {{{ files of learned models
#
# The training table and what makes a regressor of it, as JSON, the schema version first.


SCHEMA = 1
"""Version of the files of learned models that this loopyperf writes and reads."""
_TRAIN = "give the path of a learned model, or train one with `loopyperf train`"


def save_residual_model(learned: ResidualModel, path: str | os.PathLike[str]) -> None:
    """Write *learned* to *path*, making its folder; whoever reads meanwhile finds the old file or the new one, whole.

    Raises :class:`FitFileError` for a number in it that is not finite, and for a file that cannot be written.
    """
    write_document(residual_document(learned), Path(path), "learned model")


def residual_document(learned: ResidualModel) -> Document:
    """Return what the file of *learned* holds, as plain values."""
    return {"schema": SCHEMA, **cast("Document", msgspec.to_builtins(learned.record, order="deterministic"))}


def load_residual_model(path: str | os.PathLike[str]) -> ResidualModel:
    """Return the learned model in the file at *path*, which is taught anew when it is first asked.

    Raises :class:`FitFileError` for a file that is missing, corrupt, none of a learned model, or of a later loopyperf.
    """
    source = Path(path_of(path))
    found = read_document(source, "learned model", _TRAIN)
    document = dict(cast("Document", found)) if isinstance(found, dict) else Document()
    version = document.pop("schema", None)
    if type(version) is int and version > SCHEMA:
        raise FitFileError(later_schema(source, version, SCHEMA))
    try:
        record = msgspec.convert(document, Record)
    except (msgspec.ValidationError, ValueError) as error:
        raise FitFileError(f"{source} does not hold a learned model: {error!s:.300}; {_TRAIN}") from error
    if version != SCHEMA or record.model != "learned":
        raise FitFileError(
            f"{source} does not hold a learned model, but schema {version!r} of {record.model!r:.80}; {_TRAIN}"
        )
    return ResidualModel(record)


def own_residual_models(device: str, backend: str = "") -> Path:
    """Return where a person's own learned model of *device* is; it need not exist.

    *backend* is what was measured through; that of others than :data:`PREFERRED` is in the name of the file.
    """
    through = "" if backend in ("", PREFERRED) else f".{device_slug(backend)}"
    return user_data() / "learned" / f"{device_slug(device)}{through}.json"


def find_residual_model(device: str, backend: str = "") -> ResidualModel:
    """Return a person's own learned model of *device*, of *backend* where there is one; else of the preferred one.

    It may lie under any name of the device. Raises :class:`FitFileError` where there is none.
    """
    slug = device_slug(device)
    folder = own_residual_models(slug).parent
    known = [folder / name for name in file_names(folder) if name.endswith(".json")]
    found = [each for each in known if is_one_device(each.name.partition(".")[0], slug)]
    best = [own_residual_models(slug, backend).name, own_residual_models(slug).name]
    if not found:
        raise FitFileError(f"there is no learned model of the device {slug!r}; {_TRAIN}")
    return load_residual_model(min(found, key=lambda each: best.index(each.name) if each.name in best else len(best)))


# }}}
