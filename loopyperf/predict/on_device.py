"""Predictions by models of a device: the kernel's graphs are built at each size, unless the answer is cached.

The cache holds answers at single sizes. Its key is the program, the size, typical values, all device parameters, and
the model or the whole fit except its creation time.

If it is unsure which private arrays the compiler keeps in registers, the kernel is analyzed again with the other
placement. The second analysis reuses the source graphs; it is skipped if the placement is certain.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from loopyperf.compiler import Placement
from loopyperf.compiler.machine_program import MachineProgram, compile_profile
from loopyperf.device.description import Device
from loopyperf.device.substitutes import completed
from loopyperf.errors import LoopyperfError, UnknownDeviceError
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.program_timing import timing
from loopyperf.models.result import (
    Alternative,
    Answer,
    Breakdown,
    BreakdownRow,
    Clock,
    Estimate,
    ModelTime,
    Seconds,
    answer_as_json,
    common,
    no_interval,
    read_answer,
)
from loopyperf.models.workload import HOST_WAIT
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.polyhedral.evaluation import integer_array
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.cache import ResultKind
from loopyperf.stages.case import Case, common_shape, look_up, prepared
from loopyperf.stages.compile import Compiler, machine_program, versions_of
from loopyperf.stages.profile import kernel_profile
from loopyperf.stages.timing import timed_program
from loopyperf.units import duration, listed

Time = Callable[[TimedProgram], ModelTime]
Interval = tuple[Seconds, Seconds]
SIMULATED = "pipeline"
"""the model that simulates"""
BOUND = "roofline"
"""the model that is a lower bound"""
MAX_NAMED = 3
"""largest number of arrays that a sentence names"""
ANSWERS = ResultKind[Answer]("answer", 4096, answer_as_json, read_answer)
"""cached answers; each takes some kilobytes of memory"""
COUNTING = "executed"
"""how graphs count work"""
NOT_FITTED = no_interval("the model is not calibrated on this device")


@dataclass(frozen=True, eq=False)
class DevicePredictor(Predictor):
    """A model of a device; it evaluates the kernel's timed graphs, built at each size."""

    parameters: Device = field(kw_only=True)
    """parameters of the device"""
    alternatives: bool = field(default=True, kw_only=True)
    """whether to also predict the time for the other placement of private arrays if the placement is unsure"""
    compiler: Compiler = field(default="model", kw_only=True)
    """source of register counts, spills and the placement of private arrays"""

    def predict(self, case: Case) -> Estimate:
        """Return the predicted run time of *case*; see :func:`loopyperf.estimate`."""
        clock = "device" if self.fit is None else "wall"
        return device_estimate(self, case, *answered_at(case, self._answer), clock)

    def time(self, kernel: TimedProgram) -> ModelTime:
        """Return the predicted run time of *kernel*, in seconds, without alternatives."""
        answer = DEVICE_MODELS[self.model].time(kernel)
        return replace(answer, notes=(*answer.notes, NOT_FITTED))

    @property
    def device_parameters(self) -> Device:
        """Return the parameters that the model uses."""
        return self.parameters

    @property
    def depends_on(self) -> tuple[object, ...]:
        """Return what times depend on besides the kernel and the device: the model, the fit, and the compiler."""
        fit = None if self.fit is None else structs.replace(self.fit, created=None)
        return self.model, fit, *versions_of(self.compiler)

    def machine(self, case: Case) -> MachineProgram:
        """Return the machine program of *case*."""
        return machine_program(case, device=self.parameters, compiler=self.compiler)

    def timing(self, case: Case) -> TimedProgram:
        """Return the timed program of *case*."""
        return timed_program(case, device=self.parameters, compiler=self.compiler)

    def _answer(self, case: Case) -> Answer:
        """Return the kernel's name and the model's answer at one size, from the cache if it is there."""
        model, fit, *by = self.depends_on
        key = (model, fit, self.alternatives, self.parameters, case.typical, case.sizes, *by)
        lookup = look_up(ANSWERS, case.kernel, key)
        return lookup.found or lookup.keep(self._through_all_stages(case))

    def _through_all_stages(self, case: Case) -> Answer:
        """Return the kernel's name and the model's answer: every stage of a prediction, in order."""
        device, compiler = self.parameters, self.compiler
        profile = kernel_profile(case, device=device)  # kernel/, idg/, memory/: instructions of warps, their accesses
        machine = machine_program(case, device=device, compiler=compiler)  # compiler/: machine instructions, registers
        timed = timed_program(case, device=device, compiler=compiler)  # models/: time and pipeline of each instruction
        answer = self.time(timed)  # models/: the run time and its breakdown
        if self.alternatives:
            answer = with_alternatives(answer, profile, machine, device, self.time)
        return profile.kernel, replace(answer, unsure=tuple(machine.unsure), notes=(*answer.notes, *machine.notes))


