"""What learns a correction from features: ε-SVR, and boosted trees beside it as the check that SVR is worth it.

Each is a pipeline of scikit-learn that begins with scaling: features without any spread are left out, the others have
mean 0 and variance 1. Hyper-parameters are those with the least mean absolute error of kernel classes left out.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from loopyperf.calibration.accuracy import splits
from loopyperf.calibration.problem import Matrix, Vector
from loopyperf.errors import CalibrationError, LoopyperfError

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
