"""The cascade on real variants: it finds what the simulator alone does, and asks it less."""

from functools import partial

import pytest
from ranking_sets.matrix_multiplication import FORMS, matrix_multiplication

import loopyperf as lpp

QUESTION = {"n": 1024, "device": "nvidia-titan-v", "model": "pipeline"}


@pytest.mark.slow
def test_bounds_find_the_fastest_matrix_multiplications_of_the_pipeline_model():
    variants = {form.label: partial(matrix_multiplication, form) for form in FORMS}
    every = lpp.rank(variants, **QUESTION)
    found = lpp.rank(variants, **QUESTION, bounds=["roofline"], top=3)
    assert list(found.seconds.items()) == list(every.seconds.items())[:3]
    assert found.failures == every.failures
    assert {*found.order, *(each.name for each in found.beaten)} == {*every.order}
    assert found.notes == ()
    # Of some the bound was enough.
    assert any(each.bound == "roofline" for each in found.beaten)
    assert all(each.at_least <= every.seconds[each.name] * (1 + 1e-9) for each in found.beaten)
