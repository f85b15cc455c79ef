"""Predictions by executing a part of a kernel: arguments are made, samples are taken, and the model extrapolates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import loopy as lp
import numpy as np
from loopy.translation_unit import TranslationUnit
from loopy.types import LoopyType

from loopyperf.counts.property_vector import item_named
from loopyperf.counts.sizes import Typical
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, as_translation_unit
from loopyperf.measurement.arguments import indices_made_up, made_arguments
from loopyperf.measurement.backends import RUNNING, opened
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, RunsParts
from loopyperf.measurement.environment import Arguments, Array, Configuration, Sizes
from loopyperf.models.result import Estimate, ModelTime
from loopyperf.models.sampling import sampled_time
from loopyperf.predict.on_device import answered_at, device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, admitted_sizes, prepared
from loopyperf.stages.samples import SampledKernel, SamplingTask, saturation_notes, take_samples

BackendChoice = str | Backend | RunsParts
"""the name of a backend, or an open one"""
Stated = Mapping[str, Any] | None


def opened_for_parts(backend: BackendChoice | None, device: object = None) -> RunsParts:
    """Return the backend that is meant, on the device in whose name *device* occurs.

    Raises :class:`ParameterError` for none, and for one that cannot run a part of a kernel; :class:`BackendError` where
    there is no device.
    """
    if backend is None:
        runnable = " or ".join(f"backend={name!r}" for name in RUNNING)
        raise ParameterError(f"this model executes a part of the kernel: give {runnable}")
    found = opened(backend, device)
    if not isinstance(found, RunsParts):
        raise ParameterError(f"a backend that runs kernels is needed, 'opencl' or 'cuda'; received {backend!r}")
    return found


@dataclass(frozen=True, eq=False)
class SampledPredictor(Predictor):
    """The sampled model: the first groups of a kernel are executed, the others take as long for as much work."""

    machine: RunsParts = field(kw_only=True)
    """the backend that executes them"""
    arguments: Stated = field(default=None, kw_only=True)
    """of the kernel, by name; others are made up"""

    executes_kernels: ClassVar[bool] = True

    def predict(self, case: Case) -> Estimate:
        """Return how long *case* takes; raises what :func:`samples_of` raises."""
        return device_estimate(self, case, *answered_at(case, self._answer))

    def _answer(self, case: Case) -> tuple[str, ModelTime]:
        taken = samples_of(case, self.machine, self.arguments)
        answer = sampled_time(taken.programs, taken.launching)
        notes = (*answer.notes, *taken.notes(float(answer.seconds)))
        return prepared(case.kernel).name, replace(answer, notes=notes)


def samples_of(case: Case, backend: RunsParts, arguments: Stated) -> SampledKernel:
    """Return the samples of *case* on *backend*, with *arguments*, and others that are made up.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, :class:`MeasurementError` for
    a kernel that cannot be run, or launches nothing, and :class:`KernelError` for one that Loopy cannot prepare.
    """
    run = made_case(case.kernel, case.sizes, arguments)
    kernel = prepared(case.kernel, run.sizes)
    task = SamplingTask(backend, run, kernel, run.sizes, Typical(case.typical or {}, item_named))
    found = take_samples(task, described=saturation_notes(case.kernel, backend, case.typical, run.sizes))
    if not found.programs:
        raise ParameterError(f"at {dict(run.sizes)} {kernel.name} launches no groups: there is nothing to sample")
    zeros = indices_made_up(kernel.loopy_kernel, arguments or {})
    made_up = (f"no arguments were given for {', '.join(zeros)}: taken as zeros",) if zeros else ()
    return replace(found, doubts=(*prepared(case.kernel, case.sizes).assumed, *found.doubts, *made_up))


# {{{ a program as a backend runs it


def made_case(
    program: Program,
    sizes: Mapping[str, Any],
    arguments: Mapping[str, Any] | None = None,
    label: str = "",
    check: Callable[[Mapping[str, Array]], None] | None = None,
) -> BenchmarkCase:
    """Return *program* at *sizes* with *arguments*, and others that are made up, to be run on a backend.

    What it writes is given to *check*; without one, it can only be run in parts, whose results nobody knows.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, and :class:`KernelError` for
    one that Loopy cannot prepare.
    """
    kernel = prepared(program, sizes)
    admitted = kernel.with_contiguous(admitted_sizes(kernel, sizes))
    made = cache(lambda: made_arguments(kernel.loopy_kernel, admitted, arguments or {}))
    made()  # refused before anything is compiled
    unit = _typed(as_translation_unit(program), kernel)

    def arguments_of(_: np.random.Generator, __: Sizes) -> Arguments:
        return made()

    def unknown(_: Arguments) -> dict[str, Array]:
        raise ParameterError("a part of a kernel has no results to compare")

    configuration = Configuration(
        label=label or kernel.name,
        build=lambda: unit,
        sizes=(admitted,),
        arguments=arguments_of,
        reference=unknown,
        check=check,
    )
    return BenchmarkCase(kernel.name, configuration, admitted)


def _typed(unit: TranslationUnit, kernel: Kernel) -> TranslationUnit:
    """Return *unit* with the types that Loopy's passes have found for arguments that state none, as sizes often do."""
    found = {each.name: each.dtype for each in kernel.loopy_kernel.args}
    unstated = [each.name for each in unit.default_entrypoint.args if not isinstance(each.dtype, LoopyType)]
    return lp.add_dtypes(unit, {name: found[name] for name in unstated if name in found})


# }}}
