"""Predicted times do not fall when the work grows, except where docs/errata.md gives a reason."""

from itertools import islice

import pytest
from monotone import TOLERANCE, pairs

from tests import sample_and_all

FARTHEST = {
    "roofline": {"rows": 0.33, "trip counts": 0.0, "": 0.0},
    "pipeline": {"rows": 0.33, "trip counts": 0.2, "": 0.06},
    "linear": {"rows": 0.0, "trip counts": 0.0, "": 0.0},
    "overlap": {"rows": 0.33, "trip counts": 0.02, "": 0.0},
}
"""model -> what may reduce a time -> most by which it does (docs/errata.md)"""


@sample_and_all(37)
def test_time_falls_only_for_documented_reasons(subtests: pytest.Subtests, step: int) -> None:
    for pair in islice(pairs(), 0, None, step):
        for device, model, change in pair.changes:
            with subtests.test(pair=str(pair), device=device, model=model):
                assert change >= -TOLERANCE - FARTHEST[model][pair.reason]
