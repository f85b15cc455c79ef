"""Tunings on a synthetic device, whose times are computed, and once on a real one."""

from collections.abc import Callable
from functools import partial
from math import log2
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ArchiveError, BackendError, MeasurementError, ParameterError
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.search.measuring import ROUNDS
from tests.kernels import floats, integers, make_kernel
from tests.measurement.synthetic import SyntheticBackend

SPACE = {"group": (16, 32, 64, 128, 256), "factor": (1, 2, 4)}
V100 = {"device": "nvidia-v100", "model": "roofline", "n": 2**16}


def built(group: int, factor: int = 1, error: int = 0) -> lp.TranslationUnit:
    """b[i] = 2 a[i] + error, *factor* elements of a work-item."""
    knl = make_kernel(
        "{[i]: 0 <= i < n}",
        f"b[i] = 2*a[i] + {error}",
        floats("a,b", "n"),
        integers("n"),
        name="doubled",
        assumptions="n >= 1 and n mod 1024 = 0",
    )
    knl = lp.split_iname(knl, "i", group * factor, outer_tag="g.0")
    return lp.split_iname(knl, "i_inner", group, inner_tag="l.0")


def actual(choice: dict[str, int]) -> float:
    """Return seconds on the synthetic device: least for groups of 64 with a factor of 2."""
    return 1e-3 * (1 + abs(log2(choice["group"] / 64)) / 3 + abs(log2(choice["factor"] / 2)) / 7)


def seconds(case: BenchmarkCase) -> float:
    pairs = (each.split("=") for each in case.configuration.label.split(", "))
    return actual({name: int(value) for name, value in pairs})


tuned, edited = partial(lpp.tune, built, SPACE, **V100), built


def test_fastest_point_is_found_and_measured_again_in_turns(tmp_path: Path):
    backend = SyntheticBackend(seconds)
    found = tuned(backend=backend, state=tmp_path / "state.jsonl")
    assert found.choice == {"group": 64, "factor": 2}
    assert found.seconds == pytest.approx(1e-3)
    assert found.leaders[0].name == found.name == "group=64, factor=2"
    assert lp.generate_code_v2(found.kernel).device_code() == lp.generate_code_v2(built(64, 2)).device_code()
    assert (found.points, found.predicted, found.failures) == (15, 15, {})
    takes = [each for each in read_archive(tmp_path / "state.jsonl").measurements if each.label == found.name]
    assert [each.attempt for each in takes] == [1, *range(2, ROUNDS + 2)]
    # the trail tells the points in the order of measurement, with the regret that remained before each
    assert [step.name for step in found.trail] == list(dict.fromkeys(label for _, label, _, _ in backend.calls))
    assert found.trail[0].regret == np.inf
    assert found.regret <= 0.02 if found.ended == "regret" else len(found.trail) == 15


def test_slow_points_run_less_often():
    backend = SyntheticBackend(lambda case: seconds(case) if "group=64" in case.configuration.label else 1.0)
    tuned(backend=backend)
    runs: dict[str, int] = {}
    for _, label, _, number in backend.calls:
        runs[label] = runs.get(label, 0) + number
    later = list(runs)[list(runs).index(next(each for each in runs if "group=64" in each)) + 1 :]
    assert {runs[label] for label in later if "group=64" not in label} == {3}


def test_budget_is_kept_and_reported():
    found = tuned(backend=SyntheticBackend(seconds), budget=2, regret=0.0)
    assert (len(found.trail), found.ended) == (2, "budget")
    assert "  ended: the budget is spent" in str(found)


