"""What a description answers, and how it says that it does not know."""

import copy
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Never, get_args, get_origin, get_type_hints

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


def test_counts_are_integers_and_the_rest_is_in_the_declared_unit():
    assert repr(TITAN_V.cores) == "80"
    assert TITAN_V.clock == 1348e6
    assert TITAN_V.limits.local_memory == 98304
    assert TITAN_V.level("L2").size == 4_718_592  # 4.5 MiB
    assert TITAN_V.level("DRAM").bandwidth == 653e9


def test_what_is_stated_can_be_had_with_its_source():
    quantity = TITAN_V.limits.source("warps")
    assert quantity is not None
    assert (quantity.value, quantity.unit) == (64, "warps")
    assert quantity.source == "CUDA Occupancy Calculator, 7.0"


def test_a_number_given_in_python_has_no_source_of_another_value():
    faster = replace(TITAN_V, clock=2 * TITAN_V.clock, launch_overhead=5e-6)
    assert TITAN_V.source("clock").unit == "MHz"
    assert faster.source("clock") == Quantity(2696e6, "Hz", parts.NO_SOURCE)
    assert {"clock", "launch_overhead"} <= dict(faster.known()).keys()
    assert faster.source("cores") == TITAN_V.source("cores")
    assert replace(faster, clock=TITAN_V.clock).source("clock") == TITAN_V.source("clock")


def test_a_number_with_a_source_replaces_the_one_there_is():
    stated = Quantity(1.2, "GHz", "me, today")
    slower = TITAN_V.stating(clock=stated)
    assert (slower.clock, slower.source("clock")) == (1.2e9, stated)
    assert [name for name, _ in slower.known()] == [name for name, _ in TITAN_V.known()]
    assert TITAN_V.stating(**dict(TITAN_V.known())) == TITAN_V


@pytest.mark.parametrize("part", get_args(AnyPart))
def test_a_part_has_a_field_for_each_name_of_a_number_and_a_name_for_each_field(part):
    """Type checkers know the names, whole numbers apart from others; the fields say which are whole."""
    (base,) = (each for each in part.__orig_bases__ if get_origin(each) is parts.DescriptionTable)
    hints, whole, others = get_type_hints(part), *(() if each is Never else get_args(each) for each in get_args(base))
    assert {name: number.is_whole for name, number in part.declared().items()} == {
        **dict.fromkeys(whole, True),
        **dict.fromkeys(others, False),
    }
    assert {name: hints[name] for name in (*whole, *others)} == {
        **dict.fromkeys(whole, int | None),
        **dict.fromkeys(others, float | None),
    }


def test_a_device_is_a_value():
    assert load_device("nvidia-titan-v") == TITAN_V != RTX_2070
    assert pickle.loads(pickle.dumps(TITAN_V)) == copy.deepcopy(TITAN_V) == TITAN_V
    assert len({TITAN_V, load_device("nvidia-titan-v"), RTX_2070}) == 2
    with pytest.raises(FrozenInstanceError):
        TITAN_V.name = "another"


# {{{ what is not known


def test_what_nobody_published_is_none_and_has_no_source():
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
def test_asking_for_what_nobody_published_says_what_and_how_to_add_it(ask, message):
    with pytest.raises(MissingNumberError, match=message):
        ask()


# }}}


# {{{ latencies


def test_a_measured_latency_is_the_one_of_the_paper():
    """Lemeire, table 5, Fermi: mul.f64 2 / 22, cos.apx.f32 8 / 40, bar.sync 2 / 40, ld.global.s32 23 / 475."""
    asked = [("mul", "f64"), ("special", "f32"), ("barrier", ""), ("load global", "b32")]
    found = [(C2050.issue_latency(*each), C2050.completion_latency(*each)) for each in asked]
    assert found == [(2, 22), (8, 40), (2, 40), (23, 475)]


def test_an_addition_takes_as_long_as_the_multiplication_that_was_measured():
    """Cornelis, table II: fadd on Fermi 1 / 18, as Lemeire's mul.f32."""
    assert (C2050.issue_latency("add", "f32"), C2050.completion_latency("fma", "f32")) == (1, 18)


def test_an_integer_addition_does_not_take_as_long_as_a_multiplication():
    # mul.s32 was measured with 2 cycles; additions have a row of their own: 32 work-items / 32 results a cycle
    assert (C2050.issue_latency("mul", "i32"), C2050.issue_latency("add", "i32")) == (2, 1)


def test_without_a_measurement_the_issue_latency_is_that_of_the_units():
    # 32 work-items over 64, 32, 16, 64 results a cycle
    asked = [("fma", "f32"), ("fma", "f64"), ("mufu", "f32"), ("shift", "i32")]
    assert [TITAN_V.issue_latency(*each) for each in asked] == [0.5, 1, 2, 0.5]


def test_a_measurement_beats_the_units():
    # Lemeire, section 4.3: 0.375 was measured where four schedulers and 128 processors would give 0.25
    k620 = load_device("nvidia-quadro-k620")
    assert (k620.issue_latency("mul", "f32"), k620.warp_size / k620.throughput.f32) == (0.375, 0.25)


def test_special_functions_share_the_pipeline_of_the_others_where_the_paper_says_so():
    assert load_device("amd-r9-380").pipeline("sfu") == "alu"
    assert C2050.pipeline("sfu") == "sfu"


def test_peak_flops_are_two_for_each_multiply_add():
    # 80 cores · 1348 MHz · 64 results · 2 = 13.8 Tflop/s; half of it in double precision
    assert TITAN_V.peak_flops("f32") == pytest.approx(13.80352e12)
    assert TITAN_V.peak_flops("f64") == pytest.approx(6.90176e12)


# }}}


# {{{ words


@pytest.mark.parametrize("words", [Policy, RegisterAllocation, Lanes, Per])
def test_words_of_a_description_equal_their_strings(words):
    for each in words:
        assert each == each.value == str(each) == f"{each}"
        assert hash(each) == hash(each.value)
        assert json.loads(json.dumps(each)) == each == msgspec.json.decode(msgspec.json.encode(each))


def test_a_device_with_a_plain_string_is_the_one_with_its_word():
    plain = replace(TITAN_V, lanes="together", memory=tuple(replace(x, per=str(x.per)) for x in TITAN_V.memory))
    assert plain == TITAN_V
    assert hash(plain) == hash(TITAN_V)
    assert occupancy(replace(TITAN_V, register_allocation="warp"), 64) == occupancy(TITAN_V, 64)


# }}}
