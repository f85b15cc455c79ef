"""Answers as plain values: what JSON can hold, whatever numbers the sizes were given as, and what equals what."""

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
    "trace": partial(lpp.trace, doubled(), events=500, **V100),
}


@pytest.mark.parametrize("ask", NUMPY_SIZE.values(), ids=NUMPY_SIZE)
def test_a_size_of_numpys_is_one_of_pythons_in_json(ask: Callable[..., Any]) -> None:
    own, numpys = (ask(n=n) for n in (4096, np.int64(4096)))
    for answers in ("to_dict", "to_json"):
        if hasattr(own, answers):
            assert json.dumps(getattr(numpys, answers)()) == json.dumps(getattr(own, answers)())
    assert hasattr(own, "to_dict") or hasattr(own, "to_json")


def test_comparisons_over_the_occupancy_are_equal_where_all_of_them_is() -> None:
    one, same, other = (
        lpp.compare_occupancies(doubled(), device="nvidia-v100", models=["roofline"], n=n) for n in (4096, 4096, 8192)
    )
    assert one == same != other


def test_estimates_of_a_batch_are_equal_where_all_of_it_is() -> None:
    one, same, other = (
        lpp.estimate(doubled(), device="amd-r9-fury", n=np.array([16, last])) for last in (4096, 4096, 8192)
    )
    assert one == same != other
    assert one != one.to_dict()
    assert one == ANY
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