def test_killed_tuning_goes_on_where_it_ended(tmp_path: Path):
    state = tmp_path / "state.jsonl"
    whole = tuned(backend=SyntheticBackend(seconds), regret=0.0, state=tmp_path / "whole.jsonl")
    calls = 0

    def lost(case: BenchmarkCase) -> float:
        nonlocal calls
        calls += 1
        if calls > 12:
            raise BackendError("the device is gone")
        return seconds(case)

    with pytest.raises(BackendError, match="gone"):
        tuned(backend=SyntheticBackend(lost), regret=0.0, state=state)
    known = {each.label for each in read_archive(state).measurements if each.kind == "measurement"}
    assert 0 < len(known) < 15
    again = SyntheticBackend(seconds)
    found = tuned(backend=again, regret=0.0, state=state)
    assert [step.name for step in found.trail] == [step.name for step in whole.trail]
    first = next(step.name for step in found.trail)
    leaders = {each.name for each in found.leaders}
    # nothing is measured twice but the leaders; the first point runs once for its results
    assert {label for _, label, _, _ in again.calls} & known <= leaders | {first}


def test_state_of_another_space_is_refused(tmp_path: Path):
    state = tmp_path / "state.jsonl"
    tuned(backend=SyntheticBackend(seconds), budget=1, state=state)
    with pytest.raises(ArchiveError, match="state of another space"):
        lpp.tune(built, {**SPACE, "factor": (1, 2)}, backend=SyntheticBackend(seconds), state=state, **V100)


def test_state_with_times_of_an_edited_kernel_is_refused(tmp_path: Path):
    state = tmp_path / "state.jsonl"
    tuned(backend=SyntheticBackend(seconds), budget=2, regret=0.0, state=state)
    before = state.read_bytes()

    def built(**choice: int) -> lp.TranslationUnit:
        return edited(**choice, error=1)

    built.__qualname__ = edited.__qualname__
    with pytest.raises(ArchiveError, match="has the time of another kernel at group="):
        lpp.tune(built, SPACE, backend=SyntheticBackend(seconds), budget=3, regret=0.0, state=state, **V100)
    assert state.read_bytes().startswith(before)
    assert len(read_archive(state).decisions) == 2


def test_point_that_fails_is_a_row_with_its_reason():
    def failing(case: BenchmarkCase) -> float:
        if "group=64" in case.configuration.label:
            raise MeasurementError("out of resources")
        return seconds(case)

    found = tuned(backend=SyntheticBackend(failing), regret=0.0)
    assert {step.name for step in found.trail if step.reason == "out of resources"} == {
        f"group=64, factor={factor}" for factor in (1, 2, 4)
    }
    assert found.choice["group"] != 64
    assert " ".join(str(found).split()).count("out of resources") == 1


def test_space_of_which_nothing_can_be_measured_is_an_error():
    def failing(case: BenchmarkCase) -> float:
        raise MeasurementError("out of resources")

    with pytest.raises(ParameterError, match="none of 15 points could be measured: out of resources"):
        tuned(backend=SyntheticBackend(failing))
    # in a larger space, it ends after some
    with pytest.raises(ParameterError, match="none of 16 points could be measured: out of resources"):
        lpp.tune(built, {**SPACE, "error": range(4)}, backend=SyntheticBackend(failing), **V100)


def test_without_a_backend_it_is_a_search():
    found = tuned()
    assert found.ended == "no backend"
    assert found.trail == found.leaders == ()
    best = lpp.search(built, SPACE, **V100)
    assert found.seconds == pytest.approx(best.seconds)
    assert "nothing was measured" in str(found)
    with pytest.raises(ParameterError, match="state= keeps measurements, but nothing is measured without backend="):
        tuned(state="state.jsonl")


