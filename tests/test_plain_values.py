"""Results are plain values: JSON of NumPy sizes, and equality."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

import loopyperf as lpp
from tests.kernels import doubled

V100 = {"device": "nvidia-v100"}
NUMPY_SIZE: dict[str, Callable[..., Any]] = {
    "estimate": partial(lpp.estimate, doubled(), device="amd-r9-fury"),
    "estimate by a description": partial(lpp.estimate, doubled(), model="roofline", **V100),
    "rank": partial(lpp.rank, [doubled()], model="roofline", **V100),
    "search": partial(lpp.search, lambda group: doubled(group=group), {"group": (16, 32)}, model="roofline", **V100),
    "compare": partial(lpp.compare, doubled(), models=["roofline"], **V100),
    "compare_occupancies": partial(lpp.compare_occupancies, doubled(), models=["roofline"], **V100),
    "explain": partial(lpp.explain, doubled(), models=["roofline"], **V100),
    "split": partial(lpp.split, doubled(), devices=["nvidia-v100"], model="roofline"),
    "roofline": partial(lpp.roofline, doubled(), **V100),
    "trace": partial(lpp.trace, doubled(), events=500, **V100),
}


@pytest.mark.parametrize("ask", NUMPY_SIZE.values(), ids=NUMPY_SIZE)
def test_numpy_size_gives_the_same_json_as_python_size(ask: Callable[..., Any]) -> None:
    from_python, from_numpy = (ask(n=n) for n in (4096, np.int64(4096)))
    assert json.dumps(from_numpy.to_dict()) == json.dumps(from_python.to_dict())
    fields: dict[str, Any] = from_python.to_dict()
    rows: list[dict[str, Any]] = [row for rows in fields.values() if isinstance(rows, list) for row in rows]
    assert [key for row in (fields, *rows) if isinstance(row, dict) for key in row if " " in key] == []


def test_occupancy_comparisons_compare_by_value() -> None:
    one, same, other = (
        lpp.compare_occupancies(doubled(), device="nvidia-v100", models=["roofline"], n=n) for n in (4096, 4096, 8192)
    )
    assert one == same != other


def test_batch_estimates_compare_by_value() -> None:
    one, same, other = (
        lpp.estimate(doubled(), device="amd-r9-fury", n=np.array([16, last])) for last in (4096, 4096, 8192)
    )
    assert one == same != other
    assert one != one.to_dict()
    assert one == ANY
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
