"""Test divergent lanes: instructions are issued once for lanes together, and once for each fragment apart."""

import pytest

from .branch_decisions import UnknownBranchError, around_calls, by_address
from .cuda_source import CudaSource, DeviceFunction, Parameter

ARRAYS = (Parameter("out", 8, is_pointer=True), Parameter("a", 8, is_pointer=True))
PARAMETERS = (*ARRAYS, Parameter("n", 4, is_pointer=False))


def kernel(body: str, group: int = 32) -> CudaSource:
    """Return a kernel with this *body*, in which x is the index of the work-item in its group."""
    code = f"""
    extern "C" __global__ void __launch_bounds__({group})
    walk(float *__restrict__ out, float const *__restrict__ a, int n)
    {{
        int x = threadIdx.x;
        {body}
    }}"""
    return CudaSource(code, (DeviceFunction("walk", PARAMETERS, lambda _: (4, 1, 1), lambda _: (group, 1, 1)),))


def test_warp_executes_a_loop_as_often_as_its_longest_lane(launch) -> None:
    machine = launch(kernel("#pragma unroll 1\nfor (int i = 0; i < x; ++i) out[32*i + x] = a[x];"))
    tally = machine.run({"n": 0})
    # Lane x executes x iterations: the warp 31, the lanes 0 + 1 + ... + 31 = 496 in total.
    assert (tally["STG"], tally.lanes["STG"]) == (31, 496)


def test_both_branches_of_a_divergent_condition_are_issued(launch) -> None:
    loop = "for (int i = 0; i < n; ++i)"
    sides = f"if (x & 1) {loop} out[i] = a[x]; else {loop} out[i + n] = a[x + 9];"
    tally = launch(kernel(sides)).run({"n": 5})
    assert tally.lanes["STG"] == 32 * 5
    assert tally["STG"] == 10


def test_branch_that_no_lane_takes_is_not_issued(launch) -> None:
    machine = launch(kernel("if (blockIdx.x > 1)\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) out[i] = a[x];"))
    assert [machine.run({"n": 9}, (group, 0, 0))["STG"] for group in range(4)] == [0, 0, 9, 9]


def test_divergent_lanes_reconverge_after_the_loop(launch) -> None:
    body = "#pragma unroll 1\nfor (int i = 0; i < x % 3; ++i) out[i] = a[i + x];\n__syncthreads(); out[x + 99] = a[x];"
    tally = launch(kernel(body)).run({"n": 0})
    # x % 3 is 0, 1, 2: the warp executes two iterations; 10 lanes have 2 and 11 lanes have 1.
    assert (tally["STG"], tally.lanes["STG"], tally["BAR"]) == (3, 2 * 10 + 11 + 32, 1)


def test_reconvergence_does_not_wait_for_exited_lanes(launch) -> None:
    body = "if (x >= n) return;\n#pragma unroll 1\nfor (int i = 0; i < x; ++i) out[i] = a[i + x];\nout[x + 99] = a[x];"
    tally = launch(kernel(body)).run({"n": 7})
    assert (tally["STG"], tally.lanes["STG"]) == (6 + 1, sum(range(7)) + 7)


def test_group_of_40_has_a_warp_of_8_lanes(launch) -> None:
    machine = launch(kernel("out[x] = a[x];", group=40))
    assert [machine.run({"n": 0}, warp=warp).lanes["STG"] for warp in range(machine.warps({}))] == [32, 8]


def test_data_dependent_branch_follows_the_given_decision(launch) -> None:
    body = "if (a[x] > 0)\n#pragma unroll 1\nfor (int i = 0; i < n; ++i) out[i] = a[i];"
    machine = launch(kernel(body))
    with pytest.raises(UnknownBranchError, match="depends on data") as error:
        machine.run({"n": 7})
    (address,) = (address for address, each in machine.code.instructions.items() if str(each) in str(error.value))
    for enters in (False, True):
        tally = machine.run({"n": 7}, decide=by_address({address: not enters}))
        assert tally["STG"] == (7 if enters else 0)


def test_division_can_skip_its_subroutine(launch) -> None:
    for architecture in ("sm_80", "sm_90"):
        tally = launch(kernel("out[x] = a[x] / a[x + 1];"), architecture).run({"n": 1}, decide=around_calls)
        # MUFU for 1/b, a Newton step for it and one for the quotient: five multiply-adds.
        assert (tally["MUFU"], tally["FFMA"], tally["float comparison"], tally["STG"]) == (1, 5, 1, 1)


def test_false_guard_takes_an_issue_slot_but_accesses_no_memory(launch) -> None:
    machine = launch(kernel("float v = a[x]; if (x < n) v += a[x + n]; out[x] = v;"))
    for n in (0, 3):
        tally = machine.run({"n": n})
        touched = [access for access in machine.accesses({"n": n}) if access.instruction.base == "LDG"]
        assert tally["LDG"] - tally.idle["LDG"] == len(touched) == (2 if n else 1)
    machine = launch(kernel("if (x < n) out[x] = 1;"))
    assert [machine.run({"n": n}).lanes["STG"] for n in (5, 0)] == [5, 0]