def of_rows(group: int) -> lp.TranslationUnit:
    """y[i] = Σₖ a[k] over row i of a sparse matrix."""
    knl = make_kernel(
        ["{[i]: 0 <= i < n}", "[first, last] -> {[k]: first <= k < last}"],
        """
        for i
            <> first = start[i]
            <> last = start[i + 1]
            y[i] = sum(k, a[k])
        end
        """,
        floats("a", "n"),
        floats("y", "n"),
        lp.GlobalArg("start", np.int32, shape="n + 1"),
        integers("n"),
        assumptions="n >= 64 and n mod 64 = 0",
        seq_dependencies=True,
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def nothing() -> dict[str, float]:
    return {}


def test_typical_values_and_arguments_may_be_functions_of_the_choices():
    requested: list[int] = []

    def typical(group: int) -> dict[str, float]:
        return {"k": 1000 * group}

    def arguments(group: int) -> dict[str, object]:
        requested.append(group)
        return {"start": np.arange(65, dtype=np.int32)}

    options = {**V100, "n": 64, "backend": SyntheticBackend(lambda _: 1e-3), "regret": 0.0, "probability": 0.9999}
    space = {"group": (32, 64)}
    found = lpp.tune(of_rows, space, typical=typical, arguments=arguments, **options)
    assert set(requested) == {step.choice["group"] for step in found.trail} == {32, 64}
    predicted = {step.choice["group"]: step.predicted for step in found.trail}
    # one group of 64 with twice the iterations instead of two groups of 32 on two cores
    assert predicted[64] / predicted[32] == pytest.approx(4, rel=0.02)
    assert not any("assumed 0" in note for note in found.notes)
    generated = lpp.tune(of_rows, space, typical=typical, **options)
    assert "no arguments given for start; assumed 0" in generated.notes
    with pytest.raises(ParameterError, match=r"nothing failed \(TypeError\): .*unexpected keyword argument 'group'"):
        lpp.tune(of_rows, space, typical=nothing, **options)


def test_restrictions_are_expressions_or_functions():
    def small(group: int, factor: int) -> bool:
        return group * factor <= 64

    as_text, as_function = tuned(restrictions="group*factor <= 64"), tuned(restrictions=[small])
    assert as_text.points == as_function.points == 6
    assert as_text.choice == as_function.choice


@pytest.mark.parametrize(
    ("restriction", "reason"),
    [
        ("group > 1024", "no point of the space meets 'group > 1024'"),
        ("tile > 4", "names 'tile', but the space has group, factor"),
        ("group >", "must be a Python expression"),
        ("group % (factor - 1) == 0", "failed at group=16, factor=1: ZeroDivisionError"),
    ],
)
def test_wrong_restriction_is_refused(restriction: str, reason: str):
    with pytest.raises(ParameterError, match=reason.replace("(", r"\(")):
        tuned(restrictions=restriction)


def test_large_space_is_explored_around_the_best():
    def of(group: int, **others: int) -> lp.TranslationUnit:
        return built(group, others["a"])

    space = {"group": (16, 32, 64, 128, 256, 512), "a": (1, 2, 4, 8), **{name: range(10) for name in "bcde"}}
    found = lpp.tune(of, space, predictions=60, seed=1, **V100)
    assert found.points is None
    assert found.predicted <= 60
    best = lpp.search(built, {"group": space["group"], "factor": space["a"]}, **V100)
    assert found.seconds == pytest.approx(best.seconds)


def wrong_for(group: int) -> Callable[..., lp.TranslationUnit]:
    def build(**choice: int) -> lp.TranslationUnit:
        return built(**choice, error=int(choice["group"] == group))

    return build


def test_results_are_compared_on_a_real_device(tmp_path: Path):
    pytest.importorskip("pyopencl")
    options = {**V100, "n": 4096, "backend": "opencl", "regret": 0.0}
    space = {"group": (16, 32), "factor": (1, 2)}
    of_first = lpp.tune(wrong_for(32), space, **options)
    assert sum("array b is wrong" in step.reason for step in of_first.trail) == 2
    a = np.random.default_rng(1).random(4096, np.float32)
    right = lpp.tune(wrong_for(32), space, **options, arguments={"a": a}, reference={"b": 2 * a})
    assert {step.choice["group"] for step in right.trail if step.reason} == {32}
    # a wrong reference leaves a state that goes on with the right one
    given = {**options, "state": tmp_path / "state.jsonl"}
    with pytest.raises(ParameterError, match="shape"):
        lpp.tune(built, space, **given, reference={"b": np.zeros(7, np.float32)})
    again = lpp.tune(built, space, **given, arguments={"a": a}, reference={"b": 2 * a})
    assert {step.reason for step in again.trail} == {""}
