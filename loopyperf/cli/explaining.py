"""Commands that explain run times: ``advise``, ``diff``, ``explain``, ``report`` and ``trace``."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from loopy.diagnostic import LoopyError

import loopyperf as lpp
from loopyperf.cli import settings
from loopyperf.cli.console import print_answer, print_in, show, show_beside
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.options import Form, Output, is_quiet, standard_error
from loopyperf.cli.progress import working
from loopyperf.display import ReportText, Table
from loopyperf.errors import LoopyperfError, by_reason, one_line
from loopyperf.explain.explain import paragraphs
from loopyperf.explain.explanation import Explanation, OnDevice, accesses_table
from loopyperf.explain.findings import Finding
from loopyperf.explain.trace import EVENTS, FEWEST, GENERATOR
from loopyperf.kernel import Program
from loopyperf.models.catalog import MODELS
from loopyperf.units import duration, in_percent

SMALL = 0.01
"""share of the time below which a line's cost is not shown"""
INDENT = 2
"""indentation of a source line for each loop around it"""
MARK = 'name="generator" content="loopyperf '
"""text that identifies a page that loopyperf wrote"""


@click.command("advise", epilog="\b\nExample: loopyperf advise matmul.py:tiled --set n=1024 --device nvidia-v100")
@settings.predicting(*settings.OF_KERNEL)
@click.option("--try", "is_tried", is_flag=True, help="Make each change, and estimate the changed kernel.")
@click.option("--combine", is_flag=True, help="Combine up to four changes, as long as each helps.")
@click.option(
    "--emit", type=settings.FILE, help="Write a Python file; its function fixed() returns the changed kernel."
)
def advise_command(kernel: str, form: Form, emit: Path | None, is_tried: bool, **options: Any) -> None:
    """Suggest changes that make a Loopy kernel faster, with the predicted time after each.

    FUNCTION in FILE.py returns the kernel. Loopy makes each change, and the model predicts the changed kernel. The
    output gives the reason for each change, and a function that makes it.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = lpp.advise(program, **options)
        asked = {name: value for name, value in options.items() if name != "combine"}
        tried = (
            [_tried(program, finding, asked) for finding in answer.findings if finding.recipe.calls] if is_tried else []
        )
    table = ReportText("after each change", tables=[Table(("change", "time"), tried)])
    print_in(
        form,
        lambda: [answer.report_text(), *([table] if tried else [])],
        answer.records,
        lambda: {**answer.to_dict(), **({"tried": dict(tried)} if is_tried else {})},
    )
    written = None if emit is None else answer.emit(emit, kernel)
    if written is not None and form == "text":
        show_beside(f"wrote {written}; fixed() returns the changed kernel: loopyperf estimate {written}:fixed")


def _tried(program: Program, finding: Finding, options: Mapping[str, Any]) -> tuple[str, str]:
    """Return the change of *finding*, and the estimated time of the kernel that its printed function returns."""
    try:
        return finding.change, lpp.estimate(finding.apply(program), **options).time_in_words
    except (LoopyperfError, LoopyError) as error:
        return finding.change, one_line(error)


@click.command(
    "diff",
    epilog="\b\nExample: loopyperf diff matmul.py:tiled --set n=2048 --set-after n=4096 \\\n  --device nvidia-v100",
)
@settings.predicting("kernel", "other", "sizes", "sizes after", "typical", "devices", *settings.MODEL)
def diff_command(
    kernel: str,
    other: str | None,
    parameters: dict[str, int],
    after: dict[str, int],
    device: tuple[str, ...],
    form: Form,
    **options: Any,
) -> None:
    """Explain how the run times of two Loopy kernels differ.

    Each FUNCTION in FILE.py returns a kernel. Without a second kernel, the first is compared with itself at the sizes
    of --set-after or on a second --device. Rows that differ by less than 1 % of the run time are counted, not printed.
    """
    if other is None and not after and len(device) < 2:
        raise click.UsageError("give a second FILE.py:FUNCTION, --set-after, or a second --device")
    first = load_program(kernel)
    second = first if other is None else load_program(other)
    # None stands for a size that only the second kernel has.
    pairs = {name: (parameters.get(name), value) for name, value in after.items()}
    with working("comparing"):
        answer = lpp.diff(first, second, device=device or None, parameters={**parameters, **pairs}, **options)
    print_answer(answer, form)


@click.command("report", epilog="\b\nExample: loopyperf report matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.EXPLAINING)
@settings.output("Output file; default: KERNEL.html, overwriting an earlier report.", mark=MARK)
@click.option("--open", "is_opened", is_flag=True, help="Open the report in a browser.")
def report_command(output: Path | None, is_opened: bool, form: Form, **options: Any) -> None:
    """Write an HTML report that explains the run time of a Loopy kernel.

    FUNCTION in FILE.py returns the kernel; its docstring becomes part of the report. The report is one file that needs
    no network.
    """
    # Report a missing Jinja2 or matplotlib before the analysis.
    reports = import_module("loopyperf.explain.report")
    options["models"] = options["models"] or tuple(MODELS)
    explanation = explanation_for(**options)
    report = reports.Report(explanation)
    # The default path may not be writable, or have a file that loopyperf did not write.
    path = Output(mark=MARK).checked(report.default_path, "--output", is_named=False) if output is None else output
    saved = report.save(path)
    head = ReportText(explanation.report_text().head, alone=str(saved))
    print_in(form, lambda: [head], explanation.records, lambda: {"path": str(saved), **explanation.to_dict()})
    if form == "text" and not is_quiet():
        show(f"report: {saved}")
        for device, reason in explanation.refusals.items():
            show(f"no prediction: {device}: {reason}", standard_error())
    if is_opened:
        click.launch(saved.resolve().as_uri())


@click.command(
    "trace",
    epilog="\b\nExample: loopyperf trace matmul.py:tiled --set n=256 --device nvidia-v100\n\n"
    "Open the file at ui.perfetto.dev, which does not upload it.",
)
@settings.predicting(*settings.OF_KERNEL)
@settings.output("Output file; an earlier trace is overwritten.", Path("trace.json"), mark=GENERATOR)
@click.option(
    "--events",
    type=click.IntRange(min=FEWEST),
    default=EVENTS,
    help="Largest number of events, divided among the launches.",
)
def trace_command(kernel: str, output: Path, form: Form, **options: Any) -> None:
    """Write a simulated trace of the warps of one core, for Perfetto.

    FUNCTION in FILE.py returns the kernel. The simulator executes it instruction by instruction; the trace shows when
    each warp issues an instruction, and what it waits for. A long run is truncated; the output and the file say where.
    """
    program = load_program(kernel)
    with working("simulating"):
        answer = lpp.trace(program, **options)
        answer.save(output)
    print_in(form, lambda: [answer.report_text()], answer.records, lambda: {"path": str(output), **answer.to_dict()})
    if form == "text":
        show_beside(f"wrote {output}; open it at https://ui.perfetto.dev")


# {{{ explain


@click.command("explain", epilog="\b\nExample: loopyperf explain matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.predicting(*settings.EXPLAINING)
def explain_command(kernel: str, form: Form, **options: Any) -> None:
    """Explain the run time of a Loopy kernel and suggest improvements.

    FUNCTION in FILE.py returns the kernel. The first screen shows the run time and the bottleneck, the utilization of
    each part of the device, and the three changes that help most, each simulated. Below are the source lines with their
    costs.
    `loopyperf report` writes the same as an HTML page.
    """
    options["models"] = options["models"] or None
    answer = explanation_for(kernel, **options)
    if form == "text" and not is_quiet() and answer.about:
        for paragraph in paragraphs(answer.about):
            show(paragraph, hanging="")
        show("")
    print_in(form, lambda: list(_report_texts(answer)), answer.records, answer.to_dict)


def explanation_for(kernel: str, **options: Any) -> Explanation:
    """Return the explanation of *kernel* for the options of :data:`loopyperf.cli.settings.EXPLAINING`."""
    program = load_program(kernel)
    options["device"] = options["device"] or None
    with working("simulating"):
        return lpp.explain(program, about=words_on(kernel), **options)


def _report_texts(answer: Explanation) -> Iterator[ReportText]:
    """Yield the first screen of each device, with the costs of its source lines and its accesses below."""
    for on in answer.devices:
        yield on.report_text()
        yield ReportText("", tables=[_source_table(answer, on)])
        if on.diagnosis is not None and on.diagnosis.launches:
            longest, words = on.diagnosis.longest, on.diagnosis.words
            yield ReportText("", tables=[accesses_table(longest, words)], remarks=[longest.traffic.in_words])
    if answer.refusals:
        refused = by_reason(answer.refusals)
        yield ReportText("No prediction", remarks=[f"{', '.join(names)}: {why}" for why, names in refused.items()])


def _source_table(answer: Explanation, on: OnDevice) -> Table:
    """Return the source, as Loopy writes it, with the cost and the stall reasons of each line."""
    whole = float(on.estimate.seconds)
    rows: list[tuple[str, str, str, str]] = []
    for cost in answer.lines(on):
        line = cost.line
        if line.kind == "other" and not (cost.parts and abs(cost.seconds) >= SMALL * whole):
            continue
        name = f"  {{id={line.source}}}" if line.kind == "instruction" else ""
        is_shown = bool(cost.parts and whole) and abs(cost.seconds) >= SMALL * whole
        time, share = (duration(cost.seconds), in_percent(cost.seconds / whole)) if is_shown else ("", "")
        rows.append((" " * INDENT * line.depth + line.text + name, time, share, on.remarks_at(line.source)))
    return Table(("source", "time", "share", "share of all stall cycles, and reason"), rows, last=1)


# }}}
