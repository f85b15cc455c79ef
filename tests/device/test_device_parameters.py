"""Lookup of device parameters, and errors for missing parameters."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import get_args, get_type_hints

import msgspec
import pytest

from loopyperf.device import parts
from loopyperf.device.description import AnyPart
from loopyperf.device.device_library import load_device
from loopyperf.device.occupancy import occupancy
from loopyperf.device.parts import Lanes, Per, Policy, Quantity, RegisterAllocation
from loopyperf.errors import MissingNumberError

TITAN_V = load_device("nvidia-titan-v")
RTX_2070 = load_device("nvidia-rtx-2070")
C2050 = load_device("nvidia-tesla-c2050")


def test_counts_are_integers_and_values_have_the_declared_unit():
    assert repr(TITAN_V.cores) == "80"
    assert TITAN_V.clock == 1348e6
    assert TITAN_V.limits.local_memory == 98304
    assert TITAN_V.level("L2").size == 4_718_592  # 4.5 MiB
    assert TITAN_V.level("DRAM").bandwidth == 653e9


def test_parameter_has_unit_and_source():
    quantity = TITAN_V.limits.source("warps")
    assert quantity is not None
    assert (quantity.value, quantity.unit) == (64, "warps")
    assert quantity.source == "CUDA Occupancy Calculator, 7.0"


def test_replaced_value_drops_the_source():
    faster = replace(TITAN_V, clock=2 * TITAN_V.clock, launch_overhead=5e-6)
    assert TITAN_V.source("clock").unit == "MHz"
    assert faster.source("clock") == Quantity(2696e6, "Hz", parts.NO_SOURCE)
    assert {"clock", "launch_overhead"} <= dict(faster.known()).keys()
    assert faster.source("cores") == TITAN_V.source("cores")
    assert replace(faster, clock=TITAN_V.clock).source("clock") == TITAN_V.source("clock")


def test_stating_replaces_value_and_source():
    new_clock = Quantity(1.2, "GHz", "me, today")
    slower = TITAN_V.stating(clock=new_clock)
    assert (slower.clock, slower.source("clock")) == (1.2e9, new_clock)
    assert [name for name, _ in slower.known()] == [name for name, _ in TITAN_V.known()]
    assert TITAN_V.stating(**dict(TITAN_V.known())) == TITAN_V


@pytest.mark.parametrize("part", get_args(AnyPart))
def test_whole_numbers_are_integers_for_type_checkers(part):
    hints = get_type_hints(part)
    assert {name: hints[name] for name in part.declared()} == {
        name: int | None if number.is_whole else float | None for name, number in part.declared().items()
    }


def test_devices_are_immutable_and_compare_by_value():
    assert load_device("nvidia-titan-v") == TITAN_V != RTX_2070
    assert pickle.loads(pickle.dumps(TITAN_V)) == copy.deepcopy(TITAN_V) == TITAN_V
    assert len({TITAN_V, load_device("nvidia-titan-v"), RTX_2070}) == 2
    with pytest.raises(FrozenInstanceError):
        TITAN_V.name = "another"


# {{{ unknown parameters


def test_unpublished_parameter_is_none_without_source():
    assert (TITAN_V.launch_overhead, RTX_2070.level("DRAM").latency) == (None, None)
    assert (TITAN_V.source("launch_overhead"), RTX_2070.level("DRAM").source("latency")) == (None, None)
    assert "launch_overhead" not in {each.number for each in TITAN_V.statements}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: RTX_2070.level("DRAM").needed("latency"),
            r"'nvidia-rtx-2070' lacks memory.DRAM.latency .*in cycles.*in \[memory.DRAM\] of .*nvidia-rtx-2070.toml"
            r'.*: latency = \{ value = \.\.\., unit = "cycles", source = "\.\.\." \}',
        ),
        (
            lambda: TITAN_V.needed("launch_overhead"),
            r"lacks launch_overhead .*in s.*at the top of .*: launch_overhead = ",
        ),
        (
            lambda: TITAN_V.limits.needed("warp_unit"),
            r"lacks limits.warp_unit .*in \[limits\] of .*: warp_unit = ",
        ),
        (lambda: TITAN_V.level("L3"), r"no memory level 'L3', only local, L1, L2, DRAM; .*table \[memory.L3\]"),
        (
            lambda: TITAN_V.completion_latency("barrier"),
            r"lacks the completion latency of 'barrier' \(in cycles\).*\[instructions.\"barrier\"\].* completion = \{",
        ),
        (lambda: TITAN_V.issue_latency("div", "f32"), r"lacks the issue latency of 'div f32'"),
        (lambda: load_device("amd-r9-fury").issue_latency("mul", "i32"), "lacks throughput.integer_multiply"),
        (lambda: load_device("nvidia-gtx-580").peak_flops("f64"), "lacks throughput.f64"),
    ],
)
def test_error_for_missing_parameter_shows_how_to_add_it(ask, message):
    with pytest.raises(MissingNumberError, match=message):
        ask()


# }}}


# {{{ latencies


def test_measured_latencies_equal_those_of_lemeire():
    """Lemeire, table 5, Fermi: mul.f64 2 / 22, cos.apx.f32 8 / 40, bar.sync 2 / 40, ld.global.s32 23 / 475."""
    instructions = [("mul", "f64"), ("special", "f32"), ("barrier", ""), ("load global", "b32")]
    found = [(C2050.issue_latency(*each), C2050.completion_latency(*each)) for each in instructions]
    assert found == [(2, 22), (8, 40), (2, 40), (23, 475)]


def test_addition_uses_the_measured_latency_of_multiplication():
    """Cornelis, table II: fadd on Fermi is 1 / 18, like Lemeire's mul.f32."""
    assert (C2050.issue_latency("add", "f32"), C2050.completion_latency("fma", "f32")) == (1, 18)


