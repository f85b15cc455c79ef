"""What would a profiler count while a kernel runs on a device? The public function :func:`counters`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.errors import ParameterError
from loopyperf.kernel import Program
from loopyperf.models.on_device.counters import Counters, counters_of
from loopyperf.models.on_device.timing import notes_of
from loopyperf.predict.case import Case, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.compiled import Compiler, compiled_machine
from loopyperf.predict.stages import profile_of, timed_of


def counters(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    typical: Mapping[str, Any] | None = None,
    compiler: Compiler = "model",
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Counters:
    """Return what Nsight Compute is expected to count in each launch of *program*, by the names of its metrics.

    Sizes are single integers; *device*, *typical*, *compiler* and *parameters* are those of :func:`loopyperf.estimate`
    with a model of a device, which raises the same errors. Rates per cycle use the time of the model ``"pipeline"``.
    Raises :class:`ParameterError` for a device that is not NVIDIA's: others have no such metrics.
    """
    return counters_at(Case(program, merged_sizes(parameters, sizes), typical), chosen_device(device), compiler)


def counters_at(case: Case, device: Device, compiler: Compiler = "model") -> Counters:
    """Return what a profiler counts of *case* on *device*; see :func:`counters`."""
    if device.vendor != "NVIDIA":
        raise ParameterError(f"counters are those of NVIDIA's Nsight Compute; {device.slug!r} is {device.vendor}'s")
    profile = replace(profile_of(case, device), is_opencl=False)  # Nsight Compute profiles CUDA alone
    machine, _, notes = compiled_machine(case, profile, device, compiler)
    timed = timed_of(machine, device)
    return Counters(
        kernel=profile.kernel,
        sizes=dict(case.sizes),
        device=device.slug,
        launches=counters_of(machine, timed),
        notes=(*notes_of(timed), *notes),
        typical=dict(case.typical or {}),
    )
