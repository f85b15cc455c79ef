"""Extrapolation from samples, on numbers made by hand."""

from math import sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopyperf.errors import ModelInputError
from loopyperf.models.sampling import LEVEL, SampledProgram, Samples, Work, extrapolated, sampled_time


def samples(groups: tuple[int, ...], seconds: tuple[float, ...], total: int = 100, saturation: int = 10) -> Samples:
    return Samples(groups, seconds, saturation, total)


def seconds_of(known: Samples) -> float:
    """Return the time of all groups if they do equal work."""
    return extrapolated(SampledProgram("k", known)).seconds


def test_extrapolation_matches_the_papers_formula():
    # 3 + (4 - 3)/(30 - 20)·(100 - 20) = 11
    assert seconds_of(samples((20, 30), (3.0, 4.0))) == pytest.approx(11, rel=1e-12)


@given(st.floats(0, 1), st.floats(1e-3, 1), st.integers(31, 10**6))
def test_launch_overhead_and_equal_groups_are_recovered_exactly(launch: float, each: float, total: int):
    found = seconds_of(samples((20, 30), (launch + 20 * each, launch + 30 * each), total))
    # The rounding errors of two numbers, times the factor of the extrapolation.
    assert found == pytest.approx(launch + total * each, rel=1e-9)


def test_fully_sampled_launch_returns_its_measured_time():
    assert seconds_of(samples((20, 30, 100), (3.0, 4.0, 17.0))) == 17


def test_collinear_samples_give_the_same_time_as_two():
    assert seconds_of(samples((20, 30, 40, 60), (3.0, 4.0, 5.0, 7.0))) == pytest.approx(11, rel=1e-12)


def test_all_groups_take_at_least_as_long_as_some():
    assert seconds_of(samples((20, 30), (2.0, 2.0))) == 2
    # The constant c that minimizes (c/4 - 1)² + (c/3 - 1)²: (1/4 + 1/3)/(1/16 + 1/9) = 3.36
    assert seconds_of(samples((20, 30), (4.0, 3.0))) == pytest.approx(3.36, rel=1e-9)


def test_time_follows_the_work_where_groups_differ():
    # 3 + (4 - 3)/(60 - 40)·(1000 - 40) = 51
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((40, 60), 1000))
    assert extrapolated(program).seconds == pytest.approx(51, rel=1e-12)


def test_four_samples_separate_costs_of_launch_group_and_work():
    def seconds(groups: int) -> float:
        return 5 + 2 * groups + 0.25 * groups**2

    counts = (20, 30, 40, 60)
    program = SampledProgram(
        "k", samples(counts, tuple(map(seconds, counts))), Work(tuple(each**2 for each in counts), 10000)
    )
    assert extrapolated(program).seconds == pytest.approx(seconds(100), rel=1e-9)


def test_costs_of_groups_and_of_work_are_not_negative():
    # The samples are linear in the work; a better fit would need a negative cost per group.
    work = Work((400, 900, 1600, 3600), 10000)
    program = SampledProgram("k", samples((20, 30, 40, 60), (1.0, 3.5, 7.2, 18.5)), work)
    assert extrapolated(program).seconds > 18.5
    equal = SampledProgram("k", samples((20, 30, 40, 60), (2.0, 3.0, 4.0, 6.0)), work)
    # 0.1 for each group fits exactly and leaves nothing for the work.
    assert extrapolated(equal).seconds == pytest.approx(10, rel=1e-9)


def test_work_proportional_to_groups_is_no_difference():
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((20e6, 30e6), 100e6))
    assert not program.groups_differ
    assert sampled_time([program]).notes == ()


def test_groups_without_work_are_extrapolated_by_their_number():
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((0, 0), 1000))
    assert program.groups_differ
    assert extrapolated(program).seconds == pytest.approx(11, rel=1e-12)


