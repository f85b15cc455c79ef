"""Recorded applications: calls, sizes, call sites, and what the predictions add up to."""

import csv
import gc
import io
import itertools
import json
import weakref

import loopy as lp
import numpy as np
import pytest
from loopy.target.c.c_execution import CExecutor, CompiledCKernel

import loopyperf as lpp
from loopyperf.applications.record import RecordError, read_record
from loopyperf.applications.recorder import Recorder
from loopyperf.applications.traces import chrome_trace, speedscope
from tests.applications.programs import axpy, in_groups, row_sums

DEVICES = ["nvidia-titan-v", "amd-mi300x"]


def steps(execute, n, number):
    x, y = np.ones(n), np.ones(n)
    for _ in range(number):
        execute(x=x, y=y, s=0.5)
    return y


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Return a profile of 7 steps of 1,000 elements and 2 of 2,000, by Loopy's C target."""
    execute = axpy(lp.ExecutableCTarget()).executor()
    path = tmp_path_factory.mktemp("record") / "app.lpp"
    with lpp.profile(DEVICES, record=path, transform=in_groups, model="pipeline") as profile:
        result = steps(execute, 1000, 7)
        steps(execute, 2000, 2)
    assert result[0] == 1 + 7 * 0.5
    steps(execute, 1000, 1)  # not recorded any more
    return profile


def test_calls_sizes_and_call_sites(profiled):
    (row,) = profiled.result.rows
    assert (row.name, row.calls, row.called) == ("axpy", 9, "axpy(n=1,000..2,000)")
    assert row.site.startswith("test_profile.py:")
    assert row.site.endswith(" steps")
    assert row.here > 0
    assert profiled.result.measured_on == "this processor"


def test_the_row_adds_up_the_estimates_of_its_calls(profiled):
    unit = in_groups(axpy(lp.PyOpenCLTarget()))
    for place, device in enumerate(DEVICES):
        seconds = [lpp.estimate(unit, n=n, device=device, model="pipeline").seconds for n in (1000, 2000)]
        (row,) = profiled.result.rows
        assert row.on[place].seconds == pytest.approx(7 * seconds[0] + 2 * seconds[1], rel=1e-12)
        assert profiled.result.wholes[place].kernels == row.on[place].seconds


def test_operations_and_bytes_of_all_calls(profiled):
    (row,) = profiled.result.rows
    elements = 7 * 1000 + 2 * 2000
    assert (row.flops, row.accessed) == (2 * elements, 3 * 8 * elements)
    assert row.intensity == pytest.approx(1 / 12)


def test_the_parts_of_the_whole_add_up_to_the_wall_clock_time(profiled):
    result = profiled.result
    assert result.here.seconds == pytest.approx(result.seconds, rel=1e-9)
    assert result.covered == 1


def test_a_record_answers_for_other_devices_later(profiled):
    again = lpp.project(profiled.path, ["nvidia-a100"], transform=in_groups, model="roofline")
    assert [row.calls for row in again.rows] == [9]
    assert again.wholes[0].kernels > 0


def test_a_larger_problem(profiled):
    result = lpp.project(profiled.path, ["nvidia-a100"], transform=in_groups, model="pipeline", scale={"n": 1000})
    seconds = [
        lpp.estimate(in_groups(axpy()), n=n, device="nvidia-a100", model="pipeline").seconds for n in (10**6, 2 * 10**6)
    ]
    assert result.wholes[0].kernels == pytest.approx(7 * seconds[0] + 2 * seconds[1])
    with pytest.raises(lpp.ParameterError, match="sizes: n"):
        lpp.project(profiled.path, ["nvidia-a100"], scale={"m": 2})


def test_a_sequential_program_is_not_predicted_as_it_is(profiled):
    result = lpp.project(profiled.path, ["nvidia-a100"])
    (row,) = result.rows
    assert row.on[0].seconds is None
    assert "no parallel loops" in row.on[0].reason
    assert result.covered == 0
    assert result.wholes[0].unknown == row.here


def test_formats(profiled):
    assert json.loads(json.dumps(profiled.result.to_dict()))["rows"][0]["calls"] == 9
    rows = profiled.result.records()
    writer = csv.DictWriter(io.StringIO(), rows[0].keys())
    writer.writerows(rows)
    assert "axpy(n=1,000..2,000)" in str(profiled.result)


def test_traces_add_up_to_the_predicted_time(profiled):
    flames, timeline = speedscope(profiled.result), chrome_trace(profiled.result)
    for place in range(len(DEVICES)):
        kernels = profiled.result.wholes[place].kernels
        assert sum(flames["profiles"][place]["weights"]) == pytest.approx(kernels)
        launches = [each for each in timeline["traceEvents"] if each["ph"] == "X" and each["pid"] == place]
        assert len(launches) == 9
        assert sum(each["dur"] for each in launches) == pytest.approx(kernels * 1e6)
        assert all(a["ts"] + a["dur"] <= b["ts"] * (1 + 1e-9) for a, b in itertools.pairwise(launches))


