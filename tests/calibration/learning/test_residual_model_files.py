"""Test saving, loading, finding and validating the files of residual models."""

import json
from pathlib import Path

import msgspec
import pytest

from loopyperf.calibration.fits import Fit, load_fit
from loopyperf.calibration.residual_model import (
    Record,
    ResidualModel,
    Score,
    TrainingRecord,
    find_residual_model,
    load_residual_model,
    own_residual_models,
    save_residual_model,
)
from loopyperf.errors import FitFileError
from tests.synthetic_training_sets import MADE_UP


@pytest.fixture
def learned() -> ResidualModel:
    origin = {name: getattr(MADE_UP, name) for name in MADE_UP.__struct_fields__} | {"model": "learned"}
    return ResidualModel(
        Record(
            **origin,
            base="overlap",
            fit=Fit(model="overlap", device="Made Up", slug="made-up", counting="executed", weights={"launches": 1e-6}),
            recipe="svr",
            parameters={"C": 0.3, "gamma": 0.02, "epsilon": 0.1},
            told=("ILP",),
            amounts=("f32 add in a group",),
            scores={"base": Score(0.3, 0.0), "svr": Score(0.2, 0.5)},
            errors=(0.1, 0.2),
            rows=(TrainingRecord("a", "", 1e-3, 0.5, (0.1, 2.0)), TrainingRecord("b", "", 2e-3, -0.5, (0.7, 0.0))),
        )
    )


def test_saved_model_is_loaded_unchanged(learned: ResidualModel, tmp_path: Path):
    save_residual_model(learned, tmp_path / "some" / "model.json")
    assert load_residual_model(tmp_path / "some" / "model.json") == learned
    assert json.loads((tmp_path / "some" / "model.json").read_text())["schema"] == 1


def test_user_model_is_found_by_its_device(learned: ResidualModel):
    with pytest.raises(FitFileError, match="no residual model for device 'made-up'; pass the path of"):
        find_residual_model("Made Up")
    save_residual_model(learned, own_residual_models("Made Up"))
    assert find_residual_model("made-up") == learned


def test_model_of_the_requested_backend_is_found(learned: ResidualModel):
    through_cuda = ResidualModel(msgspec.structs.replace(learned.record, backend="cuda"))
    save_residual_model(through_cuda, own_residual_models("Made Up", "cuda"))
    assert find_residual_model("made-up") == find_residual_model("made-up", "cuda") == through_cuda
    save_residual_model(learned, own_residual_models("Made Up", "opencl"))
    assert find_residual_model("made-up") == find_residual_model("made-up", "opencl") == learned
    assert find_residual_model("made-up", "cuda") == through_cuda


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"recipe": "guessing"}, "Invalid enum value 'guessing'"),
        ({"parameters": {"C": 1.0, "depth": 2}}, "'svr' must be C, gamma, epsilon, within a factor of 10"),
        ({"parameters": {"C": -1.0, "gamma": 0.1, "epsilon": 0.1}}, r"`float` >= 0.0 - at `\$\.parameters"),
        ({"scores": {}}, "scores of base and svr are missing"),
    ],
)
def test_damaged_model_is_refused_on_load(learned: ResidualModel, tmp_path: Path, changes: object, words: str):
    path = tmp_path / "model.json"
    save_residual_model(learned, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(FitFileError, match=words):
        load_residual_model(path)


def test_files_of_another_type_are_refused(learned: ResidualModel, tmp_path: Path):
    path = tmp_path / "model.json"
    with pytest.raises(FitFileError, match="cannot read the residual model file"):
        load_residual_model(path)
    for text, problem in (
        ("{", "is corrupt"),
        ("[]", "is not a residual model file: .* got list"),
        ('{"schema": 2}', "reads schemas up to 1; upgrade: pip install"),
        ('{"schema": 1, "model": "linear"}', "is not a valid residual model"),
    ):
        path.write_text(text)
        with pytest.raises(FitFileError, match=problem):
            load_residual_model(path)
    save_residual_model(learned, path)
    with pytest.raises(FitFileError):
        load_fit(path)


def test_table_with_a_missing_number_is_refused(learned: ResidualModel, tmp_path: Path):
    save_residual_model(learned, tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    document["rows"][1]["features"] = [0.7]
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(FitFileError, match="'b' has 1 features, expected 2"):
        load_residual_model(tmp_path / "model.json")


def test_infinite_number_is_not_saved(learned: ResidualModel, tmp_path: Path):
    record = learned.record
    fields = {name: getattr(record, name) for name in record.__struct_fields__} | {"errors": (float("inf"),)}
    with pytest.raises(FitFileError, match=r"the residual model for .* contains a number that is not finite"):
        save_residual_model(ResidualModel(Record(**fields)), tmp_path / "model.json")
