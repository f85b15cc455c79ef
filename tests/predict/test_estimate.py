"""What goes into an estimate and what comes out: sizes, kernels, notes."""

import gc
import pickle
import weakref
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.calibration.problem import Indistinguishable
from loopyperf.errors import KernelError, ParameterError, UnboundedDomainError
from loopyperf.predict.by_counts import UNTRIED
from loopyperf.stages import case
from tests.kernels import doubled, outer_product, summed, triangle

KERNEL = doubled()
OUTER = outer_product()


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    return make_fit()


# {{{ sizes


def test_the_estimate_is_the_weighted_sum_of_counts(fit):
    # 1000 multiplications of 1 ns and a launch of 1 µs
    assert lpp.estimate(KERNEL, n=1000, fit=fit).seconds == pytest.approx(2e-6, rel=1e-15)  # products are rounded


@pytest.mark.parametrize("size", [np.int64(1000), np.int32(1000), np.uint8(200)])
def test_numpy_integers_are_integers(fit, size):
    assert lpp.estimate(KERNEL, n=size, fit=fit).seconds == lpp.estimate(KERNEL, n=int(size), fit=fit).seconds


def test_a_huge_size_is_exact(fit):
    estimate = lpp.estimate(KERNEL, n=10**30 + 1, fit=fit)
    assert [row.count for row in estimate.breakdown.rows if row.property == "f32 mul"] == [10**30 + 1]


def test_a_size_beyond_floating_point_is_refused(fit):
    with pytest.raises(ParameterError, match="a count exceeds the largest floating-point number"):
        lpp.estimate(KERNEL, n=10**400, fit=fit)


@pytest.mark.parametrize("name", ["model", "device", "fit", "counting", "parameters"])
def test_a_size_named_like_an_option_goes_through_parameters(fit, name):
    collides = lpp.estimate(doubled(size=name), parameters={name: 1000}, fit=fit)
    assert collides.sizes == {name: 1000}
    assert collides.seconds == lpp.estimate(KERNEL, n=1000, fit=fit).seconds


def test_a_size_called_program_is_a_keyword_like_others(fit):
    assert lpp.estimate(doubled(size="program"), program=1000, fit=fit).sizes == {"program": 1000}


def test_keywords_and_parameters_complete_each_other(fit):
    both = lpp.estimate(OUTER, n=10, parameters={"m": 16}, fit=fit)
    assert both.seconds == lpp.estimate(OUTER, n=10, m=16, fit=fit).seconds


def test_a_size_given_twice_is_refused(fit):
    with pytest.raises(ParameterError, match="size 'n' is given twice, as a keyword and in parameters"):
        lpp.estimate(KERNEL, n=16, parameters={"n": 16}, fit=fit)


def test_a_missing_size_is_refused_naming_it(fit):
    with pytest.raises(ParameterError, match="missing size n"):
        lpp.estimate(KERNEL, fit=fit)


def test_a_superfluous_size_is_refused_naming_it_and_those_there_are(fit):
    with pytest.raises(ParameterError, match=r"superfluous size k\b.*\bn$"):
        lpp.estimate(KERNEL, n=16, k=3, fit=fit)


@pytest.mark.parametrize("size", [16.0, "16", None, True, [16, 32], 1 + 0j])
def test_a_size_that_is_no_integer_is_refused(fit, size):
    with pytest.raises(ParameterError, match="size n must be an integer, got"):
        lpp.estimate(KERNEL, n=size, fit=fit)


@pytest.mark.parametrize("size", [-1, 0])
def test_a_size_outside_the_kernels_assumptions_is_refused(fit, size):
    with pytest.raises(ParameterError, match=f"n={size} violates the kernel's assumptions: n >= 1"):
        lpp.estimate(KERNEL, n=size, fit=fit)


# }}}


# {{{ batches


def test_a_batch_has_the_time_of_each_size(fit):
    sizes = np.array([1, 17, 1000, 12345])
    batch = lpp.estimate(KERNEL, n=sizes, fit=fit)
    alone = [lpp.estimate(KERNEL, n=int(size), fit=fit).seconds for size in sizes]
    assert batch.seconds == pytest.approx(alone, rel=1e-15)  # sums of two terms, rounded in another order