def test_kernels_can_be_planned_without_running():
    unit = in_groups(axpy())
    result = lpp.project([(unit, {"n": 2**20}, 10)], ["nvidia-titan-v"], model="pipeline")
    one = lpp.estimate(unit, n=2**20, device="nvidia-titan-v", model="pipeline")
    assert result.wholes[0].seconds == pytest.approx(10 * one.seconds)
    assert result.rows[0].on[0].bound == one.bound


def test_equal_programs_of_other_names_are_predicted_once():
    asked = []
    unit = in_groups(axpy())
    renamed = in_groups(lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "y[i] = y[i] + s*x[i]",
        [lp.GlobalArg("x,y", np.float64, shape="n"), lp.ValueArg("s", np.float64), lp.ValueArg("n", np.int32)],
        name="other", assumptions="n >= 1", lang_version=(2018, 2),
    ))  # fmt: skip
    work = [(unit, {"n": 2**20}, 1), (renamed, {"n": 2**20}, 1), (unit, {"n": 2**10}, 1)]
    result = lpp.project(work, ["nvidia-titan-v"], model="roofline", progress=lambda done, of: asked.append(of))
    assert asked == [2, 2]
    assert {row.name: row.on[0].seconds for row in result.rows}.keys() == {"axpy", "other"}


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    cl = pytest.importorskip("pyopencl")
    arrays = pytest.importorskip("pyopencl.array")
    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    execute = row_sums().executor(context)
    host = np.ones((64, 64), np.float32)
    path = tmp_path_factory.mktemp("record") / "app.lpp"
    with lpp.profile(["nvidia-titan-v"], record=path, model="pipeline") as profile:
        a = arrays.to_device(queue, host)
        for _ in range(3):
            _, (b,) = execute(queue, a=a)
        c = b + 2 * b
        arrays.sum(c)
        c.get()
    return profile.result


class TestOfPyopencl:
    """What passes pyopencl: launches with times, arithmetic of arrays, reductions, transfers."""

    def test_rows(self, result):
        calls = {(row.name, row.work): row.calls for row in result.rows}
        assert calls["row_sums", "kernel"] == 3
        assert calls["host to device", "transfer"] == 1
        assert sum(number for (_, work), number in calls.items() if work == "elementwise") == 2
        assert sum(number for (_, work), number in calls.items() if work == "other kernel") == 1

    def test_types_and_sizes_that_the_caller_gives(self, result):
        (row,) = [row for row in result.rows if row.name == "row_sums"]
        assert row.sizes == [{"n": 64}]
        unit = lp.add_dtypes(row_sums(), {"a": np.float32})
        one = lpp.estimate(unit, n=64, device="nvidia-titan-v", model="pipeline")
        assert row.on[0].seconds == pytest.approx(3 * one.seconds)

    def test_kernels_and_blocking_transfers_have_times(self, result):
        assert all(row.here > 0 for row in result.rows)

    def test_transfers_take_their_bytes_over_the_link(self, result):
        (row,) = [row for row in result.rows if row.name == "host to device"]
        assert row.bytes == 64 * 64 * 4
        assert row.on[0].seconds == result.link.latency + row.bytes / result.link.bandwidth

    def test_a_reduction_is_named_with_its_reason(self, result):
        assert any(row.work == "other kernel" and row.on[0].reason for row in result.rows)
        assert result.covered < 1


def test_hooks_leave_no_trace():
    before = CExecutor.__call__, CompiledCKernel.__call__
    with lpp.profile(["nvidia-titan-v"]):
        assert (CExecutor.__call__, CompiledCKernel.__call__) != before
    assert (CExecutor.__call__, CompiledCKernel.__call__) == before


def test_nothing_is_kept_alive(tmp_path):
    recorder = Recorder(tmp_path / "app.lpp", ["app"])
    recorder.start()
    execute = axpy(lp.ExecutableCTarget()).executor()
    x = np.ones(10)
    execute(x=x, y=np.ones(10), s=0.5)
    kept = [weakref.ref(execute), weakref.ref(x)]
    del execute, x
    gc.collect()
    assert [each() for each in kept] == [None, None]
    recorder.stop()


@pytest.mark.parametrize("content", [b"", b"{}\n", b"no\n", b'{"type":"end","seconds":1,"how":"complete"}\n'])
def test_a_file_that_is_no_record(tmp_path, content):
    path = tmp_path / "app.lpp"
    path.write_bytes(content)
    with pytest.raises(RecordError):
        read_record(path)


def test_no_device():
    with pytest.raises(lpp.ParameterError):
        lpp.project([], [])


def test_the_page_has_the_tables_the_call_chains_and_the_explanations(profiled):
    page_of = pytest.importorskip("loopyperf.applications.page").page_of
    page = page_of(profiled.result, DEVICES, in_groups)
    for each in (
        "axpy(n=1,000..2,000)",
        "steps (test_profile.py:",
        "<details><summary>axpy(n=1000)</summary>",
        *DEVICES,
    ):
        assert each in page
    assert "http" not in page.replace('http-equiv="', "")
