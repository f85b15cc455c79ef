"""What the compiler model expects of a kernel, beside what NVIDIA's compiler makes of it: no device is needed.

Compiles bundled kernels, tiles and measured kernels of a TITAN V for a device by NVRTC (the extra ``cuda-compiler``).
Prints how often registers, the stack, spills, widths of loads and the length of the text agree, and where they do not.

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
from parts.own_process import in_own_process
from parts.tables import show, table
from parts.titan_v import measured_kernels
from rich.table import Table

import loopyperf as lpp
from loopyperf.compiler.machine_program import MachineLaunch
from loopyperf.compiler.resources import Resources
from loopyperf.compiler.spilling import STACK
from loopyperf.counts.item import MemorySpace
from loopyperf.device.description import Device
from loopyperf.idg import Idg
from loopyperf.idg.program import Instruction, Opcode
from loopyperf.measurement.campaign import plan
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.stages.compiled import compiled_kernel
from loopyperf.stages.stages import machine_program

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
NEAR, ABOUT = 0.1, 0.5
"""how far from 1 a ratio is off at most: of registers and widths, and of the length of the text, which has more copies
of a loop's body for the passes left"""
ARITHMETIC = frozenset({"FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA"})
KINDS = frozenset({Opcode.ADD, Opcode.MUL, Opcode.FMA})
LOADS = {"LDG": MemorySpace.GLOBAL, "LDS": MemorySpace.LOCAL}

Build = Callable[[], tuple[Any, Mapping[str, Any]]]
"""returns a kernel and the sizes at which it is compiled"""


@dataclass(frozen=True)
class Answers:
    """What is said of one launch, first by the model and then by the compiler."""

    kernel: str
    milliseconds: float
    """that compiling it took"""
    registers: tuple[int, int]
    stack: tuple[int, int]
    """bytes of arrays that are in memory, without spills; of the model's those that it is sure of"""
    unsure: int
    """bytes of arrays of which the model is unsure"""
    spills: tuple[int, int]
    """registers, and bytes: how many the model moves is not how many are stored"""
    widths: tuple[Mapping[MemorySpace, float], Mapping[MemorySpace, float]]
    """bits of the loads in the text, in the mean"""
    arithmetic: tuple[int, int]
    """instructions in the text"""


def answers(name: str, build: Build, device: Device, tell: Callable[[object], None]) -> list[Answers]:
    """Return what is said of each launch of a kernel on *device*."""
    program, sizes = build()
    expected = machine_program(program, device=device, parameters=sizes)
    start = time.perf_counter()
    found = compiled_kernel(program, device)
    tell(None)
    milliseconds = 1e3 * (time.perf_counter() - start)
    return [_answers(f"{name} {each.name}", milliseconds, each, found[each.name]) for each in expected.launches]


def _answers(name: str, milliseconds: float, model: MachineLaunch, compiler: Resources) -> Answers:
    text = max((_text(each.graph) for each in model.classes), key=_work)  # other warps leave some of it out
    on_stack = {_array(each): each for each in text if each.subsystem == MemorySpace.PRIVATE}
    unsure = sum(each.nbytes for each in model.unsure.values())
    sure = len(on_stack.keys() - {STACK} - model.unsure.keys())
    return Answers(
        name,
        milliseconds,
        (model.registers, compiler.registers),
        (sure, compiler.stack_frame - min(compiler.spill_stores, compiler.stack_frame)),
        unsure,
        (model.spilled, compiler.spill_stores),
        ({space: _mean_width(text, space) for space in LOADS.values()}, _compiled_widths(compiler)),
        (
            sum(each.kind in KINDS and each.dtype in ("f32", "f64") for each in text),
            sum(number for opcode, number in compiler.instructions.items() if opcode in ARITHMETIC),
        ),
    )


def _text(graph: Idg) -> list[Instruction]:
    """Return the instructions of *graph*, each as often as it stands in the text: in each pass of unrolled loops."""
    found: list[Instruction] = []
    for instruction, loops in zip(graph.instructions, graph.loops_around, strict=True):
        passes = (each.trips if isinstance(each.trips, int) else 1 for each in loops if each.is_unrolled)
        found += [instruction] * prod(passes)
    return found


def _work(text: Sequence[Instruction]) -> int:
    return sum(each.kind in KINDS or each.kind == Opcode.LOAD for each in text)


def _array(access: Instruction) -> str:
    return "" if access.reference is None else access.reference.array


def _mean_width(text: Sequence[Instruction], space: MemorySpace) -> float:
    bits = [each.bits for each in text if each.kind == Opcode.LOAD and each.subsystem == space]
    return float(np.mean(bits)) if bits else 0.0


