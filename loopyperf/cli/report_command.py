"""``loopyperf report``: write an HTML report about a kernel."""

import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.explain_command import explanation_for
from loopyperf.cli.kernel_source import forget_module
from loopyperf.cli.streams import Form, Output, is_quiet, standard_error
from loopyperf.display import ReportText
from loopyperf.errors import LoopyperfError, one_line
from loopyperf.models.catalog import MODELS

MARK = 'name="generator" content="loopyperf '
"""text that identifies a page that loopyperf wrote"""
CHECKED_EVERY = 0.5
"""seconds between checks of the watched file"""


@click.command(epilog="\b\nExample: loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.EXPLAINING)
@settings.output("Output file; default: KERNEL.html, overwriting an earlier report.", mark=MARK)
@click.option("--open", "is_opened", is_flag=True, help="Open the report in a browser.")
@click.option("--watch", "is_watched", is_flag=True, help="Rewrite the report when FILE.py changes, until Ctrl-C.")
def report_command(output: Path | None, is_opened: bool, is_watched: bool, form: Form, **options: Any) -> None:
    """Write an HTML report that explains the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel; its docstring becomes part of the report. The report is one file that needs
    no network.
    """
    # Report a missing Jinja2 or matplotlib before the analysis.
    reports = import_module("loopyperf.explain.report")
    options |= {"code": True, "models": options["models"] or tuple(MODELS)}
    explanation = explanation_for(**options)
    report = reports.Report(explanation)
    # The default path may not be writable, or have a file that loopyperf did not write.
    path = Output(mark=MARK).checked(report.default_path, "--output", is_named=False) if output is None else output
    saved = report.save(path, is_watched=is_watched)
    head = ReportText(explanation.report_text().head, alone=str(saved))
    print_in(form, lambda: [head], explanation.records, lambda: {"path": str(saved), **explanation.to_dict()})
    if form == "text" and not is_quiet():
        show(f"report: {saved}")
        for device, reason in explanation.refusals.items():
            show(f"no prediction: {device}: {reason}", standard_error())
    if is_opened:
        click.launch(saved.resolve().as_uri())
    if is_watched:
        _watch(saved, options)


def _watch(saved: Path, options: dict[str, Any]) -> None:
    """Rewrite the report whenever the kernel's file changes; print an error in the file as one line."""
    reports = import_module("loopyperf.explain.report")
    watched = Path(str(options["kernel"]).rpartition(":")[0])
    show(f"watching {watched}; stop with Ctrl-C")
    known = _changed_at(watched)
    while True:
        time.sleep(CHECKED_EVERY)
        if (now := _changed_at(watched)) == known:
            continue
        known = now
        forget_module(str(options["kernel"]))
        try:
            explanation = explanation_for(**options)
            reports.Report(explanation).save(saved, is_watched=True)
            first = explanation.devices[0]
            show(f"{time.strftime('%X')}  {first.estimate.time_in_words}, {first.cause}")
        except LoopyperfError as error:
            show(f"{time.strftime('%X')}  {one_line(error)}", standard_error())


def _changed_at(path: Path) -> int:
    """Return the modification time of *path*; 0 while it does not exist, e.g. while an editor replaces it."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