def test_sizes_broadcast(fit):
    batch = lpp.estimate(OUTER, n=np.array([[1], [2]]), m=np.array([16, 32, 48]), fit=fit)
    alone = [[float(lpp.estimate(OUTER, n=n, m=m, fit=fit)) for m in (16, 32, 48)] for n in (1, 2)]
    assert batch.seconds == pytest.approx(np.array(alone), rel=1e-15)  # as above


def test_a_number_among_arrays_is_every_ones(fit):
    batch = lpp.estimate(OUTER, n=2, m=np.array([16, 32]), fit=fit)
    assert (
        batch.seconds.tolist()
        == lpp.estimate(OUTER, n=np.array([2, 2]), m=np.array([16, 32]), fit=fit).seconds.tolist()
    )


def test_a_batch_whose_time_depends_on_no_size_has_its_shape(make_fit):
    free = dict.fromkeys(lpp.count(KERNEL).properties(), 0.0)
    only_launches = make_fit(weights={**free, "launches": 1e-6})
    assert lpp.estimate(KERNEL, n=np.array([1, 2, 3]), fit=only_launches).seconds.tolist() == [1e-6] * 3


def test_a_batch_for_a_kernel_that_ignores_the_size_has_its_shape(fit):
    knl = lp.make_kernel(
        "{[i]: 0 <= i < 16}",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a,b", np.float32, shape="16"), lp.ValueArg("n", np.int32)],
        lang_version=(2018, 2),
    )
    assert lpp.estimate(knl, n=np.array([1, 2, 3]), fit=fit).seconds == pytest.approx(
        [1.016e-6] * 3, rel=1e-15
    )  # rounding


def test_an_empty_batch_is_empty(fit):
    batch = lpp.estimate(KERNEL, n=np.array([], dtype=np.int64), fit=fit)
    assert batch.seconds.tolist() == []
    assert str(batch).splitlines()[0].endswith(": 0 run times")


def test_a_batch_of_huge_sizes_has_floating_point_times(fit):
    batch = lpp.estimate(KERNEL, n=np.array([10**30, 10**31], dtype=object), fit=fit)
    assert batch.seconds.dtype == np.float64
    assert batch.seconds == pytest.approx([1e21, 1e22], rel=1e-12)  # the launch and rounding


def test_arrays_that_do_not_broadcast_are_refused_with_their_shapes(fit):
    with pytest.raises(ParameterError, match=r"must broadcast together, got shapes n \(2,\), m \(3,\)"):
        lpp.estimate(OUTER, n=np.array([1, 2]), m=np.array([16, 32, 48]), fit=fit)


def test_a_batch_with_one_inadmissible_size_is_refused_naming_it(fit):
    with pytest.raises(ParameterError, match="n=-3 violates the kernel's assumptions"):
        lpp.estimate(KERNEL, n=np.array([16, -3, 32]), fit=fit)


def test_a_batch_of_fractions_is_refused(fit):
    with pytest.raises(ParameterError, match="sizes n must be integers"):
        lpp.estimate(KERNEL, n=np.array([1.5, 2]), fit=fit)


# }}}


# {{{ kernels


def test_a_kernel_without_types_is_refused_saying_how_to_state_them(fit):
    untyped = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", lang_version=(2018, 2))
    with pytest.raises(KernelError, match="add_and_infer_dtypes"):
        lpp.estimate(untyped, n=16, fit=fit)


def test_a_kernel_without_bounds_is_refused(fit):
    endless = lp.make_kernel(
        "{[i]: 0 <= i}", "b[i] = 2.0", [lp.GlobalArg("b", np.float32, shape=None)], lang_version=(2018, 2)
    )
    with pytest.raises(UnboundedDomainError):
        lpp.estimate(endless, fit=fit)


