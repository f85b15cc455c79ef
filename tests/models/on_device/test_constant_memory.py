"""Constant memory: operands of instructions, and loads through the constant cache of an NVIDIA GPU."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.counts.item import MemorySpace
from loopyperf.idg.program import Opcode


def weighted(
    index: str, taps: int, *, domain: str = "", dtype: type = np.float32, kind: type = lp.ConstantArg
) -> lp.TranslationUnit:
    """Return a kernel whose result is a sum of inputs, weighted by elements *index* of an array in constant memory."""
    code = f"out[i] = sum(j, weight[{index}]*x[i + j])"
    unit = lp.make_kernel(
        f"{{[i, j]: 0 <= i < n and 0 <= j < {domain or taps}}}",
        code,
        [
            kind("weight", dtype, shape=taps),
            lp.GlobalArg("x, out", dtype, shape=f"n + {taps}"),
            lp.ValueArg("n", np.int32),
            *([lp.ValueArg(domain, np.int32)] if domain else []),
        ],
        assumptions="n >= 256",
        lang_version=(2018, 2),
        target=lp.CudaTarget(),
    )
    return lp.split_iname(unit, "i", 256, outer_tag="g.0", inner_tag="l.0")


def test_filter_with_coefficients_in_constant_memory_takes_the_measured_time() -> None:
    """8,388,608 points and 16 coefficients on a V100: measured 173 µs."""
    seconds = lpp.estimate(weighted("j", 16, dtype=np.float64), n=2**23, device="nvidia-v100", model="pipeline").seconds
    assert 0.85 < seconds / 173e-6 < 1.15


def loads(unit: lp.TranslationUnit, device: str, **sizes: int) -> list[tuple[str, float]]:
    """Return the memory and the cycles on its first pipeline of each load of the constant array."""
    (machine,) = lpp.machine_program(unit, device=device, **sizes).launches
    (timed,) = lpp.timed_program(unit, device=device, **sizes).launches
    pairs = zip(machine.classes[0].graph.instructions, timed.programs[0].times, strict=True)
    return [
        (each.subsystem, times[0].issue)
        for each, times in pairs
        if each.kind == Opcode.LOAD and each.reference.array == "weight"
    ]


def test_constant_cache_serves_distinct_addresses_one_after_the_other(subtests: pytest.Subtests) -> None:
    for index, passes in (("i", 32), ("i // 2", 16), ("i % 4", 4), ("i // 32", 1), ("i // 256", 1)):
        with subtests.test(index=index):
            (found,) = loads(weighted(f"({index}) % 64", 64, domain="m"), "nvidia-v100", n=2**16, m=1)
            assert found == (MemorySpace.CONSTANT, passes)


def test_assumed_hits_in_the_constant_cache_are_noted() -> None:
    note = "loads of weight from constant memory assumed to hit its cache, as fast as local memory"
    for index, is_loaded in (("i % 64", True), ("3", False)):
        estimate = lpp.estimate(weighted(index, 64, domain="m"), n=2**16, m=1, device="nvidia-v100", model="pipeline")
        assert (note in estimate.notes) == is_loaded


def test_other_devices_load_constants_from_global_memory() -> None:
    for device in ("amd-r9-fury", "amd-mi210"):
        (found,) = loads(weighted("i % 64", 64, domain="m"), device, n=2**16, m=1)
        assert found[0] == MemorySpace.GLOBAL


@pytest.mark.parametrize("kind", [lp.ConstantArg, lp.GlobalArg])
def test_constant_operands_take_no_registers(kind: type) -> None:
    """225 weights as operands need no registers; from global memory, they are loaded and kept or reloaded."""
    taps = 225
    unit = lp.tag_inames(weighted("j", taps, kind=kind), {"j": "unr"})
    (launch,) = lpp.machine_program(unit, n=2**16, device="nvidia-v100").launches
    number = sum(each.kind == Opcode.LOAD for each in launch.classes[0].graph.instructions)
    assert number == (taps if kind is lp.ConstantArg else 2 * taps)
    assert launch.spilled == 0
