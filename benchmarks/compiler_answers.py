"""Compare the compiler model with NVIDIA's compiler on many kernels. No device is needed.

NVRTC (the extra ``cuda-compiler``) compiles bundled kernels, tiles and measured kernels of a TITAN V for a device. The
script prints how often both agree on registers, stack, spills, widths of loads and number of arithmetic instructions,
and the kernels with the largest differences.

    PYTHONHASHSEED=0 LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/compiler_answers.py \
        [--device NAME] [--every N] [--seconds S] [--worst N] [bundled] [tiles] [titan-v]
"""

import argparse
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from parts import RANKING_SETS
from parts.cubin import instruction_mixes
from parts.own_process import run_in_process
from parts.tables import show, table
from parts.titan_v import measured_kernels
from rich.table import Table

import loopyperf as lpp
from loopyperf.compiler.cuda_code import CudaCode
from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.compiler.resources import Resources, machine_code
from loopyperf.compiler.spilling import STACK
from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import Device
from loopyperf.idg import Idg
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.kernel.loopy_passes import as_translation_unit
from loopyperf.measurement.campaign import plan
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.stages.compile import machine_program
from loopyperf.stages.nvrtc import architecture_of, compiled_kernel

LIMITS = DeviceLimits(
    group_size=1024,
    local_memory=48 * 1024,
    global_memory=12 * 2**30,
    cores=80,
    warp_size=32,
    clock=1.455e9,
    memory=48 * 2**30,
    cache=4608 * 1024,
)
"""of a TITAN V"""
BUNDLED = ("test_kernels", "test_kernels/optimization_steps", "test_kernels/rodinia")
NEAR, ROUGH = 0.1, 0.5
"""tolerances of a ratio: for registers and widths, and for arithmetic instructions, of which the compiled code has
more, because it contains further copies of a loop's body for the remaining iterations"""
ARITHMETIC = frozenset({"FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"})
KINDS = frozenset({Opcode.ADD, Opcode.MUL, Opcode.FMA})
LOADS = {"LDG": MemorySpace.GLOBAL, "LDS": MemorySpace.LOCAL}

Build = Callable[[], tuple[Any, Mapping[str, Any]]]
"""returns a kernel and the sizes for which it is compiled"""


@dataclass(frozen=True)
class LaunchComparison:
    """Properties of one launch. Pairs contain the value of the compiler model, then that of NVRTC."""

    kernel: str
    milliseconds: float
    """compile time"""
    registers: tuple[int, int]
    stack: tuple[int, int]
    """number of arrays that the model certainly keeps in stack memory; bytes of NVRTC's stack frame without spills"""
    unsure: int
    """bytes of the arrays whose placement is uncertain in the model"""
    spills: tuple[int, int]
    """registers that the model spills; bytes that NVRTC's code stores. The two are not comparable in size."""
    widths: tuple[Mapping[MemorySpace, float], Mapping[MemorySpace, float]]
    """mean width of the load instructions, in bits"""
    arithmetic: tuple[int, int]
    """number of arithmetic instructions in the code"""


def compared_launches(
    name: str, build: Build, device: Device, send: Callable[[object], None]
) -> list[LaunchComparison]:
    """Return the properties of each launch of a kernel on *device*."""
    program, sizes = build()
    expected = machine_program(program, device=device, parameters=sizes)
    start = time.perf_counter()
    found = compiled_kernel(program, device)
    send(None)
    milliseconds = 1e3 * (time.perf_counter() - start)
    mixes = instruction_mixes(machine_code(CudaCode(as_translation_unit(program)).source, architecture_of(device)))
    return [
        _comparison(f"{name} {each.name}", milliseconds, each, found[each.name], mixes[each.name])
        for each in expected.launches
    ]


def _comparison(
    name: str, milliseconds: float, model: MachineLaunch, compiler: Resources, mix: Mapping[str, int]
) -> LaunchComparison:
    code = max((_code(each.graph) for each in model.classes), key=_work_count)  # other warp classes have fewer
    on_stack = {_array(each): each for each in code if each.subsystem == MemorySpace.PRIVATE}
    unsure = sum(each.nbytes for each in model.unsure.values())
    sure = len(on_stack.keys() - {STACK} - model.unsure.keys())
    return LaunchComparison(
        name,
        milliseconds,
        (model.registers, compiler.registers),
        (sure, compiler.stack_frame - min(compiler.spill_stores, compiler.stack_frame)),
        unsure,
        (model.spilled, compiler.spill_stores),
        ({space: _mean_width(code, space) for space in LOADS.values()}, _compiled_widths(mix)),
        (
            sum(each.kind in KINDS and each.dtype in ("f32", "f64") for each in code),
            sum(number for opcode, number in mix.items() if opcode in ARITHMETIC),
        ),
    )


def _code(graph: Idg) -> list[Instruction]:
    """Return the instructions of *graph*, with one copy for each iteration of an unrolled loop."""
    found: list[Instruction] = []
    for instruction, loops in zip(graph.instructions, graph.loops_around, strict=True):
        copies = (each.trips if isinstance(each.trips, int) else 1 for each in loops if each.is_unrolled)
        found += [instruction] * prod(copies)
    return found


def _work_count(code: Sequence[Instruction]) -> int:
    return sum(each.kind in KINDS or each.kind == Opcode.LOAD for each in code)


def _array(access: Instruction) -> str:
    return "" if access.reference is None else access.reference.array


def _mean_width(code: Sequence[Instruction], space: MemorySpace) -> float:
    bits = [each.bits for each in code if each.kind == Opcode.LOAD and each.subsystem == space]
    return float(np.mean(bits)) if bits else 0.0


