"""What samples tell, on numbers made by hand."""

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
    """Return what all groups take, as if they did the same."""
    return extrapolated(SampledProgram("k", known)).seconds


def test_the_time_of_all_groups_is_that_of_the_papers_formula():
    # 3 + (4 - 3)/(30 - 20)·(100 - 20) = 11
    assert seconds_of(samples((20, 30), (3.0, 4.0))) == pytest.approx(11, rel=1e-12)


@given(st.floats(0, 1), st.floats(1e-3, 1), st.integers(31, 10**6))
def test_a_launch_and_equal_groups_are_told_exactly(launch: float, each: float, total: int):
    found = seconds_of(samples((20, 30), (launch + 20 * each, launch + 30 * each), total))
    # A difference of two numbers that are rounded once each, times how far it is extrapolated.
    assert found == pytest.approx(launch + total * each, rel=1e-9)


def test_all_groups_take_what_they_took_where_all_were_run():
    assert seconds_of(samples((20, 30, 100), (3.0, 4.0, 17.0))) == 17


def test_more_samples_of_a_line_tell_the_same_as_two():
    assert seconds_of(samples((20, 30, 40, 60), (3.0, 4.0, 5.0, 7.0))) == pytest.approx(11, rel=1e-12)


def test_all_groups_take_no_less_than_some():
    assert seconds_of(samples((20, 30), (2.0, 2.0))) == 2
    # A constant c for which (c/4 - 1)² + (c/3 - 1)² is least: (1/4 + 1/3)/(1/16 + 1/9) = 3.36
    assert seconds_of(samples((20, 30), (4.0, 3.0))) == pytest.approx(3.36, rel=1e-9)


def test_the_time_follows_the_work_where_groups_differ():
    # 3 + (4 - 3)/(60 - 40)·(1000 - 40) = 51
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((40, 60), 1000))
    assert extrapolated(program).seconds == pytest.approx(51, rel=1e-12)


def test_of_more_samples_a_launch_a_group_and_its_work_are_told_apart():
    def seconds(groups: int) -> float:
        return 5 + 2 * groups + 0.25 * groups**2

    counts = (20, 30, 40, 60)
    program = SampledProgram(
        "k", samples(counts, tuple(map(seconds, counts))), Work(tuple(each**2 for each in counts), 10000)
    )
    assert extrapolated(program).seconds == pytest.approx(seconds(100), rel=1e-9)


def test_neither_a_group_nor_its_work_takes_negative_time():
    # By work alone the samples are a line; a cost for each group would have to be negative to fit better.
    work = Work((400, 900, 1600, 3600), 10000)
    program = SampledProgram("k", samples((20, 30, 40, 60), (1.0, 3.5, 7.2, 18.5)), work)
    assert extrapolated(program).seconds > 18.5
    alike = SampledProgram("k", samples((20, 30, 40, 60), (2.0, 3.0, 4.0, 6.0)), work)
    # 0.1 for each group fits exactly, and leaves nothing for the work.
    assert extrapolated(alike).seconds == pytest.approx(10, rel=1e-9)


def test_work_in_proportion_to_groups_is_no_difference():
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((20e6, 30e6), 100e6))
    assert not program.groups_differ
    assert sampled_time([program]).notes == ()


def test_groups_without_any_work_are_extrapolated_by_their_number():
    program = SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((0, 0), 1000))
    assert program.groups_differ
    assert extrapolated(program).seconds == pytest.approx(11, rel=1e-12)


def test_the_interval_is_what_scatter_makes_of_the_line():
    scatter = 0.01
    found = extrapolated(SampledProgram("k", samples((20, 30), (3.0, 4.0)), scatter=scatter))
    # 11 = 8·4 - 7·3, of which either sample is off by a hundredth, independently.
    deviation = scatter * sqrt((8 * 4) ** 2 + (7 * 3) ** 2)
    assert found.half_width == pytest.approx(NormalDist().inv_cdf((1 + LEVEL) / 2) * deviation, rel=1e-9)


def test_samples_off_the_line_widen_the_interval():
    straight = extrapolated(SampledProgram("k", samples((20, 30, 40), (3.0, 4.0, 5.0))))
    bent = extrapolated(SampledProgram("k", samples((20, 30, 40), (3.0, 4.5, 5.0))))
    assert straight.half_width == pytest.approx(0, abs=1e-9)
    assert bent.half_width > 1


def test_a_kernel_takes_what_its_programs_and_the_host_take():
    programs = [SampledProgram(name, samples((20, 30), (3.0, 4.0))) for name in ("first", "second")]
    found = sampled_time(programs, launching=0.5)
    assert found.seconds == pytest.approx(22.5, rel=1e-12)
    assert sum(row.seconds for row in found.breakdown.rows) == found.seconds
    assert found.breakdown.by_property() == pytest.approx({"groups sampled": 8, "other groups": 14, "launching": 0.5})
    assert found.interval is not None
    assert found.interval[0] <= found.seconds <= found.interval[1]


def test_what_was_run_and_what_differs_is_noted():
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
def test_samples_that_are_none_are_refused(
    groups: tuple[int, ...], seconds: tuple[float, ...], saturation: int, total: int, says: str
):
    with pytest.raises(ModelInputError, match=says):
        Samples(groups, seconds, saturation, total)


def test_one_sample_of_a_part_is_refused():
    with pytest.raises(ModelInputError, match="got one, of 20 of the 100 groups"):
        seconds_of(samples((20,), (3.0,)))


@pytest.mark.parametrize("work", [((3.0, 2.0), 9.0), ((2.0, 3.0), 2.5), ((-1.0, 3.0), 9.0), ((1.0, 3.0), float("inf"))])
def test_work_that_shrinks_is_refused(work: tuple[tuple[float, ...], float]):
    with pytest.raises(ModelInputError, match="work must not decrease"):
        Work(*work)


def test_work_of_other_samples_is_refused():
    with pytest.raises(ModelInputError, match="got 1 amounts for 2 samples"):
        SampledProgram("k", samples((20, 30), (3.0, 4.0)), Work((40,), 1000))
