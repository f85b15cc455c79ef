"""How long the recorded work of an application takes on other devices: each distinct kernel is predicted once."""

import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import loopy as lp
import numpy as np
from loopy.kernel.data import GroupInameTag, LocalInameTagBase
from loopy.kernel.function_interface import CallableKernel

from loopyperf.applications.program_text import program_of, program_text
from loopyperf.applications.record import Item, Record
from loopyperf.counts.item import Access, MemorySpace, Operation, item_named
from loopyperf.errors import LoopyperfError, ParameterError, one_line
from loopyperf.executors import Processes
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.predict.predictor import Predictor
from loopyperf.search.task import Unanswered
from loopyperf.search.task_runner import TaskRunner
from loopyperf.stages.case import Case, prepared
from loopyperf.stages.counting import count

Transform = Callable[[lp.TranslationUnit], lp.TranslationUnit]
"""a function with the signature of arraycontext's ``transform_loopy_program``"""
GROUP = 256
"""work-items of a group in the stream that stands for elementwise arithmetic of pyopencl"""
GPU_TARGETS = (lp.OpenCLTarget, lp.CudaTarget)
SEQUENTIAL = (
    "the program has no parallel loops; give --transform MODULE:FUNCTION, which parallelizes it, or --parallelize"
)


@dataclass(frozen=True, slots=True)
class ItemPrediction:
    """The predicted time of one execution of an item on one device."""

    seconds: float | None
    """None if there is no prediction"""
    bound: str = ""
    """what costs most"""
    interval: tuple[float, float] | None = None
    """prediction interval in seconds (80 %), if the model has one"""
    reason: str = ""
    """why there is no prediction"""


@dataclass(frozen=True, slots=True)
class Answered:
    """What is known of one execution of an item."""

    on: Sequence[ItemPrediction]
    """one entry for each predictor"""
    flops: float | None = None
    """floating-point operations; None if they cannot be counted"""
    accessed: float | None = None
    """bytes of all accesses of global memory"""


@dataclass(frozen=True, slots=True)
class ProgramAtSizes:
    """A program at given sizes."""

    text: str
    """the program, by ``program_text.py``"""
    sizes: tuple[tuple[str, int], ...]


def predictions(
    record: Record,
    predictors: Sequence[Predictor],
    *,
    transform: Transform | None = None,
    executor: Executor | Processes | None = None,
    time_limit: float | None = None,
    typical: Mapping[str, Any] | None = None,
    scale: Mapping[str, float] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, Answered]:
    """Return item -> its prediction by each of *predictors*; transfers and unknown kernels have a reason instead.

    Programs that are equal up to their names, at equal sizes, are predicted once.
    """
    tasks: dict[int, ProgramAtSizes] = {}
    found: dict[int, Answered] = {}
    for item in record.items:
        task = _task_of(record, item, scale or {})
        if isinstance(task, str):
            found[item.number] = Answered([ItemPrediction(None, reason=task)] * len(predictors))
        else:
            tasks[item.number] = task
    keys = {number: _up_to_names(record.items[number], task) for number, task in tasks.items()}
    distinct = {keys[number]: task for number, task in tasks.items()}
    answers: dict[ProgramAtSizes, Answered] = {}
    runner = TaskRunner(partial(_predicted, predictors, transform, typical), executor, time_limit)
    for task, answer in runner.about(distinct.values()):
        if isinstance(answer, Unanswered):
            answer = Answered([ItemPrediction(None, reason=answer.reason)] * len(predictors))
        answers[task] = answer
        if progress is not None:
            progress(len(answers), len(distinct))
    return found | {number: answers[distinct[key]] for number, key in keys.items()}


def _task_of(record: Record, item: Item, scale: Mapping[str, float]) -> ProgramAtSizes | str:
    """Return what to predict for *item*, with sizes times *scale*, or the reason if nothing can be predicted."""
    if item.work == "elementwise":
        stream = _stream(item)
        return stream if isinstance(stream, str) else ProgramAtSizes(*stream)
    if item.program is None:
        return item.problem or (
            "a transfer" if item.work == "transfer" else "no kernel of Loopy or elementwise arithmetic"
        )
    program = record.programs[item.program]
    if program.problem or item.problem:
        return program.problem or item.problem
    left_out = item.layout if scale else ()  # larger arrays are contiguous
    sizes = {name: round(size * scale.get(name, 1)) for name, size in item.sizes.items() if name not in left_out}
    return ProgramAtSizes(program.text, tuple(sorted(sizes.items())))


