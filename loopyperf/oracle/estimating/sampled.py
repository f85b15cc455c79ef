"""Estimates by running a part of a kernel: arguments are made, samples are taken, and the model is asked."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopyperf.counts.typical import Typical
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.measurement.backends import RUNNING
from loopyperf.measurement.backends.interface import Backend
from loopyperf.measurement.backends.parts import RunsParts
from loopyperf.measurement.configuration import Sizes
from loopyperf.measurement.made_arguments import indices_made_up
from loopyperf.models.interface import SampledModel
from loopyperf.models.result import Estimate, ModelTime
from loopyperf.oracle.analysis import prepared
from loopyperf.oracle.estimating.by_device import answered_at, device_estimate
from loopyperf.oracle.made_case import made_case
from loopyperf.oracle.measuring import opened
from loopyperf.oracle.samples.saturations import described_saturations
from loopyperf.oracle.samples.taking import SampledKernel, SamplingTask, take_samples
from loopyperf.properties.unified import item_named

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
        raise ParameterError(f"this model runs a part of the kernel, and needs a device to run it on: give {runnable}")
    found = opened(backend, device)
    if not isinstance(found, RunsParts):
        raise ParameterError(f"a backend that runs kernels is needed, 'opencl' or 'cuda'; received {backend!r}")
    return found


def estimate_sampled(
    program: Program,
    model: SampledModel,
    backend: RunsParts,
    arguments: Stated,
    typical: Stated,
    sizes: Mapping[str, Any],
) -> Estimate:
    """Return how long *program* runs at *sizes* on the device of *backend* by *model*; see :func:`loopyperf.estimate`.

    Raises what :func:`samples_of` raises.
    """
    kernel, answer = answered_at(program, sizes, lambda one: _answer(program, model, backend, arguments, typical, one))
    return device_estimate(kernel, model.name, backend.environment.slug, sizes, answer, typical)


def samples_of(
    program: Program, backend: RunsParts, arguments: Stated, typical: Stated, sizes: Mapping[str, Any]
) -> SampledKernel:
    """Return the samples of *program* at *sizes* on *backend*, with *arguments*, and others that are made up.

    Raises :class:`ParameterError` for sizes and arguments that the kernel does not take, :class:`MeasurementError` for
    a kernel that cannot be run, or launches nothing, and :class:`KernelError` for one that Loopy cannot prepare.
    """
    case = made_case(program, sizes, arguments)
    kernel = prepared(program, case.sizes)
    task = SamplingTask(backend, case, kernel, case.sizes, Typical(typical or {}, item_named))
    found = take_samples(task, described=described_saturations(program, backend, typical, case.sizes))
    if not found.programs:
        raise ParameterError(f"at {dict(case.sizes)} {kernel.name} launches no groups: there is nothing to sample")
    zeros = indices_made_up(kernel.loopy_kernel, arguments or {})
    made_up = (f"no arguments were given for {', '.join(zeros)}: taken as zeros",) if zeros else ()
    return replace(found, doubts=(*prepared(program, sizes).assumed, *found.doubts, *made_up))


def _answer(
    program: Program, model: SampledModel, backend: RunsParts, arguments: Stated, typical: Stated, sizes: Sizes
) -> tuple[str, ModelTime]:
    taken = samples_of(program, backend, arguments, typical, sizes)
    answer = model.time(taken.programs, taken.launching)
    return prepared(program).name, replace(answer, notes=(*answer.notes, *taken.notes(float(answer.seconds))))
