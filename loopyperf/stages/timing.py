"""The third stage of a prediction: the timed program, on which all device models do only arithmetic."""

from collections.abc import Mapping
from typing import Any

from loopyperf.device.device_library import DeviceChoice, description_or_none, given_device
from loopyperf.errors import LoopyperfError
from loopyperf.kernel import Program
from loopyperf.models.program_timing import timing
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.stages.cache import ResultKind
from loopyperf.stages.case import Case, case_of, found_once
from loopyperf.stages.compile import Compiler, machine_program, versions_of

TIMED: ResultKind[TimedProgram] = ResultKind("timed", 1)
"""the latest timed program; see :data:`loopyperf.stages.profile.PROFILE`"""


def timed_program(
    program: Program | Case,
    /,
    *,
    device: DeviceChoice,
    compiler: Compiler = "model",
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> TimedProgram:
    """Return the instructions that a core executes for a kernel, and the latencies of each.

    Device models and the simulator do only arithmetic on this value.

    Parameters
    ----------
    program
        A Loopy kernel or translation unit, or a :class:`Case`, which has its sizes and typical values.
    device
        Name of a device, path of a device file, or a loaded device (see :func:`loopyperf.load_device`).
    compiler
        Source of registers, spills and the placement of private arrays (see :func:`loopyperf.estimate`).
    typical
        Typical values for what the source does not determine (see :func:`loopyperf.count`).
    parameters
        Sizes by name, for sizes whose names collide with an option.
    **sizes
        Values of the kernel's integer parameters.

    Returns
    -------
    TimedProgram
        The timed instructions, occupancy and memory traffic of each launch.

    Raises
    ------
    KernelError, UncountableError, UnknownDeviceError, ParameterError, OccupancyError
        As :func:`machine_program`.
    MissingNumberError
        If the device parameters lack a throughput that the kernel needs.

    Examples
    --------
    >>> import loopy as lp, loopyperf as lpp, numpy as np
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0<=i<n}",
    ...     "out[i] = 2*a[i]",
    ...     [lp.GlobalArg("a,out", np.float32, shape="n"), "..."],
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 128, outer_tag="g.0", inner_tag="l.0")
    >>> timed = lpp.timed_program(knl, device="nvidia-titan-v", n=1024)
    >>> timed.device.slug, timed.launches[0].warps_per_group
    ('nvidia-titan-v', 4)
    """
    case, known = case_of(program, typical, parameters, sizes), given_device(device)
    key = case.typical, case.sizes, known, *versions_of(compiler)
    return found_once(
        TIMED, case.kernel, key, lambda: timing(machine_program(case, device=known, compiler=compiler), known)
    )


def groups_at_once(case: Case, device: str) -> dict[str, int]:
    """Return launch -> the groups that all cores of *device* run at once, by its parameters; empty if unknown."""
    known = description_or_none(device)
    if known is None:
        return {}
    try:
        launches = timed_program(case, device=known).launches
        return {launch.name: launch.execution.concurrent_groups * known.needed("cores") for launch in launches}
    except LoopyperfError:
        return {}
