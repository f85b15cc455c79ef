"""Tests of running parts of a kernel: some groups of one launch, on part of the memory."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from loopyperf.errors import MeasurementError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase, BoundParts, DeviceProgram, RunsParts, beginning

from .launched_kernels import RELAXATION, REVERSAL
from .synthetic import configuration

pytestmark = pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")


@pytest.fixture(scope="module")
def backend() -> Any:
    pytest.importorskip("pyopencl")
    return open_backend("opencl")


def test_programs_have_the_grids_of_their_launches_in_order():
    launches = [("a", (4, 1), 8), ("b", (2, 2), 1), ("a", (3, 5), 16)]
    each = [(name, DeviceProgram(name, (grid,), saturation)) for name, grid, saturation in launches]
    found = BoundParts(each, lambda parts, runs, evicted: pytest.fail("nothing is timed")).programs
    assert found == (DeviceProgram("a", ((4, 1), (3, 5)), 16), DeviceProgram("b", ((2, 2),), 1))
    assert (found[0].groups, found[0].extents, found[0].cut((2, 3))) == (19, (4, 5), ((2, 1), (2, 3)))


def test_beginning_of_an_array_is_its_first_bytes_in_memory():
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert beginning(array, 8).view(np.int32).tolist() == [0, 1]
    assert beginning(np.asfortranarray(array), 8).view(np.int32).tolist() == [0, 3]
    assert beginning(array, None).size == 24
    assert beginning(array, 0).size == 1


def test_cpu_runs_one_group_per_core_at_once(backend: Any):
    assert isinstance(backend, RunsParts)
    (program,) = backend.bound(BenchmarkCase("scale", configuration(), {"n": 100}), {}).programs
    assert program == DeviceProgram("scale", ((7,),), backend.limits.cores)


def test_part_runs_with_only_its_own_data_on_the_device(backend: Any):
    # Groups of 16 floats: three of them touch 192 bytes.
    bound = backend.bound(BenchmarkCase("scale", configuration(), {"n": 16_000}), {"a": 192, "b": 192})
    timing = bound.time("scale", [(3,)], 2)
    assert len(timing.wall) == 2
    assert all(0 < device <= wall for device, wall in zip(timing.device, timing.wall, strict=True))


def test_only_the_groups_of_the_part_are_run(backend: Any, monkeypatch: pytest.MonkeyPatch):
    given = {"a": np.ones(64, np.float32), "b": np.zeros(64, np.float32), "n": np.int32(64)}
    case = BenchmarkCase("scale", replace(configuration(), arguments=lambda *_: given), {"n": 64})
    sequence = backend._partly_bound(case, {})
    monkeypatch.setattr(backend, "_partly_bound", lambda *_: sequence)
    backend.bound(case, {}).time("scale", [(2,)], 1, evicted=2**12)
    result = np.empty(64, np.float32)
    cl = pytest.importorskip("pyopencl")
    cl.enqueue_copy(backend._queue, result, sequence.arguments[1])
    assert result.tolist() == [2.0] * 32 + [0.0] * 32


def test_launches_are_selected_by_their_program(backend: Any):
    bound = backend.bound(BenchmarkCase("reversal", REVERSAL, {"n": 64}), {})
    assert [each.grids for each in bound.programs] == [((4,),), ((2,),)]
    second = bound.programs[1].name
    assert len(bound.time(second, [(1,)], 3).wall) == 3


def test_launches_of_a_host_loop_run_together(backend: Any):
    bound = backend.bound(BenchmarkCase("relaxation", RELAXATION, {"n": 64, "steps": 5}), {})
    first, _ = bound.programs
    assert first.grids == ((4,),) * 5
    assert len(bound.time(first.name, [(2,)] * 5, 1).wall) == 1
    with pytest.raises(MeasurementError, match="is launched 5 times and needs as many"):
        bound.time(first.name, [(2,)], 1)


@pytest.mark.parametrize(("program", "grids"), [("nothing", [(1,)]), ("scale", []), ("scale", [(0,)])])
def test_unknown_parts_are_rejected(backend: Any, program: str, grids: list[tuple[int, ...]]):
    bound = backend.bound(BenchmarkCase("scale", configuration(), {"n": 64}), {})
    with pytest.raises(MeasurementError, match=r"no launch of nothing has groups|is launched 1 times"):
        bound.time(program, grids, 1)
