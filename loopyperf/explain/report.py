"""HTML reports: :func:`report`, and the :class:`Report` that it returns."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from loopyperf.calibration.choice import FitChoice
from loopyperf.calibration.residual_model import ResidualModel
from loopyperf.display import ReportText, Shown
from loopyperf.explain.explain import DeviceChoices, explain
from loopyperf.explain.explanation import Explanation
from loopyperf.explain.page import page_of
from loopyperf.files import write_file
from loopyperf.kernel import Program
from loopyperf.models.catalog import MODELS
from loopyperf.stages.compile import Compiler


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """An HTML page that explains a kernel's run time."""

    explanation: Explanation
    """contents of the page"""

    def report_text(self) -> ReportText:
        """Return the explanation's first screen, and how to write the page."""
        summary = self.explanation.report_text()
        return replace(summary, remarks=(*summary.remarks, "save(path) writes the HTML page"))

    def html(self) -> str:
        """Return the page as one self-contained HTML document."""
        return page_of(self.explanation)

    @property
    def default_path(self) -> Path:
        """Return the file in the current folder that is named after the kernel, without separators and odd letters."""
        return Path(f"{re.sub(r'[^A-Za-z0-9_.-]+|^[.-]+', '_', self.explanation.kernel):.100}.html")

    def save(self, path: str | PathLike[str] | None = None, *, is_watched: bool = False) -> Path:
        """Write the page to *path*, by default :attr:`default_path`, and return its path.

        With *is_watched*, the page reloads itself every two seconds. Raises :class:`ParameterError` if writing fails.
        """
        where = self.default_path if path is None else path
        return write_file("the report", where, page_of(self.explanation, is_watched=is_watched))


def report(
    program: Program,
    /,
    *,
    device: DeviceChoices | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    compiler: Compiler = "model",
    about: str = "",
    findings: bool = True,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Report:
    """Return an HTML page about the run time of *program* at one size, on one or several devices.

    The page shows the cost of each source line, utilization, suggested changes, stall reasons, memory traffic, the
    estimates of all models, the roofline and the assumptions.

    Parameters
    ----------
    program : loopy.TranslationUnit
        Kernel or program.
    device : str, path or Device, or several of them, optional
        Names, parameter files or loaded devices. The default is the device of *fit*, or the one that
        ``LOOPYPERF_DEVICE`` names, or this machine's OpenCL device.
    model : str, optional
        The model to show first (see :func:`loopyperf.explain`).
    models : iterable of str, optional
        All models to evaluate. The default is all in :data:`loopyperf.MODELS`.
    fit : Fit, ResidualModel or path, optional
        A fit or residual model (see :func:`loopyperf.explain`).
    compiler : {"model", "nvrtc", "auto"}
        Source of register counts, as in :func:`loopyperf.estimate`.
    about : str, optional
        A description of the kernel. Empty lines separate paragraphs.
    findings : bool, optional
        Whether to simulate changes that may make the kernel faster.
    typical : mapping, optional
        Typical iteration counts of loops and shares of conditions that depend on data, by name.
    parameters : mapping, optional
        Sizes by name, for sizes that have the name of an option.
    **sizes : int
        Values of the kernel's integer parameters.

    Returns
    -------
    Report
        The page. ``save`` writes it, and ``explanation`` has the data.

    Raises
    ------
    LoopyperfError
        The errors of :func:`loopyperf.explain`, or Jinja2 or Pygments (the extra ``report``) are not installed.

    Examples
    --------
    >>> import loopy as lp, numpy as np, loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     name="doubled",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> page = lpp.report(knl, device="nvidia-titan-v", models=["pipeline", "roofline"], n=2**20)
    >>> page.html()[:15]
    '<!DOCTYPE html>'
    """
    explanation = explain(
        program,
        device=device,
        model=model,
        models=MODELS if models is None else models,
        fit=fit,
        compiler=compiler,
        about=about,
        findings=findings,
        code=True,
        typical=typical,
        parameters=parameters,
        **sizes,
    )
    return Report(explanation)
