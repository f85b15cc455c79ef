"""Test the sampled model: the choice of samples and their extrapolation, on a synthetic device and on PoCL."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import BackendError, ParameterError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.samples import EXTRA_BYTES, MAX_EVICTED, MIN_EVICTED
from loopyperf.predict.sampled import samples_of
from loopyperf.stages.case import Case
from tests.kernels import doubled, floats, gathered, integers, make_kernel, outer_product, triangle, two_launches
from tests.parts_backend import HOST, LAUNCH, TICK, PartsBackend

N = 16 * 1000
"""a size for which :func:`doubled` has 1000 groups"""


def asked(unit: lp.TranslationUnit, backend: Any, **sizes: Any) -> lpp.Estimate:
    return lpp.estimate(unit, model="sampled", backend=backend, **sizes)


def test_equal_groups_are_predicted_exactly_from_a_few():
    backend = PartsBackend()
    found = asked(doubled(), backend, n=N)
    assert found.seconds == pytest.approx(HOST + LAUNCH + 1000 * TICK, rel=1e-12)
    assert found.device == "arithmetic-device-1"
    assert max(groups for _, groups in backend.asked) < 100
    assert found.interval == pytest.approx((found.seconds, found.seconds))
    assert "one run of each takes" in found.notes[-1]


def test_samples_have_two_and_three_times_psat_groups():
    backend = PartsBackend(saturation=40)
    (program,) = samples_of(Case(doubled(), {"n": N}), backend, None).programs
    assert (program.samples.groups, program.samples.saturation) == ((80, 120), 40)
    assert program.samples.seconds == (LAUNCH + 80 * TICK, LAUNCH + 120 * TICK)


def test_samples_are_larger_if_launch_overhead_dominates():
    # With a launch of 4 ticks and groups of 0.01 ticks, samples of 80 and 120 groups would take 4.8 and 5.2 ticks.
    backend = PartsBackend(seconds=lambda *_: TICK / 100, saturation=40)
    (program,) = samples_of(Case(doubled(), {"n": 100 * N}), backend, None).programs
    first, second = program.samples.seconds
    assert program.samples.groups[0] > 80
    assert second >= 1.25 * first


def test_all_groups_run_if_there_are_too_few_to_extrapolate():
    backend = PartsBackend(saturation=400)
    found = asked(doubled(), backend, n=N)
    assert found.seconds == HOST + LAUNCH + 1000 * TICK
    assert found.notes[0] == "all 1000 groups of doubled were timed: too few to extrapolate from a part"
    assert {groups for _, groups in backend.asked} == {1000}


def test_groups_with_increasing_work_are_extrapolated_by_work():
    # Group g executes 512 g + 320 instructions of 1/32 tick each, and takes another 2 ticks.
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


def test_only_sampled_data_is_allocated_and_the_rest_is_evicted():
    backend = PartsBackend(saturation=40)
    samples_of(Case(doubled(), {"n": 64 * N}), backend, None)
    no_contents, contents, *_ = backend.contents
    assert set(no_contents.values()) == {0}
    assert set(contents) == {"a", "b"}
    assert 120 * 64 <= contents["a"] < 120 * 64 + 5000
    assert MIN_EVICTED <= backend.evicted[0] <= MAX_EVICTED
    assert backend.evicted[0] == 2 * 4 * 64 * N - sum(contents.values())


def test_eviction_includes_the_data_of_other_launches():
    backend = PartsBackend(saturation=40)
    samples_of(Case(two_launches(), {"n": 64 * N}), backend, None)
    _, *contents = backend.contents
    # The first launch does not access b, and the last does not access a.
    assert contents[0]["b"] == contents[-1]["a"] == EXTRA_BYTES
    rest = {sum(max(4 * 64 * N - nbytes, 0) for nbytes in each.values()) for each in contents}
    assert set(backend.evicted) == rest


def test_samples_allocate_all_of_indirectly_accessed_arrays():
    backend = PartsBackend(saturation=40)
    samples_of(Case(gathered(), {"n": 64 * N}), backend, None)
    _, contents, *_ = backend.contents
    assert set(contents) == {"b", "index"}
    assert backend.evicted[0] == 2 * 4 * 64 * N - sum(contents.values())


def test_larger_psat_of_runtime_and_parameters_is_used_with_a_note():
    v100 = lpp.load_device("nvidia-v100")
    runtime = PartsBackend(saturation=40, name="nvidia-v100")
    found = asked(doubled(), runtime, n=2**20)
    assert runtime.asked[0] == ("doubled", 2 * 32 * v100.cores)
    assert (
        f"doubled: Psat is 40 groups from the runtime, {32 * v100.cores} from device parameters; using the larger"
        in " ".join(str(found).split())
    )
    with_equal_psat = asked(doubled(), PartsBackend(saturation=32 * v100.cores, name="nvidia-v100"), n=2**20)
    assert "Psat" not in str(with_equal_psat)


def test_sizes_may_be_arrays():
    found = asked(doubled(), PartsBackend(), n=np.array([N, 2 * N]))
    assert found.seconds == pytest.approx(HOST + LAUNCH + TICK * np.array([1000, 2000]), rel=1e-9)


def test_missing_arguments_are_noted_if_they_affect_addresses():
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
def test_invalid_options_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(ParameterError, match=says):
        lpp.estimate(doubled(), model="sampled", n=N, **options)


def test_unknown_backend_is_refused():
    with pytest.raises(BackendError, match="unknown backend 'metal'"):
        asked(doubled(), "metal", n=N)


def test_models_that_do_not_execute_refuse_a_backend():
    with pytest.raises(
        ParameterError, match="'roofline' does not execute the kernel; drop backend=, or use model='sampled'"
    ):
        lpp.estimate(doubled(), model="roofline", device="nvidia-v100", backend="opencl", n=N)
    with pytest.raises(
        ParameterError, match="'linear' does not execute the kernel; drop arguments=, or use model='sampled'"
    ):
        lpp.estimate(doubled(), model="linear", device="amd-r9-fury", arguments={}, n=N)


def test_kernel_without_groups_is_refused():
    with pytest.raises(ParameterError, match=r"launches no groups at .*; nothing to sample"):
        asked(empty(), PartsBackend(), n=0)


def empty() -> lp.TranslationUnit:
    """b[i] = 1 for i < n, which may be 0."""
    knl = make_kernel("{[i]: 0 <= i < n}", "b[i] = 1", floats("b", "n"), integers("n"), assumptions="n >= 0")
    return lp.tag_inames(knl, {"i": "g.0"})


@pytest.mark.parametrize("sizes", [{}, {"n": 1.5}, {"n": 0}, {"n": N, "m": 1}])
def test_missing_or_invalid_sizes_are_refused(sizes: dict[str, Any]):
    with pytest.raises(ParameterError):
        asked(doubled(), PartsBackend(), **sizes)


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_sampling_works_on_pocl():
    pytest.importorskip("pyopencl")
    backend: Any = open_backend("opencl")
    found = asked(outer_product(), backend, n=64, m=1024)
    assert found.device == backend.environment.slug
    assert found.seconds > 0
    (program,) = samples_of(Case(outer_product(), {"n": 64, "m": 1024}), backend, None).programs
    assert program.samples.total_groups == 64 * 64
    assert program.samples.saturation == backend.limits.cores


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_inferred_types_need_not_be_declared():
    pytest.importorskip("pyopencl")
    unit = lp.make_kernel("{[i]: 0 <= i < n}", "b[i] = 2*a[i]", [lp.GlobalArg("a", np.float32, shape="n"), ...])
    unit = lp.split_iname(lp.assume(unit, "n >= 64 and n mod 64 = 0"), "i", 64, outer_tag="g.0", inner_tag="l.0")
    assert asked(unit, open_backend("opencl"), n=64 * 1000).seconds > 0
