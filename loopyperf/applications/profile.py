"""The function :func:`profile`: record an application, and predict how long its kernels take on other devices."""

import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from loopyperf.applications.application import ApplicationProfile, HostLink, profile_of
from loopyperf.applications.program_text import program_text
from loopyperf.applications.projection import Transform, predictions
from loopyperf.applications.record import Event, Item, ProgramLine, Record, Start, read_record
from loopyperf.applications.recorder import Recorder
from loopyperf.calibration.choice import FitChoice
from loopyperf.device.device_library import DeviceChoice
from loopyperf.errors import ParameterError
from loopyperf.executors import Processes
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.predict.estimate import predictor
from loopyperf.stages.compile import Compiler

Planned = tuple[Program, Mapping[str, int], int]
"""(kernel, sizes, number of calls)"""


def project(
    work: "str | PathLike[str] | Record | Iterable[Planned]",
    devices: Sequence[DeviceChoice | None],
    *,
    model: str | None = None,
    fit: FitChoice | None = None,
    compiler: Compiler = "model",
    transform: Transform | None = None,
    typical: Mapping[str, Any] | None = None,
    scale: Mapping[str, float] | None = None,
    link: HostLink | None = None,
    executor: Executor | Processes | None = None,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ApplicationProfile:
    """Predict how long the kernels of an application take on *devices*.

    Parameters
    ----------
    work : path, Record or iterable of (kernel, sizes, calls)
        A record of :func:`profile`; or what the application would execute, without running anything.
    devices : sequence
        Devices as in :func:`loopyperf.estimate`, at least one.
    model, fit, compiler
        As in :func:`loopyperf.estimate`.
    transform : callable, optional
        Function from a program to a program, such as arraycontext's ``transform_loopy_program``. It is applied to
        programs without parallel loops, which are not predicted otherwise.
    typical : dict, optional
        Typical values for what a program's source does not determine (see :func:`loopyperf.count`).
    scale : dict, optional
        Size name -> factor by which that size of each kernel is multiplied, for a larger problem than the recorded one.
        Kernels of pyopencl and transfers stay as they were.
    link : HostLink, optional
        Link between host and device, by default PCIe 4.0.
    executor, time_limit
        As in :func:`loopyperf.rank`: where distinct kernels are predicted, and seconds for each.
    progress : callable, optional
        Called with the numbers of predicted and of all distinct kernels.

    Returns
    -------
    ApplicationProfile
        For each kernel and call site the number of calls, the measured seconds, and those predicted for each device;
        printing it shows a table.

    Raises
    ------
    RecordError
        The file is not a record.
    UnknownDeviceError, ParameterError
        An option is invalid.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> planned = lpp.project([(knl, {"n": 2**24}, 100)], ["nvidia-titan-v"], model="roofline")
    >>> f"{planned.wholes[0].seconds:.1e} s, {planned.rows[0].on[0].bound}"
    '2.4e-02 s, DRAM'
    """
    if not devices:
        raise ParameterError("name at least one device, e.g. devices=['nvidia-h200']")
    if isinstance(work, str | PathLike):
        record = read_record(Path(work))
    else:
        record = work if isinstance(work, Record) else planned(work)
    known = frozenset(name for item in record.items for name in item.sizes if name not in item.layout)
    if unknown := sorted((scale or {}).keys() - known):
        raise ParameterError(
            f"no kernel has the size {', '.join(unknown)}; sizes: {', '.join(sorted(known)) or 'none'}"
        )
    predictors = [predictor(device=each, model=model, fit=fit, compiler=compiler) for each in devices]
    found = predictions(
        record, predictors, transform=transform, typical=typical, scale=scale, executor=executor, time_limit=time_limit,
        progress=progress,
    )  # fmt: skip
    profile = profile_of(record, predictors, found, link or HostLink())
    if not scale:
        return profile
    scaled = ", ".join(f"{name} × {factor:g}" for name, factor in scale.items())
    return replace(profile, notes=[*profile.notes, f'kernels are predicted for {scaled}, what is "here" is not'])


def planned(work: Iterable[Planned]) -> Record:
    """Return a record of kernels that were not executed, called from nowhere."""
    record = Record(Start(0, [], "", {}))
    for number, (program, sizes, calls) in enumerate(work):
        unit = as_translation_unit(program)
        name = unit.default_entrypoint.name
        record.add(ProgramLine(number, name, program_text(unit)))
        record.add(Item(number, "kernel", name, number, {key: int(size) for key, size in sizes.items()}))
        record.events += [Event(number, -1, 0.0, 0.0, None)] * calls
    return record


@dataclass
class ApplicationRecording:
    """A running or finished recording; :func:`profile` returns it."""

    devices: Sequence[DeviceChoice | None]
    """devices of the predictions"""
    path: Path
    """file of the record"""
    options: Mapping[str, Any]
    """options of :func:`project`"""
    is_temporary: bool
    """whether the file is removed after the block"""
    record: Record | None = None
    """what was recorded, once the block is left"""
    _recorder: Recorder | None = field(default=None, repr=False)
    _result: ApplicationProfile | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        """Start to record."""
        self._recorder = Recorder(self.path, sys.argv)
        self._recorder.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Stop to record; an exception of the block is noted in the record."""
        assert self._recorder is not None
        self._recorder.stop("complete" if kind is None else kind.__name__)
        self.record = read_record(self.path)
        if self.is_temporary:
            self.path.unlink()

    @property
    def result(self) -> ApplicationProfile:
        """Return the predicted times, computed at the first access; raises :class:`ParameterError` inside the block."""
        if self.record is None:
            raise ParameterError("the profile is complete after its with block")
        if self._result is None:
            self._result = project(self.record, self.devices, **self.options)
        return self._result

    def __str__(self) -> str:
        return "a recording" if self.record is None else str(self.result)


def profile(
    devices: Sequence[DeviceChoice | None], *, record: str | PathLike[str] | None = None, **options: Any
) -> ApplicationRecording:
    """Record the kernels that Loopy executes in a ``with`` block, and predict their times on *devices*.

    Kernels of Loopy's PyOpenCL and C targets are recorded, elementwise arithmetic, reductions and scans of pyopencl,
    and transfers. Their times on this device are known if the queue was created with
    ``pyopencl.command_queue_properties.PROFILING_ENABLE``. ``loopyperf profile`` records a whole program.

    Parameters
    ----------
    devices : sequence
        Devices to predict for, as in :func:`loopyperf.estimate`.
    record : path, optional
        File for the record, from which :func:`project` predicts for other devices later.
    **options
        Options of :func:`project`.

    Returns
    -------
    ApplicationRecording
        A context manager; after the block, its ``result`` is an :class:`ApplicationProfile`.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     assumptions="n >= 1",
    ...     target=lp.ExecutableCTarget(),
    ...     lang_version=(2018, 2),
    ... )
    >>> execute = knl.executor()
    >>> with lpp.profile(["nvidia-h200"], transform=lpp.parallelized) as profiled:
    ...     _ = execute(a=np.ones(1000, np.float32))
    >>> [(row.called, row.calls) for row in profiled.result.rows]
    [('doubled(n=1000)', 1)]
    """
    if record is not None:
        return ApplicationRecording(devices, Path(record), options, is_temporary=False)
    with tempfile.NamedTemporaryFile(suffix=".lpp", delete=False) as file:
        return ApplicationRecording(devices, Path(file.name), options, is_temporary=True)
