"""Test saving, loading, upgrading and validating fit files."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopyperf import files as documents
from loopyperf.calibration.fits import Fit, load_fit, save_fit
from loopyperf.errors import FitFileError
from loopyperf.files import LARGEST
from tests import sample_and_all

SMALLEST = {
    "schema": 2,
    "model": "linear",
    "device": "A",
    "slug": "a",
    "counting": "paper",
    "weights": {"launches": 1.0},
}
"""A file with nothing but the required fields."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a" / "linear.json"


def written(path: Path, contents: bytes | dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(contents if isinstance(contents, bytes) else json.dumps(contents).encode())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(FitFileError) as refused:
        load_fit(path)
    assert str(path) in str(refused.value)
    return str(refused.value)


# {{{ round trip


def test_saved_fit_is_loaded_unchanged(fit: Fit, path: Path):
    save_fit(fit, path)
    assert load_fit(path) == fit


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.floats(-LARGEST, LARGEST), min_size=1), st.text())
def test_any_weights_and_text_are_loaded_exactly(tmp_path_factory, weights: dict[str, float], text: str):
    path = tmp_path_factory.mktemp("fits") / "fit.json"
    fit = Fit(model="linear", device=text, slug="a", counting="paper", weights=weights)
    save_fit(fit, path)
    assert load_fit(path) == fit


def test_optional_fields_may_be_missing(path: Path):
    fit = load_fit(written(path, SMALLEST))
    assert fit == Fit(model="linear", device="A", slug="a", counting="paper", weights={"launches": 1.0})


def test_schema_version_comes_first(fit: Fit, path: Path):
    save_fit(fit, path)
    assert next(iter(json.loads(path.read_text("utf-8")).items())) == ("schema", 2)


def test_equal_fits_make_equal_files(fit: Fit, path: Path):
    reordered = msgspec.structs.replace(fit, weights=dict(reversed(fit.weights.items())))
    save_fit(fit, path)
    save_fit(reordered, path.with_name("other.json"))
    assert path.read_bytes() == path.with_name("other.json").read_bytes()


def test_one_changed_weight_changes_one_line(fit: Fit, path: Path):
    save_fit(fit, path)
    before = path.read_text("utf-8").splitlines()
    save_fit(msgspec.structs.replace(fit, weights={**fit.weights, "f32 add": 1.0}), path)
    after = path.read_text("utf-8").splitlines()
    assert [new for old, new in zip(before, after, strict=True) if old != new] == ['    "f32 add": 1.0,']


# }}}


# {{{ refused files


def test_missing_file_is_refused(path: Path):
    assert "No such file" in refusal(path)
    assert "loopyperf calibrate" in refusal(path)


@sample_and_all(5)
def test_every_truncation_of_a_file_is_refused(fit: Fit, path: Path, step: int):
    save_fit(msgspec.structs.replace(fit, residuals=()), path)
    whole = path.read_bytes()
    for length in range(0, len(whole) - len("}\n") + 1, step):
        assert "is corrupt" in refusal(written(path, whole[:length]))


OVERLAP = {**SMALLEST, "model": "overlap", "sharpness": 2.0}


@pytest.mark.parametrize(
    ("basis", "weights", "named"),
    [
        ("counts", {"f32 add": -1e-12, "launches": 1e-6}, "'f32 add' -1e-12"),
        ("pipelines", {"L1: global": 1.0, "DRAM": -0.5}, "'DRAM' -0.5"),
    ],
)
def test_negative_weights_of_overlapping_costs_are_refused(
    path: Path, basis: str, weights: dict[str, float], named: str
):
    words = refusal(written(path, {**OVERLAP, "basis": basis, "weights": weights}))
    assert f"must be >= 0 in the overlap model, got {named}; " in words
    assert "linear" in words


def test_negative_weights_of_purely_additive_costs_are_accepted(path: Path):
    alone = {"launches": -1e-6, "f32 add": 1e-12}
    assert load_fit(written(path, {**OVERLAP, "weights": alone})).weights == alone
    linear = {"launches": 1e-6, "f32 add": -1e-12}
    assert load_fit(written(path, {**SMALLEST, "weights": linear})).weights == linear


@pytest.mark.parametrize("sharpness", [0.5, -1.0])
def test_sharpness_below_1_is_refused(path: Path, sharpness: float):
    assert f"must be a number >= 1, got {sharpness:g}; " in refusal(written(path, {**OVERLAP, "sharpness": sharpness}))


@pytest.mark.parametrize(
    ("contents", "received"),
    [
        (b"[1]", "list"),
        (b"1.0", "float"),
        (b"{}", "schema None"),
        (b'{"schema": "1"}', "schema '1'"),
        (b'{"schema": true}', "schema True"),
        (b'{"schema": 1.0}', "schema 1.0"),
        (b'{"schema": 1}', "schema 1"),
    ],
)
def test_unknown_schema_is_refused_with_the_received_value(path: Path, contents: bytes, received: str):
    assert f'must be a JSON object with "schema": 2, got {received};' in refusal(written(path, contents))