def _up_to_names(item: Item, task: ProgramAtSizes) -> tuple[str, Any]:
    return task.text.replace(f'"{item.name}"', '"kernel"'), task.sizes


def _predicted(
    predictors: Sequence[Predictor],
    transform: Transform | None,
    typical: Mapping[str, Any] | None,
    task: ProgramAtSizes,
) -> Answered:
    """Return the prediction of *task* by each of *predictors*, and its operations and accesses."""
    case = to_predict(program_of(task.text), dict(task.sizes), transform, typical)
    sequential = [ItemPrediction(None, reason=SEQUENTIAL)] * len(predictors) if is_sequential(case.kernel) else None
    return Answered(sequential or [_by(predictor, case) for predictor in predictors], *_counted(case))


def _counted(case: Case) -> tuple[float | None, float | None]:
    """Return the floating-point operations of *case*, and the bytes of its accesses of global memory."""
    try:
        numbers = count(case.kernel, typical=case.typical).properties().evaluate(**case.sizes)
    except LoopyperfError:
        return None, None
    flops = accessed = 0.0
    for name, number in numbers.items():
        match _item(name):
            case Operation(dtype=dtype) if dtype.startswith("f"):
                flops += float(number)
            case Access(space=MemorySpace.GLOBAL, bits=bits):
                accessed += float(number) * bits / 8
            case _:
                pass
    return flops, accessed


def _item(name: str) -> object:
    try:
        return item_named(name)
    except ParameterError:  # a minimum of loads and stores, which are counted too
        return None


def to_predict(
    program: lp.TranslationUnit,
    sizes: Mapping[str, int],
    transform: Transform | None = None,
    typical: Mapping[str, Any] | None = None,
) -> Case:
    """Return what a GPU would execute: *program* for a GPU, transformed if it is sequential, at its parameters."""
    if not isinstance(program.target, GPU_TARGETS):
        program = program.copy(target=lp.PyOpenCLTarget())
    if transform is not None and is_sequential(program):
        program = transform(program)
    parameters = prepared(program).parameters
    return Case(program, {name: size for name, size in sizes.items() if name in parameters}, typical)


def _by(predictor: Predictor, case: Case) -> ItemPrediction:
    try:
        estimate = predictor.predict(case)
    except LoopyperfError as error:
        return ItemPrediction(None, reason=one_line(error))
    interval = None if estimate.interval is None else (float(estimate.interval[0]), float(estimate.interval[1]))
    return ItemPrediction(float(estimate), estimate.bound, interval)


def is_sequential(program: Program) -> bool:
    """Return whether no loop of *program* runs over groups or work-items."""
    program = as_translation_unit(program)
    kernels = [each.subkernel for each in program.callables_table.values() if isinstance(each, CallableKernel)]
    tags = (tag for kernel in kernels for iname in kernel.inames.values() for tag in iname.tags)
    has_loops = any(kernel.inames for kernel in kernels)
    return has_loops and not any(isinstance(tag, LocalInameTagBase | GroupInameTag) for tag in tags)


def _stream(item: Item) -> tuple[str, tuple[tuple[str, int], ...]] | str:
    """Return a program that stores the first array of *item* from all others, and its sizes; a reason if there is none.

    It stands for elementwise arithmetic of pyopencl, which is bound by memory.
    """
    shapes = [(int(np.prod(each.shape, dtype=np.int64)), np.dtype(each.dtype)) for each in item.arrays.values()]
    shapes = [*shapes[:1], *(each for each in shapes[1:] if each[0] > 1 or shapes[0][0] == 1)]  # scalars are cached
    lengths = {length for length, _ in shapes}
    if len(lengths) != 1 or not all(dtype.kind in "iufb" for _, dtype in shapes):
        return "elementwise arithmetic of arrays that differ in size, or of complex numbers"
    inputs = [f"in{place}" for place in range(len(shapes) - 1)]
    names = ["out", *inputs]
    kernel = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"out[i] = {' + '.join(f'{name}[i]' for name in inputs) or '0'}",
        [
            *(lp.GlobalArg(name, dtype, shape="n") for name, (_, dtype) in zip(names, shapes, strict=True)),
            lp.ValueArg("n", np.int64),
        ],
        assumptions="n >= 1",
        name=re.sub(r"\W", "_", item.name),
        lang_version=(2018, 2),
    )
    kernel = lp.split_iname(kernel, "i", GROUP, outer_tag="g.0", inner_tag="l.0")
    return program_text(kernel), (("n", lengths.pop()),)