def test_what_is_no_kernel_is_refused(fit):
    with pytest.raises(KernelError, match="expected a loopy TranslationUnit or LoopKernel, got str"):
        lpp.estimate("matmul", n=16, fit=fit)


def test_a_loop_kernel_will_do(fit):
    assert lpp.estimate(KERNEL.default_entrypoint, n=64, fit=fit).seconds == lpp.estimate(KERNEL, n=64, fit=fit).seconds


def test_a_kernel_is_prepared_and_counted_once(fit, monkeypatch):
    prepared = []
    load_kernel = case.load_kernel
    monkeypatch.setattr(case, "load_kernel", lambda program: prepared.append(1) or load_kernel(program))
    knl = doubled()
    for n in (16, 17, 18):
        lpp.estimate(knl, n=n, fit=fit)
        lpp.estimate(knl, n=n, fit=fit, counting="paper")
    assert prepared == [1]
    assert lpp.count(knl) is lpp.count(knl)


def test_a_kernel_is_forgotten_with_its_last_reference(fit):
    knl = doubled()
    lpp.count(knl)
    known, program = set(case._analyses), weakref.ref(knl)
    assert object.__hash__(knl) in known
    del knl
    gc.collect()
    assert program() is None
    assert len(case._analyses) < len(known)


# }}}


# {{{ notes


def test_an_estimate_without_doubts_says_no_more_than_why_it_has_no_interval(make_fit):
    names = lpp.count(KERNEL).properties()
    assert lpp.estimate(KERNEL, n=16, fit=make_fit(weights=dict.fromkeys(names, 1e-9))).notes == (UNTRIED,)


def test_a_property_without_a_weight_is_noted(make_fit):
    names = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    del names["global store 32-bit stride 1"]
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=names))
    assert estimate.notes == ("no weight for 'global store 32-bit stride 1' in the fit; assumed 0", UNTRIED)
    assert " ".join(str(estimate).split()).endswith(" ".join(f"note: {note}" for note in estimate.notes))


def test_another_counting_than_the_fits_is_noted(make_fit):
    weights = dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)
    estimate = lpp.estimate(KERNEL, n=16, fit=make_fit(weights=weights), counting="paper")
    assert estimate.counting == "paper"
    said = "the fit uses 'executed' counts, but this prediction uses 'paper' counts"
    assert estimate.notes == (said, UNTRIED)


def test_the_counting_is_the_fits_own(make_fit):
    assert lpp.estimate(KERNEL, n=16, fit=make_fit(counting="paper")).counting == "paper"


def test_an_unknown_counting_is_refused(fit):
    with pytest.raises(ParameterError, match="unknown counting 'exact'; choose one of: paper, executed"):
        lpp.estimate(KERNEL, n=16, fit=fit, counting="exact")


@pytest.fixture
def tied(make_fit) -> lpp.Fit:
    """A fit to kernels with 16 multiplications in each work-group, which left multiplications without a weight."""
    weights = {**dict.fromkeys(lpp.count(KERNEL).properties(), 1e-9)}
    del weights["f32 mul"]
    tie = Indistinguishable(left_out={"f32 mul": {"work-groups": 16.0}}, mismatch=0.0)
    return make_fit(weights=weights, undetermined=(tie,))


def test_a_tie_that_holds_is_no_matter(tied):
    # 160 multiplications in 10 groups of 16
    assert lpp.estimate(KERNEL, n=160, fit=tied).notes == (UNTRIED,)


def test_a_broken_tie_is_noted_with_what_it_was(tied):
    # 17 multiplications in 2 groups
    assert lpp.estimate(KERNEL, n=17, fit=tied).notes == (
        "the weight of 'f32 mul' is undetermined: the calibration kernels have 16 × 'work-groups', here 32, "
        "but this kernel has 17",
        UNTRIED,
    )


@pytest.mark.parametrize(("sizes", "doubted"), [([17, 160], [17]), ([160, 17], [17]), ([17, 16, 18], [17, 18])])
def test_a_tie_that_breaks_at_an_end_of_a_batch_is_noted(tied, sizes, doubted):
    *notes, why = lpp.estimate(KERNEL, n=np.array(sizes), fit=tied).notes
    assert why == UNTRIED
    assert [int(note.rpartition(" ")[2]) for note in notes] == doubted


