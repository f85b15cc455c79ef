"""What a fit has no weight for is not in a time, and the headline says so."""

import numpy as np
from kernels import doubled

import loopyperf as lpp

KERNEL = doubled()


def test_a_time_without_something_that_costs_is_said_to_be_at_least_that(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    whole = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names))
    assert (whole.left_out, whole.time_in_words, whole.without) == ((), f"{1e9 * whole.seconds:.3g} ns", "")
    del names["f32 mul"]
    fit = make_fit(weights=names)
    part = lpp.estimate(KERNEL, n=16, fit=fit)
    assert (part.left_out, part.interval, part.to_dict()["left_out"]) == (("f32 mul",), None, ["f32 mul"])
    headline = f"at least {1e9 * part.seconds:.3g} ns (without f32 mul)"
    for shown in (repr(part), str(part).partition("\n")[0], part._repr_html_()):
        assert headline in shown
    batch = lpp.estimate(KERNEL, n=np.array([16, 32]), fit=fit)
    assert "2 run times at least from " in str(batch)
    assert "(without f32 mul)" in repr(batch)


def test_a_time_without_next_to_nothing_is_whole(make_fit):
    # One launch among a million operations.
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["launches"]
    estimate = lpp.estimate(KERNEL, n=2**20, fit=make_fit(weights=names))
    assert (estimate.left_out, len(estimate.notes)) == ((), 1)
