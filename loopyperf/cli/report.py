"""``loopyperf report``: a page about a kernel in a Python file."""

from importlib import import_module
from pathlib import Path
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show
from loopyperf.cli.explain import explained
from loopyperf.cli.streams import standard_error

MARK = 'name="generator" content="loopyperf '
"""is in every page of ours"""


@click.command(epilog="\b\nExample: loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.explaining
@settings.output("Where the page goes; an earlier page is overwritten.", Path("report.html"), mark=MARK)
@settings.as_json
def report(output: Path, as_json: bool, **asked: Any) -> None:
    """Write a page about the Loopy kernel that FUNCTION in FILE.py builds: its time, what it is made of, what helps.

    The page is one file that needs no network. What FUNCTION says of itself, its docstring, is on it.
    """
    # Where Jinja2 or matplotlib is missing, nobody should have to hear of it after the analysis.
    reports = import_module("loopyperf.reports")
    explanation = explained(**asked)
    saved = reports.Report(explanation).save(output)
    if as_json:
        print_json({"path": str(saved), **explanation.to_dict()})
    else:
        show(f"report: {saved}")
        for device, reason in explanation.refusals.items():
            show(f"no answer: {device}: {reason}", standard_error())