@pytest.mark.parametrize("field", ["model", "device", "slug", "counting", "weights"])
def test_missing_required_field_is_refused_by_name(path: Path, field: str):
    contents = {name: value for name, value in SMALLEST.items() if name != field}
    assert f"missing required field `{field}`" in refusal(written(path, contents))


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("weights", {}, "length >= 1"),
        ("weights", {"launches": "1"}, "Expected `float`, got `str`"),
        ("weights", {"launches": None}, "Expected `float`, got `null`"),
        ("weights", [1.0], "Expected `object`, got `array`"),
        ("counting", "guessed", "Invalid enum value 'guessed'"),
        ("created", "2026-07-14T12:00:00", "timezone"),
        ("ranges", {"launches": [1]}, "length 2"),
        ("wieghts", {}, "unknown field `wieghts`"),
    ],
)
def test_field_of_the_wrong_type_is_refused_by_name(path: Path, field: str, value: object, complaint: str):
    message = refusal(written(path, {**SMALLEST, field: value}))
    assert complaint in message
    assert field in message


def test_newer_schema_is_refused_with_the_version_that_wrote_it(path: Path):
    message = refusal(written(path, {"schema": 7, "versions": {"loopyperf": "3.2.1"}, "weights": "of another shape"}))
    assert "has schema 7" in message
    assert "reads schemas up to 2" in message
    assert message.endswith("pip install 'loopyperf>=3.2.1'")


@pytest.mark.parametrize("versions", [{}, {"versions": 3}, {"versions": {"loopyperf": 4}}])
def test_newer_schema_without_a_version_asks_for_an_upgrade(path: Path, versions: dict[str, Any]):
    assert refusal(written(path, {"schema": 3, **versions})).endswith("pip install --upgrade loopyperf")


# }}}


# {{{ saving


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("field", ["weights", "residuals"])
def test_non_finite_number_is_not_saved(fit: Fit, path: Path, field: str, number: float):
    save_fit(fit, path)
    before = path.read_bytes()
    non_finite = {
        "weights": {**fit.weights, "f32 add": number},
        "residuals": (msgspec.structs.replace(fit.residuals[0], residual=number),),
    }
    with pytest.raises(FitFileError, match="not finite"):
        save_fit(msgspec.structs.replace(fit, **{field: non_finite[field]}), path)
    assert path.read_bytes() == before


def test_failed_save_keeps_the_old_file_and_no_temporary_files(fit: Fit, path: Path, monkeypatch: pytest.MonkeyPatch):
    save_fit(fit, path)

    def refused(new: str, target: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "replace", refused)
    with pytest.raises(FitFileError, match=rf"{path}: Permission denied; choose"):
        save_fit(msgspec.structs.replace(fit, source="newer"), path)
    assert load_fit(path) == fit
    assert list(path.parent.iterdir()) == [path]


# }}}


# {{{ files from untrusted sources


TOGETHER: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a huge weight": (lambda it: it["weights"].update(launches=-1e308), r"`\$\.weights"),
    "a ragged covariance": (lambda it: it["uncertainty"]["covariance"][0].pop(), r"rows of .* at `\$\.uncertainty`"),
    "a column too few": (lambda it: it["uncertainty"]["columns"].pop(), r"at `\$\.uncertainty`"),
    "a column without weight": (
        lambda it: it["uncertainty"]["columns"].__setitem__(0, "x"),
        "without a weight: x",
    ),
    "a variance below 0": (lambda it: it["uncertainty"]["covariance"][0].__setitem__(0, -1.0), "variances must be >="),
    "scores in no order": (lambda it: it["uncertainty"]["scores"].insert(0, 1e9), "scores must be in ascending order"),
    "no candidate": (lambda it: it["cross_validation"]["classes"][0]["errors"].popitem(), r"at `\$\.cross_validation`"),
    "a strange class": (lambda it: it["cross_validation"]["compared"].append("x"), "must be among the classes, got x"),
    "a range that is none": (lambda it: it["ranges"].update(launches=[2.0, 1.0]), "range of 'launches' must"),
}
"""changes that make a file inconsistent, and a pattern of the location in the error message"""


@pytest.mark.parametrize("what", TOGETHER)
def test_inconsistent_parts_are_refused_with_their_location(what: str, fit: Fit, path: Path):
    save_fit(fit, path)
    document = json.loads(path.read_bytes())
    change, place = TOGETHER[what]
    change(document)
    assert re.search(place, refusal(written(path, document)))


STRICT = {
    "nesting": (b"[" * 5000, "corrupt"),
    "no UTF-8": (b'{"schema":"\xff"}', "corrupt"),
    "no text": (b'{"schema":"\\ud800"}', "corrupt"),
    "no number": (b'{"schema":NaN}', "corrupt"),
    "beyond floats": (b'{"schema":1e999}', "corrupt"),
    "digits": (b'{"schema":' + b"9" * 5000 + b"}", "corrupt"),
    "nothing": (b"", "corrupt"),
}


@pytest.mark.parametrize("what", STRICT)
def test_non_portable_json_is_refused(what: str, path: Path):
    content, word = STRICT[what]
    assert word in refusal(written(path, content))


def test_folders_and_oversized_files_are_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert "Is a directory" in refusal(tmp_path)
    monkeypatch.setattr(documents, "MAX_DOCUMENT_BYTES", 1000)
    assert "it has more than 1,000 bytes" in refusal(Path("/dev/zero"))


# }}}