def simulator_of(predictor: Predictor) -> DevicePredictor:
    """Return *predictor* if it models the pipelines of its device, else the simulator of the device.

    Raises :class:`UnknownDeviceError` if the device has no parameters.
    """
    if isinstance(predictor, DevicePredictor):
        return predictor
    if (device := predictor.device_parameters) is None:
        raise UnknownDeviceError(
            f"{predictor.device!r} has no device parameters, which the simulator needs; name a device that has them"
        )
    return DevicePredictor(SIMULATED, device.slug, parameters=device)


def device_estimate(
    predictor: Predictor, case: Case, kernel: str, answer: ModelTime, clock: Clock = "wall"
) -> Estimate:
    """Return a model's *answer* for *case*, by *clock*, as an estimate of *kernel*."""
    return Estimate(
        kernel=kernel,
        sizes=dict(case.sizes),
        device=predictor.device,
        model=predictor.model,
        counting=COUNTING,
        seconds=answer.seconds,
        breakdown=answer.breakdown,
        interval=answer.interval,
        notes=(*predictor.notes, *answer.notes),
        unsure=answer.unsure,
        alternatives=answer.alternatives,
        left_out=answer.left_out,
        typical=dict(case.typical or {}),
        columns=answer.columns,
        clock=clock,
    )


def on_wall_clock(estimate: Estimate, by: Predictor) -> Estimate:
    """Return an *estimate* of *by* as wall-clock time: to a device time, add the host's time to launch and wait."""
    if estimate.clock == "wall" or by.device_parameters is None:
        return estimate
    known = completed(by.device_parameters)
    wait, number = known.host_wait or 0.0, known.source("host_wait")
    note = f"host wait of {known.slug}: {duration(wait)} ({number.source if number else 'unknown'})"
    breakdown = Breakdown((*estimate.breakdown.rows, BreakdownRow(HOST_WAIT, "host", 1, wait, wait)))
    return replace(
        estimate,
        seconds=breakdown.seconds,
        breakdown=breakdown,
        alternatives=tuple(replace(each, seconds=each.seconds + wait) for each in estimate.alternatives),
        notes=(note, *estimate.notes),
        clock="wall",
    )


def answered_at(case: Case, answer: Callable[[Case], Answer]) -> Answer:
    """Return what *answer* returns for *case*; if a size is an array, the answers at all sizes as one batch.

    The breakdown of a batch is by property only, not by source.
    """
    sizes = case.sizes
    arrays = {
        name: integer_array(name, cast("object", size)) for name, size in sizes.items() if isinstance(size, np.ndarray)
    }
    if not arrays:
        return answer(case)
    shape = common_shape({name: array.shape for name, array in arrays.items()})
    every = {name: np.broadcast_to(array, shape) for name, array in arrays.items()}
    points = [{name: int(array.flat[index]) for name, array in every.items()} for index in range(int(np.prod(shape)))]
    if not points:
        return prepared(case.kernel).name, ModelTime(np.zeros(shape), Breakdown(()))
    answers = [answer(replace(case, sizes={**sizes, **point})) for point in points]
    return answers[0][0], _together([each for _, each in answers], shape)