def _compiled_widths(mix: Mapping[str, int]) -> dict[MemorySpace, float]:
    found: dict[MemorySpace, float] = {}
    for opcode, space in LOADS.items():
        loads = {int(name[4:].lstrip("US") or 32): n for name, n in mix.items() if name[:3] == opcode}
        found[space] = sum(bits * n for bits, n in loads.items()) / max(sum(loads.values()), 1)
    return found


# {{{ kernels


def bundled() -> Iterator[tuple[str, Build]]:
    """Yield the test kernels."""
    for folder in BUNDLED:
        yield from _planned(bundled_folder(folder))


def tiles() -> Iterator[tuple[str, Build]]:
    """Yield the variants of the ranking sets."""
    return _planned(RANKING_SETS)


def titan_v() -> Iterator[tuple[str, Build]]:
    """Yield the measured kernels of the TITAN V."""
    for row in measured_kernels():
        yield f"row {row['id']}", partial(_unpickled, row)


def _planned(folder: Path) -> Iterator[tuple[str, Build]]:
    for name, form in plan(load_kernel_files(folder), LIMITS):
        sizes = form.sizes[len(form.sizes) // 3]
        yield f"{name}, {form.label}", lambda form=form, sizes=sizes: (form.build(), sizes)


def _unpickled(row: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    return pickle.loads(row["kernel"]), row["sizes"]


CORPORA = {"bundled": bundled, "tiles": tiles, "titan-v": titan_v}

# }}}


# {{{ output


def is_near(pair: tuple[float, float], tolerance: float = NEAR) -> bool:
    """Return whether the values of *pair* agree within a relative *tolerance*."""
    return abs(pair[0] - pair[1]) <= tolerance * pair[1]


def error(pair: tuple[float, float]) -> float:
    """Return ln((x + 1)/(y + 1)) of the values x, y of *pair*; 1 is added because values may be 0."""
    return float(np.log((pair[0] + 1) / (pair[1] + 1)))


def _width(space: MemorySpace) -> Callable[[LaunchComparison], tuple[float, float]]:
    return lambda each: (each.widths[0][space], each.widths[1][space])


MEASURES: Mapping[str, tuple[Callable[[LaunchComparison], tuple[float, float]], float]] = {
    "registers": (lambda each: each.registers, NEAR),
    "global width": (_width(MemorySpace.GLOBAL), NEAR),
    "local width": (_width(MemorySpace.LOCAL), NEAR),
    "arithmetic": (lambda each: each.arithmetic, ROUGH),
}


def agreement(found: Mapping[str, Sequence[LaunchComparison]]) -> Table:
    """Return a table of the share of launches for which both agree, by corpus."""
    columns = [*(f"{name} ±{tolerance:.0%}" for name, (_, tolerance) in MEASURES.items()), "registers: median ratio"]
    shown = table("corpus", "launches", *columns, "stack use", "unsure", "spilling", "compile time (ms)")
    for corpus, rows in found.items():
        near = [np.mean([is_near(of(each), tolerance) for each in rows]) for of, tolerance in MEASURES.values()]
        sure = [each for each in rows if not each.unsure]
        stack = np.mean([bool(each.stack[0]) == bool(each.stack[1]) for each in sure])
        spills = np.mean([bool(each.spills[0]) == bool(each.spills[1]) for each in rows])
        ratio = np.median([each.registers[0] / each.registers[1] for each in rows])
        milliseconds = np.median([each.milliseconds for each in rows])
        shares = (*(f"{each:.0%}" for each in near), f"{ratio:.2f}", f"{stack:.0%}", f"{1 - len(sure) / len(rows):.0%}")
        shown.add_row(corpus, str(len(rows)), *shares, f"{spills:.0%}", f"{milliseconds:.0f}")
    return shown


def worst(rows: Sequence[LaunchComparison], number: int) -> Iterator[str]:
    """Yield the *number* launches with the largest error of each measure, and all with wrong stack use or spilling."""
    for name, (of, tolerance) in MEASURES.items():
        differing = sorted(
            (each for each in rows if not is_near(of(each), tolerance)), key=lambda each: -abs(error(of(each)))
        )
        yield from (f"{name}: {of(each)[0]:.0f}, NVRTC {of(each)[1]:.0f}: {each.kernel}" for each in differing[:number])
    for each in rows:
        if each.unsure or bool(each.stack[0]) != bool(each.stack[1]):
            yield f"stack: {each.stack[0]} arrays, {each.unsure} B unsure, NVRTC {each.stack[1]} B: {each.kernel}"
        if bool(each.spills[0]) != bool(each.spills[1]):
            yield f"spills: {each.spills[0]} registers, NVRTC {each.spills[1]} B: {each.kernel}"


def main() -> None:
    """Compare the compiler model with NVRTC."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("corpora", nargs="*", default=list(CORPORA), metavar="corpus", help=", ".join(CORPORA))
    parser.add_argument("--device", default="nvidia-titan-v", help="device whose architecture is the target")
    parser.add_argument("--every", type=int, default=1, help="use only every N-th kernel")
    parser.add_argument("--seconds", type=float, default=120.0, help="time limit per kernel")
    parser.add_argument("--worst", type=int, default=5, help="number of launches to list for each measure")
    options = parser.parse_args()
    device, found = lpp.load_device(options.device), dict[str, list[LaunchComparison]]()
    for corpus in options.corpora:
        for name, build in islice(CORPORA[corpus](), 0, None, options.every):
            call = partial(compared_launches, name, build, device)
            end = time.monotonic() + options.seconds
            outcome = run_in_process(call, lambda _: None, options.seconds, end)
            if outcome.problem:
                show(f"{name}: {outcome.problem}")
            found.setdefault(corpus, []).extend(outcome.result or [])
    show(agreement(found), *(line for rows in found.values() for line in worst(rows, options.worst)))


if __name__ == "__main__":
    main()