def test_a_tie_that_holds_at_both_ends_of_a_batch_is_not_noted(tied):
    assert lpp.estimate(KERNEL, n=np.array([16, 160]), fit=tied).notes == (UNTRIED,)


def test_an_empty_batch_has_no_doubts(tied):
    assert lpp.estimate(KERNEL, n=np.array([], dtype=np.int64), fit=tied).notes == (UNTRIED,)


# }}}


@pytest.mark.parametrize("size", [-4, np.int64(-4), np.array([4, -4])])
def test_an_extent_cannot_be_negative(size: Any) -> None:
    unit = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = 2*a[i]",
        [lp.GlobalArg("a,out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        lang_version=(2018, 2),
    )
    with pytest.raises(ParameterError, match="n=-4 violates the kernel's assumptions: n >= 0"):
        lpp.estimate(unit, n=size, device="amd-r9-fury")


def test_an_offset_may_be_negative() -> None:
    unit = lp.make_kernel(
        "{[i]: first <= i < 8}",
        "out[i - first] = 2.0f",
        [lp.GlobalArg("out", np.float32, shape="16"), lp.ValueArg("first", np.int32)],
        assumptions="first >= -8 and first <= 8",
        lang_version=(2018, 2),
    )
    assert lpp.count(unit).properties()["global store 32-bit stride 0"](first=-4) == 12
    assert float(lpp.estimate(unit, first=-4, device="amd-r9-fury", model="roofline")) > 0


# {{{ seconds first, the reason when somebody looks


def conditional() -> lp.TranslationUnit:
    """b[i] = 2 a[i] where m[i] > 0: how often that is, data decides, so that counts are rounded."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 2*a[i] {if=m[i] > 0}",
        [lp.GlobalArg("a,b,m", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="conditional",
        assumptions="n >= 1",
        lang_version=(2018, 2),
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


def test_the_seconds_that_come_first_are_those_of_the_explanation(subtests: pytest.Subtests, make_fit):
    for kernel, typical in [(doubled(), None), (triangle(), None), (summed(3), None), (conditional(), {"insn": 0.3})]:
        for size in [1, 100, 12345]:
            with subtests.test(kernel=kernel, typical=typical, size=size):
                found = lpp.estimate(kernel, n=size, fit=make_fit(weights=WEIGHTS), typical=typical)
                assert found.seconds == sum(row.seconds for row in found.breakdown.rows)
                assert found.seconds == sum(found.breakdown.by_property().values())
                sizes = np.array([size, 2 * size])
                batch = lpp.estimate(kernel, n=sizes, fit=make_fit(weights=WEIGHTS), typical=typical)
                assert (batch.seconds == sum(row.seconds for row in batch.breakdown.rows)).all()


def test_nobody_works_out_an_explanation_that_is_not_asked_for(make_fit, monkeypatch):
    def costly(*_: Any) -> None:
        raise AssertionError("this is costly")

    fit = make_fit(weights=WEIGHTS)
    expected = lpp.estimate(KERNEL, n=100, fit=fit)
    notes = expected.notes
    monkeypatch.setattr("loopyperf.predict.by_counts.prediction_interval", costly)
    found = lpp.estimate(KERNEL, n=100, fit=fit)
    assert (float(found), found.model, found.sizes) == (float(expected), "linear", {"n": 100})
    with pytest.raises(AssertionError, match="costly"):
        _ = found.notes
    monkeypatch.undo()
    assert found.notes == notes
    assert found == expected


def test_an_estimate_travels_with_its_explanation(make_fit):
    found = lpp.estimate(KERNEL, n=100, fit=make_fit(weights=WEIGHTS))
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.breakdown.rows


def test_an_estimate_has_no_other_attributes(make_fit):
    with pytest.raises(AttributeError, match="no attribute 'minutes'"):
        _ = lpp.estimate(KERNEL, n=100, fit=make_fit()).minutes


# }}}
