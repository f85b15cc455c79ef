"""What users call: :func:`report`, and the :class:`Report` that it returns."""

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


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """A page about a kernel."""

    explanation: Explanation
    """what it says"""

    def report_text(self) -> ReportText:
        """Return the gist of the page, and how to write it."""
        gist = self.explanation.report_text()
        return replace(gist, remarks=(*gist.remarks, "save(path) writes the page, which a browser opens"))

    def html(self) -> str:
        """Return the page: one HTML document with everything in it, which asks for nothing from a network."""
        return page_of(self.explanation)

    def save(self, path: str | PathLike[str] | None = None, *, is_watched: bool = False) -> Path:
        """Write the page to *path*, by default a file named after the kernel, and return that.

        A page that *is_watched* loads itself again every few seconds. Raises :class:`ParameterError` where the page
        cannot be written.
        """
        where = f"{self.explanation.kernel}.html" if path is None else path
        return write_file("the report", where, page_of(self.explanation, is_watched=is_watched))


def report(
    program: Program,
    /,
    *,
    device: DeviceChoices | None = None,
    model: str | None = None,
    models: Iterable[str] | None = None,
    fit: FitChoice | ResidualModel | None = None,
    about: str = "",
    findings: bool = True,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Report:
    """Return a page about the run time of *program* at one size, on one device or on several.

    It shows the source with what each line costs, what the time is made of, what all models say, the roofline, advice,
    and what was assumed. Options, sizes and errors are those of :func:`loopyperf.explain`.
    """
    explanation = explain(
        program,
        device=device,
        model=model,
        models=MODELS if models is None else models,
        fit=fit,
        about=about,
        findings=findings,
        code=True,
        typical=typical,
        parameters=parameters,
        **sizes,
    )
    return Report(explanation)
