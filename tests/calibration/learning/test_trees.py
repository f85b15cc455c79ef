"""Test the accuracy of boosted trees, whose training is slow."""

import numpy as np
import pytest

from loopyperf.calibration import residual_model as regressors
from loopyperf.calibration.problem import Vector
from loopyperf.calibration.training import Lesson, cross_validated, scores, unfitted_base
from tests.synthetic_training_sets import examples

pytest.importorskip("sklearn", reason="the extra learn")
pytestmark = pytest.mark.slow
BASE = unfitted_base("made up")


def test_trees_learn_systematic_errors_but_less_than_svr():
    rows = examples()
    found = scores(rows, cross_validated(BASE, rows))
    assert found["trees"].explained > 0.5
    # The correction is a smooth function of two features, which suits an SVR.
    assert found["svr"].median_log_error < found["trees"].median_log_error


def test_averaging_boosters_reduces_dependence_on_the_seed(monkeypatch: pytest.MonkeyPatch):
    # The mean of ten boosters scatters 1/√10 as much as one booster. Eight seeds estimate the scatter to about a third.
    lesson = Lesson.of(BASE, examples())

    def scatter(boosters: int) -> float:
        monkeypatch.setattr(regressors, "BOOSTERS", boosters)
        predictions: list[Vector] = []
        for seed in range(8):
            monkeypatch.setattr(regressors, "SEED", seed)
            predictions.append(lesson.trained("trees", {"max_depth": 2, "n_estimators": 60}).predict(lesson.features))
        return float(np.std(predictions, axis=0).mean())

    assert scatter(regressors.BOOSTERS) < 0.45 * scatter(1)