def test_interval_follows_from_the_scatter_of_samples():
    scatter = 0.01
    found = extrapolated(SampledProgram("k", samples((20, 30), (3.0, 4.0)), scatter=scatter))
    # 11 = 8·4 - 7·3, where each sample has an independent error of a hundredth.
    deviation = scatter * sqrt((8 * 4) ** 2 + (7 * 3) ** 2)
    assert found.half_width == pytest.approx(NormalDist().inv_cdf((1 + LEVEL) / 2) * deviation, rel=1e-9)


def test_samples_off_the_line_widen_the_interval():
    straight = extrapolated(SampledProgram("k", samples((20, 30, 40), (3.0, 4.0, 5.0))))
    bent = extrapolated(SampledProgram("k", samples((20, 30, 40), (3.0, 4.5, 5.0))))
    assert straight.half_width == pytest.approx(0, abs=1e-9)
    assert bent.half_width > 1


def test_kernel_time_is_the_sum_of_programs_and_launching():
    programs = [SampledProgram(name, samples((20, 30), (3.0, 4.0))) for name in ("first", "second")]
    found = sampled_time(programs, launching=0.5)
    assert found.seconds == pytest.approx(22.5, rel=1e-12)
    assert sum(row.seconds for row in found.breakdown.rows) == pytest.approx(found.seconds, rel=1e-14)
    assert found.breakdown.by_property() == pytest.approx({"groups sampled": 8, "other groups": 14, "launching": 0.5})
    assert found.interval is not None
    assert found.interval[0] <= found.seconds <= found.interval[1]


def test_notes_describe_full_launches_and_unequal_groups():
    whole = SampledProgram("small", Samples((7,), (1.0,), 10, 7))
    uneven = SampledProgram("uneven", samples((20, 30), (3.0, 4.0)), Work((40, 60), 1000))
    notes = sampled_time([whole, uneven]).notes
    assert notes[0] == "all 7 groups of small were timed: too few to extrapolate from a part"
    assert "the first 30 are 30.00 % of the groups and do 6.00 % of the work" in notes[1]


@pytest.mark.parametrize(
    ("groups", "seconds", "saturation", "total", "says"),
    [
        ((), (), 1, 9, "got 0 and 0"),
        ((2, 3), (1.0,), 1, 9, "got 2 and 1"),
        ((3, 2), (1.0, 2.0), 1, 9, "numbers of groups must increase"),
        ((2, 2), (1.0, 2.0), 1, 9, "numbers of groups must increase"),
        ((0, 2), (1.0, 2.0), 1, 9, "numbers of groups must increase"),
        ((2, 10), (1.0, 2.0), 1, 9, "to <= 9, the groups of the launch"),
        ((2, 3), (1.0, 0.0), 1, 9, "seconds must be positive"),
        ((2, 3), (1.0, float("nan")), 1, 9, "seconds must be positive"),
        ((2, 3), (1.0, 2.0), 0, 9, "got saturation=0"),
        ((2, 3), (1.0, 2.0), 1, 0, "total_groups=0"),
    ],
)
def test_invalid_samples_raise(
    groups: tuple[int, ...], seconds: tuple[float, ...], saturation: int, total: int, says: str
):
    with pytest.raises(ModelInputError, match=says):
        Samples(groups, seconds, saturation, total)


def test_single_partial_sample_raises():
    with pytest.raises(ModelInputError, match="got one, of 20 of the 100 groups"):
        seconds_of(samples((20,), (3.0,)))


@pytest.mark.parametrize("work", [((3.0, 2.0), 9.0), ((2.0, 3.0), 2.5), ((-1.0, 3.0), 9.0), ((1.0, 3.0), float("inf"))])
def test_decreasing_work_raises(work: tuple[tuple[float, ...], float]):
    with pytest.raises(ModelInputError, match="work must not decrease"):
        Work(*work)


def test_work_of_wrong_length_raises():
    with pytest.raises(ModelInputError, match="got 1 amounts for 2 samples"):
        SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((40,), 1000))
