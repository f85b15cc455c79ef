"""The function :func:`measure`, which times a kernel on a device beside its prediction."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, called
from loopyperf.errors import LoopyperfError, one_line
from loopyperf.kernel import Program
from loopyperf.measurement.arguments import TOLERANCE, generated_indices_note, verify
from loopyperf.measurement.backends import opened
from loopyperf.measurement.backends.backend import Backend
from loopyperf.measurement.drift_monitor import measured
from loopyperf.measurement.environment import Array
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.estimate import predicted_by, predictor_for_measured
from loopyperf.predict.sampled import made_case
from loopyperf.stages.case import Case, merged_sizes, prepared
from loopyperf.stages.compile import Compiler
from loopyperf.units import duration, in_percent


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredKernel(Tabular):
    """Measured run times of a kernel beside the predicted one; :func:`loopyperf.measure` returns it."""

    _DERIVED = ("ratio",)

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device that was measured"""
    seconds: float
    """least wall-clock seconds of a run"""
    median: float
    """median seconds"""
    spread: float
    """relative distance of the median above the least"""
    runs: int
    """number of runs that count"""
    predicted: float | None
    """predicted seconds on the same device; None without a prediction"""
    model: str
    """model of the prediction; empty without one"""
    notes: tuple[str, ...]
    """why there is no prediction, and notes on it"""

    @property
    def ratio(self) -> float | None:
        """Return the predicted over the measured time."""
        return None if self.predicted is None or not self.seconds else self.predicted / self.seconds

    def report_text(self) -> ReportText:
        """Return the measured and the predicted time, their ratio, and the spread of the runs."""
        known = self.predicted is not None and self.ratio is not None
        row = (
            duration(self.predicted) if self.predicted is not None and known else "–",
            duration(self.seconds),
            f"{self.ratio:.2f}" if known else "–",
            duration(self.median),
            in_percent(self.spread, 2),
            str(self.runs),
        )
        return ReportText(
            question=f"{called(self.kernel, self.sizes)} on {self.device}",
            answer=f"{duration(self.seconds)} measured",
            tables=[Table(("predicted", "measured", "ratio", "median", "spread", "runs"), [row], text=0)],
            remarks=[f"model {self.model}"] if self.model else [],
            notes=self.notes,
            alone=duration(self.seconds),
        )


def measure(
    program: Program,
    /,
    *,
    backend: str | Backend = "opencl",
    arguments: Mapping[str, Any] | None = None,
    reference: Mapping[str, Array] | None = None,
    protocol: Protocol | None = None,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> MeasuredKernel:
    """Measure the run time of a kernel on a device, and predict it.

    Parameters
    ----------
    program : TranslationUnit
        The kernel.
    backend : {"opencl", "cuda"} or Backend
        Where it runs (``loopyperf.measurement.backends.open_backend``).
    arguments : dict, optional
        Kernel arguments by name; missing ones are generated.
    reference : dict of str to numpy.ndarray, optional
        Expected results by array name; without them, results are not checked.
    protocol : Protocol, optional
        How often it runs.
    device, model, fit, compiler, typical, parameters, **sizes
        As in :func:`loopyperf.estimate`, each size one integer; *device* is by default the one that is measured.

    Returns
    -------
    MeasuredKernel
        Least, median and spread of the wall-clock times, in seconds, and the prediction. If there is none, a note
        says why.

    Raises
    ------
    BackendError
        There is no device.
    MeasurementError
        The kernel cannot be compiled or run, or a result differs from *reference*.
    ParameterError
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
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> found = lpp.measure(knl, n=2**16, backend="opencl", device="nvidia-titan-v")  # doctest: +SKIP
    >>> found.seconds <= found.median  # doctest: +SKIP
    True
    """
    merged = merged_sizes(parameters, sizes)
    machine = opened(backend)
    rules = protocol or Protocol()

    def check(results: Mapping[str, Array]) -> None:
        if reference is not None:
            verify(results, reference, TOLERANCE)

    case = made_case(program, merged, arguments, check=check)
    summary = rules.summary(measured(machine, case, rules).wall)
    predicted, notes = None, tuple[str, ...]()
    try:
        slug = machine.environment.slug
        by = predictor_for_measured(slug, device=device, model=model, fit=fit, compiler=compiler)
        _, predicted = predicted_by(by, Case(program, merged, typical), model is fit is None, compiler)
        notes = predicted.notes
    except LoopyperfError as error:
        notes = (f"no prediction: {one_line(error)}",)
    return MeasuredKernel(
        kernel=case.kernel_class,
        sizes=merged,
        device=machine.environment.slug,
        seconds=summary.minimum,
        median=summary.median,
        spread=summary.spread,
        runs=summary.runs,
        predicted=None if predicted is None else float(predicted),
        model="" if predicted is None else predicted.model,
        notes=(*notes, *generated_indices_note(prepared(program, merged).loopy_kernel, arguments)),
    )
