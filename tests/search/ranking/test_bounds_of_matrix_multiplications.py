"""The cascade on real variants finds the same fastest ones as the simulator alone and simulates fewer."""

from functools import partial

import pytest
from ranking_sets.matrix_multiplication import FORMS, matrix_multiplication

import loopyperf as lpp

OPTIONS = {"n": 1024, "device": "nvidia-titan-v", "model": "pipeline"}


@pytest.mark.slow
def test_bounds_find_the_fastest_matrix_multiplications():
    variants = {form.label: partial(matrix_multiplication, form) for form in FORMS}
    every = lpp.rank(variants, **OPTIONS)
    found = lpp.rank(variants, **OPTIONS, bounds=["roofline"], top=3)
    assert list(found.seconds.items()) == list(every.seconds.items())[:3]
    assert found.failures == every.failures
    assert {*found.order, *(each.name for each in found.beaten)} == {*every.order}
    assert found.notes == ()
    # The bound alone ruled out some variants.
    assert any(each.bound == "roofline" for each in found.beaten)
    assert all(each.at_least <= every.seconds[each.name] * (1 + 1e-9) for each in found.beaten)
