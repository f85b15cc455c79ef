"""Test the training of residual models, with scores on held-out kernel classes."""

import pickle
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from loopyperf.calibration.fitting import CANDIDATES
from loopyperf.calibration.problem import Observation, Vector
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.calibration.training import (
    Answers,
    Example,
    Lesson,
    cross_validated,
    fitted_base,
    learn,
    out_of_fold,
    scores,
    unfitted_base,
)
from loopyperf.errors import CalibrationError, LoopyperfError, ModelInputError
from loopyperf.models.residual_regression import Features
from tests.synthetic_training_sets import CLASSES, MADE_UP, examples

pytestmark = pytest.mark.skipif(find_spec("sklearn") is None, reason="learned models are in the extra learn")
BASE = unfitted_base("made up")


@pytest.fixture(scope="module")
def learned() -> ResidualModel:
    return learn(MADE_UP, BASE, examples())


def test_systematic_errors_are_learned(learned: ResidualModel):
    found = learned.record.scores
    assert (found["base"].explained, found["base"].median_log_error > 0.3) == (0.0, True)
    assert found["svr"].explained > 0.85
    assert found["svr"].median_log_error < 0.15


def test_unseen_kernel_is_corrected(learned: ResidualModel):
    for row in examples(seed=9, number=12):
        expected = np.log(row.observation.seconds / row.base)
        assert learned.correction(row.features) == pytest.approx(expected, abs=0.3)
    assert 0.02 < learned.half_width < 0.4


def test_shuffling_targets_between_kernels_destroys_the_score():
    rows = examples()
    order = np.random.default_rng(4).permutation(len(rows))
    moved = [row.observation.seconds / row.base for row in rows]
    shuffled = [
        replace(row, observation=replace(row.observation, seconds=row.base * moved[place]))
        for row, place in zip(rows, order, strict=True)
    ]
    found = scores(shuffled, cross_validated(BASE, shuffled))
    assert found["svr"].explained < 0.05
    assert found["svr"].median_log_error > 0.9 * found["base"].median_log_error


def test_class_number_as_a_feature_does_not_help_other_classes():
    # Classes with adjacent numbers have opposite errors. A split by rows instead of classes would learn them from the
    # class number.
    rows = [
        replace(
            row,
            base=row.observation.seconds / float(np.exp((-1) ** place / 2)),
            features=row.features | Features({"who": float(place % CLASSES)}, {}),
        )
        for place, row in enumerate(examples())
    ]
    assert scores(rows, cross_validated(BASE, rows))["svr"].explained < 0.05


def test_hyperparameter_search_uses_held_out_classes(monkeypatch: pytest.MonkeyPatch):
    search = pytest.importorskip("sklearn.model_selection").GridSearchCV
    rows = examples()
    classes = [row.observation.kernel_class for row in rows]
    searches: list[int] = []

    def recording_search(*inputs: object, cv: Sequence[tuple[list[int], list[int]]], **more: object) -> object:
        searches.append(len(cv))
        for known, held_out in cv:
            assert not {classes[place] for place in known} & {classes[place] for place in held_out}
        return search(*inputs, cv=cv, **more)

    monkeypatch.setattr("sklearn.model_selection.GridSearchCV", recording_search)
    Lesson.of(BASE, rows).searched()
    assert searches == [5]


def test_one_kernel_of_each_of_three_classes_suffices():
    rows = [example for example in examples() if example.observation.label in ("0", "1", "2")]
    learned = learn(MADE_UP, BASE, rows)
    assert np.isfinite(learned.correction(rows[0].features))


def test_constant_features_give_the_median_correction():
    constant_rows = [replace(row, features=Features({"u": 1.0}, {})) for row in examples()]
    learned = learn(MADE_UP, BASE, constant_rows)
    targets = [row.target for row in learned.record.rows]
    assert learned.correction(constant_rows[0].features) == pytest.approx(np.median(targets))


class Spy:
    """A base that asserts that it never predicts a class that it was fitted to."""

    name = "spy"

    def fitted(self, rows: Sequence[Example]) -> Answers:
        known = {row.observation.kernel_class for row in rows}

        def answers(inputs: Sequence[Example], /) -> Vector:
            assert known & {row.observation.kernel_class for row in inputs} == set()
            return np.array([row.base for row in inputs])

        return answers


