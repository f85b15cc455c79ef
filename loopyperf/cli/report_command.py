"""``loopyperf report``: a page about a kernel in a Python file."""

import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show
from loopyperf.cli.explain_command import explanation_for
from loopyperf.cli.kernel_source import forget_module
from loopyperf.cli.streams import Output, standard_error
from loopyperf.errors import LoopyperfError, one_line
from loopyperf.explain.explanation import Explanation
from loopyperf.models.catalog import MODELS

MARK = 'name="generator" content="loopyperf '
"""is in every page of ours"""
EACH = 0.5
"""seconds between looks at a file that is watched"""


@click.command(epilog="\b\nExample: loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.explaining
@settings.output("Where the page goes; by default KERNEL.html, overwriting an earlier page.", mark=MARK)
@click.option("--open", "is_opened", is_flag=True, help="Open the page in a browser.")
@click.option("--watch", "is_watched", is_flag=True, help="Write it again when FILE.py changes, until Ctrl-C.")
@settings.as_json
def report_command(output: Path | None, is_opened: bool, is_watched: bool, as_json: bool, **asked: Any) -> None:
    """Write a page on why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would help.

    The page is one file that needs no network. What FUNCTION says of itself, its docstring, is on it.
    """
    # Where Jinja2 or matplotlib is missing, that is said before the analysis.
    reports = import_module("loopyperf.explain.report")
    asked |= {"code": True, "models": asked["models"] or tuple(MODELS)}
    explanation = explanation_for(**asked)
    path = _free_name(explanation.kernel) if output is None else output
    saved = reports.Report(explanation).save(path, is_watched=is_watched)
    if as_json:
        print_json({"path": str(saved), **explanation.to_dict()})
    else:
        _show(explanation, saved)
    if is_opened:
        click.launch(saved.resolve().as_uri())
    if is_watched:
        _watch(saved, asked)


def _free_name(kernel: str) -> Path:
    """Return where the page of *kernel* goes if no file is named; raises :class:`LoopyperfError` where it cannot."""
    return Output(mark=MARK).checked(Path(f"{kernel}.html"), "--output", is_named=False)


def _show(explanation: Explanation, saved: Path) -> None:
    show(f"report: {saved}")
    for device, reason in explanation.refusals.items():
        show(f"no answer: {device}: {reason}", standard_error())


def _watch(saved: Path, asked: dict[str, Any]) -> None:
    """Write the page again whenever the file of the kernel changes; what is wrong with it is one line."""
    reports = import_module("loopyperf.explain.report")
    watched = Path(str(asked["kernel"]).rpartition(":")[0])
    show(f"watching {watched}; Ctrl-C ends it")
    known = _changed_at(watched)
    while True:
        time.sleep(EACH)
        if (now := _changed_at(watched)) == known:
            continue
        known = now
        forget_module(str(asked["kernel"]))
        try:
            explanation = explanation_for(**asked)
            reports.Report(explanation).save(saved, is_watched=True)
            first = explanation.devices[0]
            show(f"{time.strftime('%X')}  {first.estimate.time_in_words}, {first.cause}")
        except LoopyperfError as error:
            show(f"{time.strftime('%X')}  {one_line(error)}", standard_error())


def _changed_at(path: Path) -> int:
    """Return when *path* was changed; 0 while it is not there, as when an editor replaces it."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