def _compiled_widths(compiler: Resources) -> dict[MemorySpace, float]:
    found: dict[MemorySpace, float] = {}
    for opcode, space in LOADS.items():
        loads = {int(name[4:].lstrip("US") or 32): n for name, n in compiler.instructions.items() if name[:3] == opcode}
        found[space] = sum(bits * n for bits, n in loads.items()) / max(sum(loads.values()), 1)
    return found


# {{{ kernels


def bundled() -> Iterator[tuple[str, Build]]:
    """Yield the test kernels."""
    for folder in BUNDLED:
        yield from _planned(bundled_folder(folder))


def tiles() -> Iterator[tuple[str, Build]]:
    """Yield the variants of the sets that are ranked."""
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


# {{{ what is printed


def is_near(pair: tuple[float, float], most: float = NEAR) -> bool:
    """Return whether the first of *pair* is the second one, give or take a part."""
    return abs(pair[0] - pair[1]) <= most * pair[1]


def error(pair: tuple[float, float]) -> float:
    """Return ln of the first of *pair* over the second one, both taken as 1 more so that none is 0."""
    return float(np.log((pair[0] + 1) / (pair[1] + 1)))


def _width(space: MemorySpace) -> Callable[[Answers], tuple[float, float]]:
    return lambda each: (each.widths[0][space], each.widths[1][space])


MEASURES: Mapping[str, tuple[Callable[[Answers], tuple[float, float]], float]] = {
    "registers": (lambda each: each.registers, NEAR),
    "global width": (_width(MemorySpace.GLOBAL), NEAR),
    "local width": (_width(MemorySpace.LOCAL), NEAR),
    "text": (lambda each: each.arithmetic, ABOUT),
}


def judged(found: Mapping[str, Sequence[Answers]]) -> Table:
    """Return how often both agree, by corpus, in percent."""
    columns = [*(f"{name} ±{most:.0%}" for name, (_, most) in MEASURES.items()), "registers: median ratio"]
    shown = table("corpus", "launches", *columns, "stack or not", "unsure of it", "spills or not", "compiled in (ms)")
    for corpus, rows in found.items():
        near = [np.mean([is_near(of(each), most) for each in rows]) for of, most in MEASURES.values()]
        sure = [each for each in rows if not each.unsure]
        stack = np.mean([bool(each.stack[0]) == bool(each.stack[1]) for each in sure])
        spills = np.mean([bool(each.spills[0]) == bool(each.spills[1]) for each in rows])
        ratio = np.median([each.registers[0] / each.registers[1] for each in rows])
        milliseconds = np.median([each.milliseconds for each in rows])
        shares = (*(f"{each:.0%}" for each in near), f"{ratio:.2f}", f"{stack:.0%}", f"{1 - len(sure) / len(rows):.0%}")
        shown.add_row(corpus, str(len(rows)), *shares, f"{spills:.0%}", f"{milliseconds:.0f}")
    return shown


def worst(rows: Sequence[Answers], number: int) -> Iterator[str]:
    """Yield the *number* launches where each measure is furthest off, and all where stack or spills are wrong."""
    for name, (of, most) in MEASURES.items():
        off = sorted((each for each in rows if not is_near(of(each), most)), key=lambda each: -abs(error(of(each))))
        yield from (f"{name}: {of(each)[0]:.0f}, NVRTC {of(each)[1]:.0f}: {each.kernel}" for each in off[:number])
    for each in rows:
        if each.unsure or bool(each.stack[0]) != bool(each.stack[1]):
            yield f"stack: {each.stack[0]} arrays, {each.unsure} B unsure, NVRTC {each.stack[1]} B: {each.kernel}"
        if bool(each.spills[0]) != bool(each.spills[1]):
            yield f"spills: {each.spills[0]} registers, NVRTC {each.spills[1]} B: {each.kernel}"


def main() -> None:
    """Compile the kernels, and compare."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("corpora", nargs="*", default=list(CORPORA), metavar="corpus", help=", ".join(CORPORA))
    parser.add_argument("--device", default="nvidia-titan-v", help="whose architecture it is compiled for")
    parser.add_argument("--every", type=int, default=1, help="only each kernel that comes every so many")
    parser.add_argument("--seconds", type=float, default=120.0, help="for each kernel, at most")
    parser.add_argument("--worst", type=int, default=5, help="launches that are named for each measure")
    asked = parser.parse_args()
    device, found = lpp.load_device(asked.device), dict[str, list[Answers]]()
    for corpus in asked.corpora:
        for name, build in islice(CORPORA[corpus](), 0, None, asked.every):
            ask = partial(answers, name, build, device)
            end = time.monotonic() + asked.seconds
            ended = in_own_process(ask, lambda _: None, asked.seconds, end)
            if ended.problem:
                show(f"{name}: {ended.problem}")
            found.setdefault(corpus, []).extend(ended.result or [])
    show(judged(found), *(line for rows in found.values() for line in worst(rows, asked.worst)))


if __name__ == "__main__":
    main()