def test_base_never_predicts_a_class_that_it_was_fitted_to():
    rows = examples()
    assert out_of_fold(Spy(), rows).tolist() == [row.base for row in rows]
    cross_validated(Spy(), rows)
    Lesson.of(Spy(), rows)


def test_residuals_of_a_fitted_base_use_fits_to_other_classes():
    rows = [
        Example(Observation(f"class {place % 3}", "", {}, {"launches": 1}, 1e-6 * 2.0 ** (place % 3)), Features({}))
        for place in range(12)
    ]
    base = fitted_base(CANDIDATES[0])
    ratios = out_of_fold(base, rows) / [row.observation.seconds for row in rows]
    # The fit minimizes the relative errors of two of the times 1, 2 and 4 µs; its weight is Σ 1/t over Σ 1/t².
    assert ratios[:3] == pytest.approx([(3 / 4) / (5 / 16), (5 / 4) / (17 / 16) / 2, (3 / 2) / (5 / 4) / 4], rel=1e-3)


def test_rounding_errors_of_the_base_do_not_change_the_model():
    rows = examples()
    other = [replace(row, base=row.base * (1 + 1e-13 * (-1) ** place)) for place, row in enumerate(rows)]
    first, second = (Lesson.of(BASE, each) for each in (rows, other))
    assert [row.base for row in rows] != [row.base for row in other]
    assert first.targets.tolist() == second.targets.tolist()
    parameters = first.searched()
    predictions = [lesson.trained(parameters).predict(first.features).tolist() for lesson in (first, second)]
    assert predictions[0] == predictions[1]


def test_learning_and_pickling_are_reproducible(learned: ResidualModel):
    inputs = examples(seed=5, number=3)[0].features
    again = ResidualModel(learned.record)
    assert again.correction(inputs) == learned.correction(inputs)
    assert pickle.loads(pickle.dumps(learned)) == learned


def test_features_beyond_the_training_set_are_named(learned: ResidualModel):
    (note,) = learned.doubts(Features({"u": 7.0, "idle": 0.0}))
    assert note == "outside the training set's range: u"
    (note,) = learned.doubts(Features({"u": 0.0, "idle": 0.0}, {"f32 special in a group": 1.0, "none": 0.0}))
    assert note == "f32 special in a group not in the training set: ignored by the correction"


def test_model_without_a_gain_adds_a_note(learned: ResidualModel):
    record = learned.record
    poor = {**record.scores, "svr": record.scores["base"]}
    doubts = ResidualModel(
        type(record)(**{**{f: getattr(record, f) for f in record.__struct_fields__}, "scores": poor})
    )
    assert "no better than made up alone on held-out kernels" in doubts.doubts(Features({"u": 0.0, "idle": 0.0}))[0]


def test_missing_feature_is_named(learned: ResidualModel):
    with pytest.raises(ModelInputError, match=r"lacks the features idle of the residual model"):
        learned.correction(Features({"u": 0.0}))


def test_feature_must_be_finite():
    with pytest.raises(ModelInputError, match="'u' must be finite, got nan"):
        Features({"u": float("nan")})


@pytest.mark.parametrize("number", [0, 1, 2])
def test_fewer_than_three_classes_are_refused(number: int):
    rows = [row for row in examples() if int(row.observation.kernel_class[-1]) < number]
    with pytest.raises(CalibrationError, match=f"needs 3 kernel classes or more for cross-validation, got {number}: "):
        learn(MADE_UP, BASE, rows)


def test_error_without_scikit_learn_names_the_extra(learned: ResidualModel, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    with pytest.raises(LoopyperfError, match=r"residual models need scikit-learn .* pip install 'loopyperf\[learn\]'"):
        _ = ResidualModel(learned.record).regressor


def test_missing_base_prediction_is_refused():
    rows = examples()
    with pytest.raises(CalibrationError, match=r"the base model's prediction of 'class 3' \(3; \) is missing"):
        learn(MADE_UP, BASE, [*rows[:3], replace(rows[3], base=None), *rows[4:]])
