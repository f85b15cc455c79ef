"""Taking samples and what is made of them, on a device made of arithmetic, and once on PoCL."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import BackendError, ParameterError
from loopyperf.measurement.backends import open_backend
from loopyperf.predict.sampled import samples_of
from loopyperf.stages.case import Case
from loopyperf.stages.samples import LEAST_EVICTED, MOST_EVICTED, SLACK
from tests.kernels import doubled, gathered, outer_product, triangle, two_launches
from tests.parts_backend import HOST, LAUNCH, TICK, PartsBackend

N = 16 * 1000
"""a thousand groups of :func:`doubled`"""


def asked(unit: lp.TranslationUnit, backend: Any, **sizes: Any) -> lpp.Estimate:
    return lpp.estimate(unit, model="sampled", backend=backend, **sizes)


def test_equal_groups_are_predicted_exactly_from_few_of_them():
    backend = PartsBackend()
    found = asked(doubled(), backend, n=N)
    assert found.seconds == pytest.approx(HOST + LAUNCH + 1000 * TICK, rel=1e-12)
    assert found.device == "arithmetic-device-1"
    assert max(groups for _, groups in backend.asked) < 100
    assert found.interval == pytest.approx((found.seconds, found.seconds))
    assert "one run of each takes" in found.notes[-1]


def test_samples_are_twice_and_three_times_what_the_device_runs_at_once():
    backend = PartsBackend(saturation=40)
    (program,) = samples_of(Case(doubled(), {"n": N}), backend, None).programs
    assert (program.samples.groups, program.samples.saturation) == ((80, 120), 40)
    assert program.samples.seconds == (LAUNCH + 80 * TICK, LAUNCH + 120 * TICK)


def test_larger_samples_are_taken_where_a_launch_is_most_of_them():
    # At 80 and 120 groups of a hundredth of a tick, a launch of four ticks: 4.8 and 5.2.
    backend = PartsBackend(seconds=lambda *_: TICK / 100, saturation=40)
    (program,) = samples_of(Case(doubled(), {"n": 100 * N}), backend, None).programs
    first, second = program.samples.seconds
    assert program.samples.groups[0] > 80
    assert second >= 1.25 * first


def test_too_few_groups_are_all_run():
    backend = PartsBackend(saturation=400)
    found = asked(doubled(), backend, n=N)
    assert found.seconds == HOST + LAUNCH + 1000 * TICK
    assert found.notes[0] == "all 1000 groups of doubled were timed: too few to extrapolate from a part"
    assert {groups for _, groups in backend.asked} == {1000}


def test_groups_that_do_more_and_more_are_told_by_their_work():
    # Group g executes 512 g + 320 instructions, each of which takes a 32nd of a tick, and two ticks are for itself.
    backend = PartsBackend(seconds=lambda group, _: TICK * (16 * group[0] + 12), saturation=4)
    found = asked(triangle(), backend, n=N)
    assert found.seconds == pytest.approx(HOST + LAUNCH + TICK * (16 * 499500 + 12000), rel=1e-6)
    (program,) = samples_of(Case(triangle(), {"n": N}), backend, None).programs
    assert len(program.samples.groups) == 4
    assert any("groups of triangle differ" in note for note in found.notes)


def test_each_launch_is_sampled():
    backend = PartsBackend(seconds=lambda _, program: 3 * TICK if program == "pair" else TICK)
    found = asked(two_launches(), backend, n=N)
    assert found.seconds == pytest.approx(HOST + 2 * LAUNCH + (3000 + 500) * TICK, rel=1e-9)
    assert {name for name, _ in backend.asked} == {"pair", "pair_0"}


def test_only_what_the_samples_touch_is_on_the_device_and_the_rest_is_touched_in_between():
    backend = PartsBackend(saturation=40)
    samples_of(Case(doubled(), {"n": 64 * N}), backend, None)
    nothing, contents, *_ = backend.contents
    assert set(nothing.values()) == {0}
    assert set(contents) == {"a", "b"}
    assert 120 * 64 <= contents["a"] < 120 * 64 + 5000
    assert LEAST_EVICTED <= backend.evicted[0] <= MOST_EVICTED
    assert backend.evicted[0] == 2 * 4 * 64 * N - sum(contents.values())


def test_what_other_launches_use_is_touched_in_between_too():
    backend = PartsBackend(saturation=40)
    samples_of(Case(two_launches(), {"n": 64 * N}), backend, None)
    _, *contents = backend.contents
    assert contents[0]["b"] == contents[-1]["a"] == SLACK  # which the one does not touch, and the other does not
    rest = {sum(max(4 * 64 * N - nbytes, 0) for nbytes in each.values()) for each in contents}
    assert set(backend.evicted) == rest


def test_of_what_data_address_a_sample_is_taken_to_touch_all():
    backend = PartsBackend(saturation=40)
    samples_of(Case(gathered(), {"n": 64 * N}), backend, None)
    _, contents, *_ = backend.contents
    assert set(contents) == {"b", "index"}
    assert backend.evicted[0] == 2 * 4 * 64 * N - sum(contents.values())


def test_where_the_description_tells_another_psat_the_larger_is_taken_and_it_is_said():
    v100 = lpp.load_device("nvidia-v100")
    runtime = PartsBackend(saturation=40, name="nvidia-v100")
    found = asked(doubled(), runtime, n=2**20)
    assert runtime.asked[0] == ("doubled", 2 * 32 * v100.cores)
    assert (
        f"doubled: Psat is 40 groups from the runtime, {32 * v100.cores} from device parameters; using the larger"
        in " ".join(str(found).split())
    )
    alike = asked(doubled(), PartsBackend(saturation=32 * v100.cores, name="nvidia-v100"), n=2**20)
    assert "Psat" not in str(alike)


def test_sizes_may_be_arrays():
    found = asked(doubled(), PartsBackend(), n=np.array([N, 2 * N]))
    assert found.seconds == pytest.approx(HOST + LAUNCH + TICK * np.array([1000, 2000]), rel=1e-9)


def test_arguments_that_were_not_given_are_noted_where_they_may_matter():
    assert "no arguments given for index; assumed 0" in asked(gathered(), PartsBackend(), n=N).notes
    given = lpp.estimate(
        gathered(), model="sampled", backend=PartsBackend(), n=64, arguments={"index": np.arange(64, dtype=np.int32)}
    )
    assert not any("no arguments given" in note for note in given.notes)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "pass a backend: 'cuda' or 'opencl'"),
        ({"backend": 3}, "the backend must be"),
        ({"backend": PartsBackend(), "device": "some"}, "an open backend, which already has a device"),
        (
            {"backend": "opencl", "device": lpp.load_device("nvidia-v100")},
            "device must be a part of the name of the device to run on",
        ),
        ({"backend": PartsBackend(), "fit": "x.json"}, "not fitted; drop fit="),
        ({"backend": PartsBackend(), "counting": "paper"}, "drop counting="),
        ({"backend": PartsBackend(), "arguments": {"z": 1}}, "has no argument z; it takes: a, b, n"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(ParameterError, match=says):
        lpp.estimate(doubled(), model="sampled", n=N, **options)


def test_a_backend_that_is_not_there_is_refused():
    with pytest.raises(BackendError, match="unknown backend 'metal'"):
        asked(doubled(), "metal", n=N)


def test_models_that_run_nothing_take_no_backend():
    with pytest.raises(
        ParameterError, match="'roofline' does not execute the kernel; drop backend=, or use model='sampled'"
    ):
        lpp.estimate(doubled(), model="roofline", device="nvidia-v100", backend="opencl", n=N)
    with pytest.raises(
        ParameterError, match="'linear' does not execute the kernel; drop arguments=, or use model='sampled'"
    ):
        lpp.estimate(doubled(), model="linear", device="amd-r9-fury", arguments={}, n=N)


def test_a_kernel_without_groups_has_nothing_to_sample():
    with pytest.raises(ParameterError, match=r"launches no groups at .*; nothing to sample"):
        asked(empty(), PartsBackend(), n=0)


def empty() -> lp.TranslationUnit:
    """b[i] = 1 for i < n, which may be 0."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 1",
        [lp.GlobalArg("b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 0",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"i": "g.0"})


@pytest.mark.parametrize("sizes", [{}, {"n": 1.5}, {"n": 0}, {"n": N, "m": 1}])
def test_sizes_that_the_kernel_does_not_take_are_refused(sizes: dict[str, Any]):
    with pytest.raises(ParameterError):
        asked(doubled(), PartsBackend(), **sizes)


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_a_kernel_is_sampled_on_pocl():
    pytest.importorskip("pyopencl")
    backend: Any = open_backend("opencl")
    found = asked(outer_product(), backend, n=64, m=1024)
    assert found.device == backend.environment.slug
    assert found.seconds > 0
    (program,) = samples_of(Case(outer_product(), {"n": 64, "m": 1024}), backend, None).programs
    assert program.samples.total_groups == 64 * 64
    assert program.samples.saturation == backend.limits.cores


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_types_that_loopy_finds_need_not_be_stated():
    pytest.importorskip("pyopencl")
    unit = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [lp.GlobalArg("a", np.float32, shape="n"), ...])
    unit = lp.split_iname(lp.assume(unit, "n >= 64 and n mod 64 = 0"), "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert asked(unit, open_backend("opencl"), n=64 * 1000).seconds > 0