def _together(answers: Sequence[ModelTime], shape: tuple[int, ...]) -> ModelTime:
    names = dict.fromkeys(row.property for answer in answers for row in answer.breakdown.rows)
    costs = [{cost.property: cost for cost in answer.breakdown.costs()} for answer in answers]

    def over(values: list[Any]) -> NDArray[Any]:
        return np.array(values, dtype=np.float64).reshape(shape)

    rows: list[BreakdownRow] = []
    for name in names:
        found = [known.get(name) for known in costs]
        counts = over([0 if cost is None else cost.count for cost in found])
        part = over([0.0 if cost is None else cost.seconds for cost in found])
        rows.append(BreakdownRow(name, "", counts, common(cost.each for cost in found if cost is not None), part))
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))
    ends = [answer.interval for answer in answers if answer.interval is not None]
    spread = (over([low for low, _ in ends]), over([high for _, high in ends])) if len(ends) == len(answers) else None
    unsure = tuple(dict.fromkeys(name for answer in answers for name in answer.unsure))
    return ModelTime.of(
        rows,
        notes=notes,
        interval=spread,
        unsure=unsure,
        alternatives=batched_alternatives(answers, shape),
        left_out=tuple(dict.fromkeys(name for answer in answers for name in answer.left_out)),
        columns=answers[0].columns,
    )


# {{{ other placements of private arrays


def with_alternatives(
    answer: ModelTime, profile: KernelProfile, machine: MachineProgram, device: Device, time: Time
) -> ModelTime:
    """Return the *answer* of *time* with the run times for other placements of unsure private arrays.

    If several arrays are unsure, all of them are placed in registers, or all of them in local (stack) memory. An
    interval spans the intervals of all placements. A placement without a time is mentioned in the notes.
    """
    found: list[Alternative] = []
    spreads = [answer.interval]
    notes: list[str] = []
    for placement in machine.alternatives:
        arrays = moved(machine, placement)
        assumption = f"{arrays_in_words(arrays)} in {placement}"
        try:
            moved_arrays = compile_profile(profile, device, placement, compiled=machine.compiled)
            otherwise = time(timing(moved_arrays, device))
        except LoopyperfError as error:
            notes.append(f"no time if {assumption}: {error}")
            continue
        reasons = dict.fromkeys(machine.unsure[name].reason for name in arrays)
        found.append(Alternative(otherwise.seconds, arrays, assumption, "; ".join(reasons)))
        spreads.append(otherwise.interval)
    return replace(
        answer,
        interval=_from_lowest_to_highest(spreads),
        notes=(*answer.notes, *notes),
        alternatives=tuple(found),
    )


def moved(machine: MachineProgram, placement: Placement) -> tuple[str, ...]:
    """Return the private arrays that *placement* places elsewhere than *machine* does."""
    return tuple(
        name
        for name, array in machine.unsure.items()
        if array.is_in_memory_by(machine.placement) != array.is_in_memory_by(placement)
    )


def arrays_in_words(arrays: Sequence[str]) -> str:
    """Return subject and verb of a sentence on *arrays*, e.g. ``"the private array acc is"``."""
    if len(arrays) == 1:
        return f"the private array {arrays[0]} is"
    return f"the private arrays {listed(arrays, MAX_NAMED)} are"


def _from_lowest_to_highest(spreads: Sequence[Interval | None]) -> Interval | None:
    known = [each for each in spreads if each is not None]
    if len(known) < len(spreads):
        return None
    return min((low for low, _ in known), key=float), max((high for _, high in known), key=float)


def batched_alternatives(answers: Sequence[ModelTime], shape: tuple[int, ...]) -> tuple[Alternative, ...]:
    """Return the alternatives of *answers* at several sizes as alternatives of one batch of shape *shape*.

    A size that lacks an alternative gets the time of its answer.
    """
    every = [{alternative.assumption: alternative for alternative in answer.alternatives} for answer in answers]
    found: list[Alternative] = []
    for assumption in dict.fromkeys(name for of_size in every for name in of_size):
        times = [
            of_size[assumption].seconds if assumption in of_size else answer.seconds
            for of_size, answer in zip(every, answers, strict=True)
        ]
        known = [of_size[assumption] for of_size in every if assumption in of_size]
        reasons = "; ".join(dict.fromkeys(each.reason for each in known))
        seconds = np.array(times, dtype=np.float64).reshape(shape)
        found.append(Alternative(seconds, known[0].arrays, assumption, reasons))
    return tuple(found)


# }}}
