"""Predictions from samples: arguments are generated, part of the kernel is executed, and the model extrapolates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

import loopy as lp
import numpy as np
from loopy.translation_unit import TranslationUnit
from loopy.types import LoopyType

from loopyperf.counts.sizes import Typical
from loopyperf.errors import ParameterError
from loopyperf.kernel import Kernel, Program, as_translation_unit
from loopyperf.measurement.arguments import generated_indices_note, made_arguments
from loopyperf.measurement.backends import RUNNING, opened
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase, RunsParts
from loopyperf.measurement.environment import Arguments, Array, Configuration, Sizes
from loopyperf.measurement.samples import SampledKernel, SamplingTask, take_samples
from loopyperf.models.result import Estimate, ModelTime
from loopyperf.models.sampling import sampled_time
from loopyperf.predict.estimate import Options
from loopyperf.predict.on_device import answered_at, device_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, admitted_sizes, prepared
from loopyperf.stages.timing import groups_at_once

BackendChoice = str | Backend | RunsParts
"""the name of a backend, or an open one"""
GivenArguments = Mapping[str, Any] | None


def opened_for_parts(backend: BackendChoice | None, device: object = None) -> RunsParts:
    """Return *backend*, opened on the device whose name contains *device*.

    Raises :class:`ParameterError` for None and for a backend that cannot run part of a kernel, and
    :class:`BackendError` if there is no device.
    """
    running = " or ".join(map(repr, RUNNING))
    if backend is None:
        raise ParameterError(f"this model executes part of the kernel; pass a backend: {running}")
    found = opened(backend, device)
    if not isinstance(found, RunsParts):
        raise ParameterError(f"the backend must be {running} or an open backend that runs kernels, got {backend!r:.80}")
    return found


@dataclass(frozen=True, eq=False)
class SampledPredictor(Predictor):
    """The sampled model: the first work-groups are executed; others are assumed to take as long per unit of work."""

    machine: RunsParts = field(kw_only=True)
    """backend that executes them"""
    arguments: GivenArguments = field(default=None, kw_only=True)
    """kernel arguments by name; missing ones are generated"""

    executes_kernels: ClassVar[bool] = True

    def predict(self, case: Case) -> Estimate:
        """Return the predicted run time of *case*; raises what :func:`samples_of` raises."""
        return device_estimate(self, case, *answered_at(case, self._answer))

    def _answer(self, case: Case) -> tuple[str, ModelTime]:
        sampled = samples_of(case, self.machine, self.arguments)
        answer = sampled_time(sampled.programs, sampled.launching)
        notes = (*answer.notes, *sampled.notes(float(answer.seconds)))
        return prepared(case.kernel).name, replace(answer, notes=notes)


def bound(model: str, options: Options) -> Predictor:
    """Return the predictor for the given options."""
    options.check_unused(repr(model), "fit", "counting", "compiler")
    machine = opened_for_parts(options.backend, options.device)
    return SampledPredictor(model, machine.environment.slug, machine=machine, arguments=options.arguments)


def samples_of(case: Case, backend: RunsParts, arguments: GivenArguments) -> SampledKernel:
    """Return the samples of *case* on *backend*, with *arguments*; missing arguments are generated.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, :class:`MeasurementError` for
    a kernel that cannot run or launches no groups, and :class:`KernelError` for one that Loopy cannot preprocess.
    """
    run = made_case(case.kernel, case.sizes, arguments)
    kernel = prepared(case.kernel, run.sizes)
    task = SamplingTask(backend, run, kernel, run.sizes, Typical(case.typical or {}))
    described = groups_at_once(replace(case, sizes=run.sizes), backend.environment.slug)
    found = take_samples(task, described=described)
    if not found.programs:
        raise ParameterError(f"kernel {kernel.name!r} launches no groups at {dict(run.sizes)}; nothing to sample")
    generated = generated_indices_note(kernel.loopy_kernel, arguments)
    return replace(found, doubts=(*prepared(case.kernel, case.sizes).assumed, *found.doubts, *generated))


# {{{ programs for a backend


def made_case(
    program: Program,
    sizes: Mapping[str, Any],
    arguments: Mapping[str, Any] | None = None,
    label: str = "",
    check: Callable[[Mapping[str, Array]], None] | None = None,
) -> BenchmarkCase:
    """Return *program* at *sizes* with *arguments*, for execution on a backend; missing arguments are generated.

    *check* receives the results. Without it, the program can only run in parts, whose results cannot be checked.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, and :class:`KernelError` for
    a kernel that Loopy cannot preprocess.
    """
    kernel = prepared(program, sizes)
    admitted = kernel.with_contiguous(admitted_sizes(kernel, sizes))
    made = cache(lambda: made_arguments(kernel.loopy_kernel, admitted, arguments or {}))
    made()  # raises errors before compilation
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
    """Return *unit* with the types that Loopy has inferred for arguments without a type, as sizes often are."""
    inferred = {each.name: each.dtype for each in kernel.loopy_kernel.args}
    untyped = [each.name for each in unit.default_entrypoint.args if not isinstance(each.dtype, LoopyType)]
    return lp.add_dtypes(unit, {name: inferred[name] for name in untyped if name in inferred})


# }}}