def test_integer_addition_does_not_use_the_latency_of_multiplication():
    # mul.s32 was measured as 2 cycles; integer additions have their own throughput: 32 work-items / 32 results/cycle
    assert (C2050.issue_latency("mul", "i32"), C2050.issue_latency("add", "i32")) == (2, 1)


def test_issue_latency_without_measurement_follows_throughput():
    # 32 work-items at 64, 32, 16, 64 results/cycle
    instructions = [("fma", "f32"), ("fma", "f64"), ("mufu", "f32"), ("shift", "i32")]
    assert [TITAN_V.issue_latency(*each) for each in instructions] == [0.5, 1, 2, 0.5]


def test_measured_issue_latency_overrides_throughput():
    # Lemeire, section 4.3: measured 0.375, although four schedulers and 128 processors would give 0.25
    k620 = load_device("nvidia-quadro-k620")
    assert (k620.issue_latency("mul", "f32"), k620.warp_size / k620.throughput.f32) == (0.375, 0.25)


def test_pipeline_of_special_functions_is_shared_on_amd():
    assert load_device("amd-r9-380").pipeline("sfu") == "alu"
    assert C2050.pipeline("sfu") == "sfu"


def test_peak_flops_count_multiply_add_as_two():
    # 80 cores · 1348 MHz · 64 results · 2 = 13.8 Tflop/s; half of that in double precision
    assert TITAN_V.peak_flops("f32") == pytest.approx(13.80352e12)
    assert TITAN_V.peak_flops("f64") == pytest.approx(6.90176e12)


# }}}


# {{{ string enums


@pytest.mark.parametrize("words", [Policy, RegisterAllocation, Lanes, Per])
def test_string_enums_equal_their_strings(words):
    for each in words:
        assert each == each.value == str(each) == f"{each}"
        assert hash(each) == hash(each.value)
        assert json.loads(json.dumps(each)) == each == msgspec.json.decode(msgspec.json.encode(each))


def test_device_with_plain_strings_equals_device_with_enums():
    plain = replace(TITAN_V, lanes="together", memory=tuple(replace(x, per=str(x.per)) for x in TITAN_V.memory))
    assert plain == TITAN_V
    assert hash(plain) == hash(TITAN_V)
    assert occupancy(replace(TITAN_V, register_allocation="warp"), 64) == occupancy(TITAN_V, 64)


# }}}
