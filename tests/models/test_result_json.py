"""Model results as JSON: an exact round trip, and errors on malformed input."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.models.result import Alternative, Answer, Breakdown, BreakdownRow, ModelTime, answer_as_json, read_answer

NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(0, 2**80)
ROWS = st.builds(BreakdownRow, st.text(), st.text(), NUMBERS, NUMBERS, NUMBERS)
TEXTS = st.lists(st.text(), max_size=3).map(tuple)
ALTERNATIVES = st.builds(Alternative, NUMBERS, TEXTS, st.text(), st.text())
TIMES = st.builds(
    ModelTime,
    NUMBERS,
    st.lists(ROWS, max_size=4).map(lambda rows: Breakdown(tuple(rows))),
    TEXTS,
    TEXTS,
    st.none() | st.tuples(NUMBERS, NUMBERS),
    TEXTS,
    st.lists(ALTERNATIVES, max_size=2).map(tuple),
)


@given(st.tuples(st.text(), TIMES))
def test_json_round_trip_is_exact(answer: Answer) -> None:
    assert repr(read_answer(answer_as_json(answer))) == repr(answer)


ANSWER: Answer = ("made_up", ModelTime(1.5, Breakdown((BreakdownRow("f32 mul", "a", 2, 0.75, 1.5),))))


@pytest.mark.parametrize("seconds", [np.float64(1.5), np.array([1.5, 2.5])], ids=["numpy's", "an array"])
def test_numpy_numbers_are_rejected_when_writing(seconds: object) -> None:
    kernel, time = ANSWER
    with pytest.raises(msgspec.ValidationError):
        answer_as_json((kernel, replace(time, seconds=seconds)))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")], ids=["infinite", "no number"])
def test_infinity_and_nan_are_rejected_when_reading(seconds: float) -> None:
    kernel, time = ANSWER
    with pytest.raises(msgspec.ValidationError):
        read_answer(answer_as_json((kernel, replace(time, seconds=seconds))))


@pytest.mark.parametrize(
    "transcript",
    [
        b"",
        b"[]",
        b'["made_up"]',
        b"null",
        answer_as_json(ANSWER)[:-1],
        answer_as_json(ANSWER).replace(b'"seconds":1.5', b'"seconds":"1.5"'),
        answer_as_json(ANSWER).replace(b'"notes":[]', b'"notes":[1]'),
        answer_as_json(ANSWER).replace(b'"notes"', b'"further"'),
        answer_as_json(ANSWER).replace(b'"a",2,', b'"a",'),
    ],
)
def test_malformed_results_are_rejected_when_reading(transcript: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_answer(transcript)
