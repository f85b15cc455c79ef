"""Advice on making a kernel faster: changes with the predicted times after them."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from os.path import relpath
from pathlib import Path
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import ReportText, Table, Tabular, called, fields_of, plain
from loopyperf.errors import LoopyperfError
from loopyperf.explain.diagnosis import Diagnosis, diagnosed
from loopyperf.explain.explanation import bars, findings_table, recipes_in_text
from loopyperf.explain.findings import Finding
from loopyperf.explain.in_loopy import ChangeRecipe
from loopyperf.files import write_file
from loopyperf.kernel import Program
from loopyperf.models.result import Estimate
from loopyperf.predict.estimate import shown_estimate
from loopyperf.predict.predictor import Predictor
from loopyperf.stages.case import Case, one_size
from loopyperf.stages.compile import Compiler
from loopyperf.units import duration

MODULE = '''"""{kernel}, changed; before: {before}.

{steps}
"""

{imports}


{change}

def fixed():
    return change({name} if hasattr({name}, "entrypoints") else {name}())
'''
"""module with the changed kernel"""
COMBINED = 4
"""maximum number of changes that are combined"""


@dataclass(frozen=True, slots=True, repr=False)
class AdviceOnKernel(Tabular):
    """What would make a kernel faster."""

    _ROWS = "findings"
    _OMITTED = ("estimate", "diagnosis")

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """parameter values by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    estimate: Estimate
    """run time of the kernel"""
    diagnosis: Diagnosis
    """what limits the kernel, and the findings"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """the given typical iteration counts and condition shares, by name"""
    combined: tuple[Finding, ...] = ()
    """changes that help one after the other, each with the time after all of them up to it; empty without
    ``combine=True``"""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the changes that would help, each with the resulting time, largest gain first."""
        return self.diagnosis.findings

    @property
    def chosen(self) -> tuple[Finding, ...]:
        """Return the combined changes, or else the change with the largest gain; empty if Loopy can make none."""
        return self.combined or tuple(finding for finding in self.findings if finding.recipe.calls)[:1]

    @property
    def recipe(self) -> ChangeRecipe:
        """Return the recipe for the :attr:`chosen` changes; raises :class:`LoopyperfError` if there are none."""
        if not self.chosen:
            raise LoopyperfError("no change that Loopy can make by itself makes the kernel faster")
        calls = tuple(call for finding in self.chosen for call in finding.recipe.calls)
        return ChangeRecipe("; then ".join(finding.change for finding in self.chosen), calls)

    def emit(self, path: str | PathLike[str], builder: str) -> Path:
        """Write a module with a function ``fixed()`` that returns the kernel after the :attr:`chosen` changes.

        Parameters
        ----------
        path : str or path
            Python file to write.
        builder : str
            The function that returns the kernel, as ``"FILE.py:FUNCTION"``; the module imports it.

        Returns
        -------
        Path
            The written file.

        Raises
        ------
        LoopyperfError
            Loopy can make no change that helps, or the file cannot be written.
        """
        file, _, name = builder.rpartition(":")
        imports, change = self.recipe.source.split("\n\n", 1)
        source, target = Path(file).absolute(), Path(path).absolute()
        if source.parent == target.parent and source.stem.isidentifier():
            imports += f"\n\nfrom {source.stem} import {name}"
        else:
            where = relpath(source, target.parent)
            imports = f"import runpy\nfrom pathlib import Path\n\n{imports}\n\n"
            imports += f"{name} = runpy.run_path(str(Path(__file__).parent / {json.dumps(where)}))[{json.dumps(name)}]"
        text = MODULE.format(
            kernel=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}",
            before=f"{duration(self.diagnosis.seconds)} by loopyperf's model {self.diagnosis.model}",
            steps="\n".join(f"- {finding.change}: {duration(finding.seconds or 0.0)}" for finding in self.chosen),
            imports=imports,
            change=change,
            name=name,
        )
        return write_file("the changed kernel", path, text)

    def report_text(self) -> ReportText:
        """Return the cause, the suggested changes, and the times of the combined ones."""
        diagnosis = self.diagnosis
        tables = [bars(diagnosis.longest, diagnosis)] if diagnosis.launches else []
        tables += [findings_table(diagnosis.findings, diagnosis)] if diagnosis.findings else []
        return ReportText(
            question=self.estimate.inputs,
            answer=f"{self.estimate.time_and_interval}, {diagnosis.cause}",
            tables=[*tables, *self._together()],
            code=[f"# all changes together\n{self.recipe.source}"]
            if self.combined
            else recipes_in_text(diagnosis.findings),
            remarks=[*diagnosis.remarks, *([] if diagnosis.findings else [diagnosis.no_change])],
            alone="\n".join(
                finding.change
                if finding.seconds is None
                else f"{duration(finding.seconds)}  {finding.speedup:.2f}×  {finding.change}"
                for finding in diagnosis.findings
            )
            or diagnosis.no_change,
        )

    def _together(self) -> Iterator[Table]:
        """Yield a table of the combined changes with the times after each, if there are any."""
        rows = [
            (
                f"{number}. {finding.change}",
                duration(finding.seconds),
                f"{self.diagnosis.seconds / finding.seconds:.2f}×",
            )
            for number, finding in enumerate(self.combined, 1)
            if finding.seconds is not None
        ]
        if rows:
            yield Table(("one after the other", "time", "speedup"), rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as JSON-serializable values."""
        return {**fields_of(self), "interval": plain(self.estimate.interval), **plain(self.diagnosis)}


def advise(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    model: str | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    predictor: Predictor | None = None,
    combine: bool = False,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> AdviceOnKernel:
    """Return changes that would make *program* faster, each with the run time after it.

    Loopy makes each change, and the model of the kernel predicts the changed program. At most eight changed programs
    are predicted. A change that needs manual work has no time.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, optional
        Name, parameter file or loaded device. The default is the one that ``LOOPYPERF_DEVICE`` names, or else this
        machine's OpenCL device.
    model, fit, compiler
        As in :func:`loopyperf.estimate`.
    predictor : Predictor, optional
        A predictor (see :func:`loopyperf.predictor`) to use instead.
    combine : bool, optional
        Whether to make the change with the largest gain, to look for changes of the changed kernel, and so on, up to
        four changes.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    AdviceOnKernel
        ``findings`` lists the changes, largest gain first, each with its reason, the affected lines and the function
        that makes it, as text (``recipe.source``) and to call (``apply(program)``). ``combined`` has the changes that
        help together if *combine* is set.

    Raises
    ------
    KernelError
        Loopy cannot prepare the kernel.
    UncountableError
        The kernel contains a construct without an exact count.
    ParameterError
        A size or an option is invalid.
    UnknownDeviceError
        The device is unknown, or *predictor* has no device parameters.
    MissingNumberError
        The device lacks a parameter that the model needs.
    OccupancyError
        The groups are too large for the device.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i, j]: 0 <= i, j < n}",
    ...     "b[i, j] = 2*a[i, j]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> knl = lp.tag_inames(knl, {"j": "g.1"})
    >>> advice = lpp.advise(knl, device="nvidia-titan-v", n=4096)
    >>> print(advice.findings[0].change)  # doctest: +ELLIPSIS
    coalesce the accesses of a, b...
    >>> advice.findings[0].speedup > 2
    True
    """
    case = Case(program, one_size(parameters, sizes), typical)
    by, found = shown_estimate(case, predictor, device=device, model=model, fit=fit, compiler=compiler)
    diagnosis = diagnosed(case, by, found)
    together = tuple(_combined(case, by, diagnosis)) if combine else ()
    return AdviceOnKernel(found.kernel, dict(case.sizes), by.device, found, diagnosis, dict(typical or {}), together)


def _combined(case: Case, by: Predictor, diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield the change with the largest gain, the best one of the changed kernel, and so on."""
    for _ in range(COMBINED):
        best = next((finding for finding in diagnosis.findings if finding.recipe.calls), None)
        if best is None:
            return
        yield best
        case = replace(case, kernel=best.apply(case.kernel))
        diagnosis = diagnosed(case, by, by.predict(case))
