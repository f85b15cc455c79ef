"""Test that nvcc keeps every step of the microbenchmarks and adds almost nothing.

The counts are executed warp instructions per round on sm_90, from the difference of two runs. Loop counters, addresses
computed outside of a round and similar take less than one instruction per step.
"""

from collections.abc import Mapping

import pytest

from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from tests import sample_and_all

from .branch_decisions import around_calls
from .instruction import Instruction
from .listing import BYTES, Function

LIMITS = DeviceLimits(
    group_size=1024, local_memory=48 * 1024, global_memory=2**20, cores=1, warp_size=32, cache=2**15, cache_line=128
)
FILES = {file.name: file for file in load_kernel_files(bundled_folder("measurement_kernels/microbenchmarks"))}
CHAINS: Mapping[str, Mapping[str, int]] = {
    "add f32": {"FADD": 1},
    "mul f32": {"FMUL": 1},
    "fma f32": {"FFMA": 1},
    "div f32": {"MUFU": 1, "FFMA": 5, "float comparison": 1},
    "special f32": {"MUFU": 1, "FMUL": 2, "float comparison": 1},
    "sqrt f32": {"MUFU": 1, "FMUL": 2, "FFMA": 2},
    "exp f32": {"MUFU": 1, "FFMA": 4, "FADD": 1, "FMUL": 1},
    "add f64": {"DADD": 1},
    "mul f64": {"DMUL": 1},
    "fma f64": {"DFMA": 1},
    "div f64": {"MUFU": 1, "DFMA": 7, "DMUL": 1, "FFMA": 1, "float comparison": 2},
    "sqrt f64": {"MUFU": 1, "DFMA": 5, "DMUL": 3},
    "add i32": {"integer": 1},
    "mul i32": {"integer": 1},
}
"""instructions of a step, by class; for sequences of instructions, without integers and branches"""
INTEGERS = 0.1
"""limit of integer and control instructions of a loop, per step of a chain of 128"""


def form(name: str, kind: str) -> Configuration:
    return next(form for form in configurations_of(FILES[name], LIMITS) if form.label.startswith(kind))


def over_calls(function: Function, branch: Instruction) -> bool:
    """Choose the path without a call, however many registers are moved before it."""
    there = function.address(branch.operands[-1].place)
    between = (function.instructions[at] for at in range(branch.address + BYTES, there, BYTES))
    return any(instruction.base == "CALL" for instruction in between) or around_calls(function, branch)


def round_of(launch, form: Configuration) -> Mapping[str, float]:
    """Return the instructions of a round, from a run with 64 more rounds, so that unrolled loops iterate."""
    (few, *_), built = form.ladders[-1], launch(form.build())
    runs = [built.run({**few, "rounds": rounds}, decide=over_calls) for rounds in (64, 128)]
    names = runs[1].counts
    return {name: (runs[1][name] - runs[0][name]) / 64 for name in names if runs[1][name] != runs[0][name]}


@sample_and_all(3)
def test_machine_code_has_every_step_of_a_dependent_chain(subtests: pytest.Subtests, launch, step: int) -> None:
    for kind in list(CHAINS)[::step]:
        with subtests.test(kind=kind):
            chain = form("dependent chain", kind)
            steps = chain.sizes[0]["steps"]
            each = {name: count / steps for name, count in round_of(launch, chain).items()}
            beside = {"integer", "control", "constant load"} - set(CHAINS[kind])
            assert {name: pytest.approx(count, abs=INTEGERS) for name, count in CHAINS[kind].items()} == {
                name: count for name, count in each.items() if name not in beside
            }
            if steps == 128:
                assert sum(each.get(name, 0) for name in beside) < INTEGERS


def test_expected_counts_cover_all_chains() -> None:
    kinds = {form.label.partition(",")[0] for form in configurations_of(FILES["dependent chain"], LIMITS)}
    assert kinds == set(CHAINS)


@pytest.mark.parametrize("steps", [64, 128, 256])
def test_loops_around_long_chains_are_not_unrolled(launch, steps: int) -> None:
    tally = round_of(launch, form("loop overhead", f"{steps} steps"))
    assert (tally["FFMA"], tally["control"]) == (steps, 1)


@pytest.mark.parametrize("beta", [1, 4, 16])
def test_mix_has_beta_multiply_adds_per_special_function(launch, beta: int) -> None:
    mix = form("instruction mix", f"beta {beta},")
    tally, repeats = round_of(launch, mix), mix.sizes[0]["steps"]
    assert (tally["FFMA"], tally["MUFU"], tally["FMUL"]) == (beta * repeats, repeats, 2 * repeats)


def test_barriers_are_not_merged(launch) -> None:
    assert round_of(launch, form("barrier", "group 64"))["BAR"] == 16


def test_all_dependent_loads_are_executed(launch) -> None:
    assert round_of(launch, form("local memory", "group 256"))["LDS"] == 32
    assert round_of(launch, form("pointer chase", "one"))["LDG"] == 16


def test_stream_loads_one_word_per_access(launch) -> None:
    tally = round_of(launch, form("streaming", "stride 1,"))
    assert (tally["LDG"], tally["FADD"]) == (32, 32)
