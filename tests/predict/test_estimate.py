"""Test `estimate`: sizes, batches, kernels, notes and lazy evaluation."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.problem import Indistinguishable
from loopyperf.errors import KernelError, ParameterError, UnboundedDomainError
from loopyperf.predict.fitted import NOT_VALIDATED
from tests.kernels import doubled, floats, integers, make_kernel, outer_product, summed, triangle

KERNEL = doubled()
OUTER = outer_product()


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    return make_fit()


# {{{ sizes


def test_estimate_is_the_weighted_sum_of_counts(fit):
    # 1000 multiplications of 1 ns and a launch of 1 µs
    assert lpp.estimate(KERNEL, n=1000, fit=fit).seconds == pytest.approx(2e-6, rel=1e-15)  # products are rounded


@pytest.mark.parametrize("size", [np.int64(1000), np.int32(1000), np.uint8(200)])
def test_numpy_integer_sizes_are_accepted(fit, size):
    assert lpp.estimate(KERNEL, n=size, fit=fit).seconds == lpp.estimate(KERNEL, n=int(size), fit=fit).seconds


def test_huge_size_is_exact(fit):
    estimate = lpp.estimate(doubled(dtype=np.int64), n=10**30 + 1, fit=fit)
    assert [row.count for row in estimate.breakdown.rows if row.property == "f32 mul"] == [10**30 + 1]


def test_size_beyond_floating_point_is_refused(fit):
    with pytest.raises(ParameterError, match="a count exceeds the largest floating-point number"):
        lpp.estimate(doubled(dtype=np.int64), n=10**400, fit=fit)


@pytest.mark.parametrize("name", ["model", "device", "fit", "counting", "parameters"])
def test_size_named_like_an_option_goes_through_parameters(fit, name):
    collides = lpp.estimate(doubled(size=name), parameters={name: 1000}, fit=fit)
    assert collides.sizes == {name: 1000}
    assert collides.seconds == lpp.estimate(KERNEL, n=1000, fit=fit).seconds


def test_size_named_program_can_be_a_keyword(fit):
    assert lpp.estimate(doubled(size="program"), program=1000, fit=fit).sizes == {"program": 1000}


def test_keywords_and_parameters_are_combined(fit):
    both = lpp.estimate(OUTER, n=10, parameters={"m": 16}, fit=fit)
    assert both.seconds == lpp.estimate(OUTER, n=10, m=16, fit=fit).seconds


def test_size_given_twice_is_refused(fit):
    with pytest.raises(ParameterError, match="size 'n' is given twice, as a keyword and in parameters"):
        lpp.estimate(KERNEL, n=16, parameters={"n": 16}, fit=fit)


def test_missing_size_is_refused_by_name(fit):
    with pytest.raises(ParameterError, match="missing size n"):
        lpp.estimate(KERNEL, fit=fit)


def test_superfluous_size_is_refused_listing_the_valid_ones(fit):
    with pytest.raises(ParameterError, match=r"no size k\b.*\bn$"):
        lpp.estimate(KERNEL, n=16, k=3, fit=fit)


@pytest.mark.parametrize("size", [16.0, "16", None, True, [16, 32], 1 + 0j])
def test_non_integer_size_is_refused(fit, size):
    with pytest.raises(ParameterError, match="size n must be an integer, got"):
        lpp.estimate(KERNEL, n=size, fit=fit)


@pytest.mark.parametrize("size", [-1, 0])
def test_size_outside_the_kernels_assumptions_is_refused(fit, size):
    with pytest.raises(ParameterError, match=f"n={size} violates the kernel's assumptions: n >= 1"):
        lpp.estimate(KERNEL, n=size, fit=fit)


# }}}


# {{{ batches


def test_batch_has_the_time_of_each_size(fit):
    sizes = np.array([1, 17, 1000, 12345])
    batch = lpp.estimate(KERNEL, n=sizes, fit=fit)
    alone = [lpp.estimate(KERNEL, n=int(size), fit=fit).seconds for size in sizes]
    assert batch.seconds == pytest.approx(alone, rel=1e-15)  # sums of two terms, rounded in another order


def test_sizes_broadcast(fit):
    batch = lpp.estimate(OUTER, n=np.array([[1], [2]]), m=np.array([16, 32, 48]), fit=fit)
    alone = [[float(lpp.estimate(OUTER, n=n, m=m, fit=fit)) for m in (16, 32, 48)] for n in (1, 2)]
    assert batch.seconds == pytest.approx(np.array(alone), rel=1e-15)  # as above


def test_batch_with_a_constant_time_has_the_shape_of_sizes(make_fit):
    free = dict.fromkeys(lpp.count(KERNEL).properties(), 0.0)
    only_launches = make_fit(weights={**free, "launches": 1e-6})
    assert lpp.estimate(KERNEL, n=np.array([1, 2, 3]), fit=only_launches).seconds.tolist() == [1e-6] * 3


def test_batch_of_a_kernel_without_that_size_has_the_shape_of_sizes(fit):
    knl = make_kernel("{[i]: 0 <= i < 16}", "b[i] = 2*a[i]", floats("a,b", "16"), integers("n"))
    assert lpp.estimate(knl, n=np.array([1, 2, 3]), fit=fit).seconds == pytest.approx(
        [1.016e-6] * 3, rel=1e-15
    )  # rounding


def test_empty_batch_is_empty(fit):
    batch = lpp.estimate(KERNEL, n=np.array([], dtype=np.int64), fit=fit)
    assert batch.seconds.tolist() == []
    assert str(batch).splitlines()[0].endswith(": 0 run times")


def test_batch_of_huge_sizes_has_floating_point_times(fit):
    batch = lpp.estimate(doubled(dtype=np.int64), n=np.array([10**30, 10**31], dtype=object), fit=fit)
    assert batch.seconds.dtype == np.float64
    assert batch.seconds == pytest.approx([1e21, 1e22], rel=1e-12)  # tolerance: launch and rounding


def test_arrays_that_do_not_broadcast_are_refused_with_their_shapes(fit):
    with pytest.raises(ParameterError, match=r"must broadcast together, got shapes n \(2,\), m \(3,\)"):
        lpp.estimate(OUTER, n=np.array([1, 2]), m=np.array([16, 32, 48]), fit=fit)


def test_batch_with_an_invalid_size_is_refused_by_name(fit):
    with pytest.raises(ParameterError, match="n=-3 violates the kernel's assumptions"):
        lpp.estimate(KERNEL, n=np.array([16, -3, 32]), fit=fit)


def test_non_integer_batch_is_refused(fit):
    with pytest.raises(ParameterError, match="sizes n must be integers"):
        lpp.estimate(KERNEL, n=np.array([1.5, 2]), fit=fit)


# }}}


# {{{ kernels


def test_kernel_without_types_is_refused_with_a_remedy(fit):
    untyped = make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]")
    with pytest.raises(KernelError, match="add_and_infer_dtypes"):
        lpp.estimate(untyped, n=16, fit=fit)


def test_kernel_without_bounds_is_refused(fit):
    unbounded = make_kernel("{[i]: 0 <= i}", "b[i] = 2.0", floats("b", None))
    with pytest.raises(UnboundedDomainError):
        lpp.estimate(unbounded, fit=fit)


def test_object_that_is_not_a_kernel_is_refused(fit):
    with pytest.raises(KernelError, match="expected a loopy TranslationUnit or LoopKernel, got str"):
        lpp.estimate("matmul", n=16, fit=fit)


def test_loop_kernel_is_accepted(fit):
    assert lpp.estimate(KERNEL.default_entrypoint, n=64, fit=fit).seconds == lpp.estimate(KERNEL, n=64, fit=fit).seconds


# }}}


# {{{ notes


def test_estimate_within_the_fit_has_only_the_interval_note(make_fit):
    names = lpp.count(KERNEL).properties()
    assert lpp.estimate(KERNEL, n=16, fit=make_fit(weights=dict.fromkeys(names, 1e-9))).notes == (NOT_VALIDATED,)


def test_property_without_a_weight_is_noted(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["global store 32-bit stride 1"]
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names))
    assert estimate.notes == ("no weight for 'global store 32-bit stride 1' in the fit; assumed 0", NOT_VALIDATED)
    assert " ".join(str(estimate).split()).endswith(" ".join(f"note: {note}" for note in estimate.notes))


def test_other_counting_than_that_of_the_fit_is_noted(make_fit):
    weights = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights), counting="paper")
    assert estimate.counting == "paper"
    counting_note = "the fit uses 'executed' counts, but this prediction uses 'paper' counts"
    assert estimate.notes == (counting_note, NOT_VALIDATED)


def test_default_counting_is_that_of_the_fit(make_fit):
    assert lpp.estimate(KERNEL, n=16, fit=make_fit(counting="paper")).counting == "paper"


def test_unknown_counting_is_refused(fit):
    with pytest.raises(ParameterError, match="unknown counting 'exact'; choose one of: paper, executed"):
        lpp.estimate(KERNEL, n=16, fit=fit, counting="exact")


@pytest.fixture
def fit_with_dependency(make_fit) -> lpp.Fit:
    """A fit to kernels with 16 multiplications per work-group, which has no separate weight of multiplications."""
    weights = {**dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)}
    del weights["f32 mul"]
    dependency = Indistinguishable(left_out={"f32 mul": {"work-groups": 16.0}}, mismatch=0.0)
    return make_fit(weights=weights, undetermined=(dependency,))


def test_satisfied_dependency_has_no_note(fit_with_dependency):
    # 160 multiplications in 10 groups of 16
    assert lpp.estimate(KERNEL, n=160, fit=fit_with_dependency).notes == (NOT_VALIDATED,)


def test_broken_dependency_is_noted_with_both_counts(fit_with_dependency):
    # 17 multiplications in 2 groups
    assert lpp.estimate(KERNEL, n=17, fit=fit_with_dependency).notes == (
        "the weight of 'f32 mul' is undetermined: the calibration kernels have 16 × 'work-groups', here 32, "
        "but this kernel has 17",
        NOT_VALIDATED,
    )


@pytest.mark.parametrize(("sizes", "doubted"), [([17, 160], [17]), ([160, 17], [17]), ([17, 16, 18], [17, 18])])
def test_dependency_broken_at_an_end_of_a_batch_is_noted(fit_with_dependency, sizes, doubted):
    *notes, why = lpp.estimate(KERNEL, n=np.array(sizes), fit=fit_with_dependency).notes
    assert why == NOT_VALIDATED
    assert [int(note.rpartition(" ")[2]) for note in notes] == doubted


def test_dependency_satisfied_at_both_ends_of_a_batch_has_no_note(fit_with_dependency):
    assert lpp.estimate(KERNEL, n=np.array([16, 160]), fit=fit_with_dependency).notes == (NOT_VALIDATED,)


def test_empty_batch_has_no_dependency_notes(fit_with_dependency):
    assert lpp.estimate(KERNEL, n=np.array([], dtype=np.int64), fit=fit_with_dependency).notes == (NOT_VALIDATED,)


# }}}


@pytest.mark.parametrize("size", [-4, np.int64(-4), np.array([4, -4])])
def test_negative_extent_is_refused(size: Any) -> None:
    unit = make_kernel("{[i]: 0 <= i < n}", "out[i] = 2*a[i]", floats("a,out", "n"), integers("n"))
    with pytest.raises(ParameterError, match="n=-4 violates the kernel's assumptions: n >= 0"):
        lpp.estimate(unit, n=size, device="amd-r9-fury")


def test_negative_offset_is_accepted() -> None:
    unit = make_kernel(
        "{[i]: first <= i < 8}",
        "out[i - first] = 2.0f",
        floats("out", "16"),
        integers("first"),
        assumptions="first >= -8 and first <= 8",
    )
    assert lpp.count(unit).properties()["global store 32-bit stride 0"](first=-4) == 12
    assert float(lpp.estimate(unit, first=-4, device="amd-r9-fury", model="roofline")) > 0


# {{{ lazy evaluation of notes and breakdowns


def conditional() -> lp.TranslationUnit:
    """Return b[i] = 2 a[i] where m[i] > 0. The probability depends on data, so counts are rounded."""
    knl = make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 2*a[i] {if=m[i] > 0}",
        floats("a,b,m", "n"),
        integers("n"),
        name="conditional",
        assumptions="n >= 1",
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


WEIGHTS = {
    "f32 mul": 1.1e-9,
    "f32 add": 0.7e-9,
    "global load 32-bit stride 1": 3.3e-10,
    "global store 32-bit stride 1": 2.9e-10,
    "global min(load, store) 32-bit stride 1": -1.7e-10,
    "work-groups": 5.3e-9,
    "launches": 1.3e-6,
}


def test_seconds_equal_the_sum_of_the_breakdown(subtests: pytest.Subtests, make_fit):
    for kernel, typical in [(doubled(), None), (triangle(), None), (summed(3), None), (conditional(), {"insn": 0.3})]:
        for size in [1, 100, 12345]:
            with subtests.test(kernel=kernel, typical=typical, size=size):
                found = lpp.estimate(kernel, n=size, fit=make_fit(weights=WEIGHTS), typical=typical)
                assert found.seconds == found.breakdown.seconds
                assert found.seconds == pytest.approx(sum(found.breakdown.by_property().values()), rel=1e-13)
                sizes = np.array([size, 2 * size])
                batch = lpp.estimate(kernel, n=sizes, fit=make_fit(weights=WEIGHTS), typical=typical)
                assert batch.seconds == pytest.approx(sum(row.seconds for row in batch.breakdown.rows), rel=1e-13)


def test_notes_and_intervals_are_computed_on_demand(make_fit, monkeypatch):
    def fail_if_called(*_: Any) -> None:
        raise AssertionError("this is costly")

    fit = make_fit(weights=WEIGHTS)
    expected = lpp.estimate(KERNEL, n=100, fit=fit)
    notes = expected.notes
    monkeypatch.setattr("loopyperf.predict.fitted.prediction_interval", fail_if_called)
    found = lpp.estimate(KERNEL, n=100, fit=fit)
    assert (float(found), found.model, found.sizes) == (float(expected), "linear", {"n": 100})
    with pytest.raises(AssertionError, match="costly"):
        _ = found.notes
    monkeypatch.undo()
    assert found.notes == notes
    assert found == expected


def test_unknown_attribute_raises_attribute_error(make_fit):
    with pytest.raises(AttributeError, match="no attribute 'minutes'"):
        _ = lpp.estimate(KERNEL, n=100, fit=make_fit()).minutes


# }}}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: lpp.estimate(doubled(), devise="nvidia-v100", device="nvidia-v100"), "did you mean device"),
        (lambda: lpp.estimate({"a": doubled()}, n=16, device="nvidia-v100"), "use rank"),
        (lambda: lpp.estimate(doubled, n=16, device="nvidia-v100"), "call it"),
    ],
)
def test_a_mistaken_question_gets_a_hint(ask, message: str):
    with pytest.raises(lpp.LoopyperfError, match=message):
        ask()
