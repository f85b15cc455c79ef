"""Commands that explain run times: ``advise``, ``diff``, ``explain``, ``report`` and ``trace``."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
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
from loopyperf.explain.explain import notes_on, paragraphs
from loopyperf.explain.explanation import Explanation, OnDevice, accesses_table, bar
from loopyperf.explain.findings import Finding
from loopyperf.explain.roofline_chart import OF_ALL_LANES, Roofline
from loopyperf.explain.trace import EVENTS, FEWEST, GENERATOR
from loopyperf.kernel import Program
from loopyperf.models.catalog import MODELS
from loopyperf.models.result import HEADINGS, Estimate
from loopyperf.predict.compare import models_table
from loopyperf.units import duration, in_percent, prefixed

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
        tried = [_tried(program, each, asked) for each in answer.findings if each.recipe.calls] if is_tried else []
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
def diff_command(form: Form, **options: Any) -> None:
    """Explain how the run times of two Loopy kernels differ.

    Each FUNCTION in FILE.py returns a kernel. Without a second kernel, the first is compared with itself at the sizes
    of --set-after or on a second --device. Rows that differ by less than 1 % of the run time are counted, not printed.
    """
    print_answer(_compared(**options), form)


def _compared(
    kernel: str,
    other: str | None,
    parameters: dict[str, int],
    after: dict[str, int],
    device: tuple[str, ...],
    **options: Any,
) -> lpp.Difference:
    """Return the difference; raises :class:`click.UsageError` if the options select only one kernel run."""
    if other is None and not after and len(device) < 2:
        raise click.UsageError("give a second FILE.py:FUNCTION, --set-after, or a second --device")
    first = load_program(kernel)
    second = first if other is None else load_program(other)
    # None stands for a size that only the second kernel has.
    pairs = {name: (parameters.get(name), value) for name, value in after.items()}
    with working("comparing"):
        return lpp.diff(first, second, device=device or None, parameters={**parameters, **pairs}, **options)


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
@click.option("--details", is_flag=True, help="Also print all models, the roofline and all notes.")
def explain_command(kernel: str, details: bool, form: Form, **options: Any) -> None:
    """Explain the run time of a Loopy kernel and suggest improvements.

    FUNCTION in FILE.py returns the kernel. The first screen shows the run time and the bottleneck, the utilization of
    each part of the device, and the three changes that help most, each simulated. Below are the source lines with their
    costs.
    `loopyperf report` writes the same as an HTML page.
    """
    options["models"] = options["models"] or (tuple(MODELS) if details else None)
    show_explanation(explanation_for(kernel, **options), form, details=details)


def show_explanation(answer: Explanation, form: Form = "text", *, details: bool = False) -> None:
    """Print *answer*, device by device; with *details*, also all models, roofline and notes."""
    if form == "text" and not is_quiet() and answer.about:
        for paragraph in paragraphs(answer.about):
            show(paragraph, hanging="")
        show("")
    print_in(form, lambda: list(_report_texts(answer, details)), answer.records, answer.to_dict)


def explanation_for(kernel: str, **options: Any) -> Explanation:
    """Return the explanation of *kernel* for the options of :data:`loopyperf.cli.settings.EXPLAINING`."""
    program = load_program(kernel)
    options["device"] = options["device"] or None
    with working("simulating"):
        return lpp.explain(program, about=words_on(kernel), **options)


def _report_texts(answer: Explanation, details: bool) -> Iterator[ReportText]:
    """Yield the report texts to print, in order; see :func:`show_explanation`."""
    for on in answer.devices:
        yield on.report_text()
        yield ReportText("", tables=[_source_table(answer, on)])
        yield from _memory(on)
        if details:
            yield from _details(on)
    if details:
        yield ReportText("Model assumptions", tables=[_summaries(answer)])
    yield from _listed("No prediction", _reasons(answer.refusals))


def _details(on: OnDevice) -> Iterator[ReportText]:
    """Yield the report texts beyond the first screen."""
    notes = notes_on(on)
    if on.estimate.breakdown.rows:
        yield ReportText("Breakdown of the time", tables=[_parts_table(on.estimate)])
    yield from _waiting(on)
    yield from _listed(_notes_title(on), [_with_models(names, sentence, on) for sentence, names in notes.items()])
    yield ReportText("Models", tables=[models_table(on.estimates, on.clock)])
    yield from _listed("No prediction", _reasons(on.refusals))
    if on.roofline is not None:
        yield _under_roofs(on, on.roofline, notes)
    missing = [name for name, reason in on.gaps.items() if reason not in on.refusals.values()]
    yield from _listed("Missing", [f"{name}: {on.gaps[name]}" for name in missing])


def _memory(on: OnDevice) -> Iterator[ReportText]:
    """Yield the memory accesses of the longest launch, and its device memory traffic."""
    if on.diagnosis is not None and on.diagnosis.launches:
        longest, words = on.diagnosis.longest, on.diagnosis.words
        yield ReportText("", tables=[accesses_table(longest, words)], remarks=[longest.traffic.in_words])


def _waiting(on: OnDevice) -> Iterator[ReportText]:
    """Yield the stall reasons of the warps of each launch."""
    if on.diagnosis is not None:
        for launch in on.diagnosis.launches:
            if launch.waiting is not None:
                rows = [(cause, bar(share), in_percent(share)) for cause, share in launch.waiting.total.items()]
                title = f"Stall reasons of the {on.diagnosis.words.warp}s of {launch.name}"
                yield ReportText(title, tables=[Table(("", "", "share"), rows, text=2)])


def _listed(title: str, sentences: Sequence[str]) -> Iterator[ReportText]:
    """Yield *sentences* below *title*, if there are any."""
    if sentences:
        yield ReportText(title, remarks=sentences)


def _notes_title(on: OnDevice) -> str:
    return "Notes (of all models, unless a model is named)" if len(on.estimates) > 1 else "Notes"


def _with_models(names: Sequence[str], sentence: str, on: OnDevice) -> str:
    """Return the note *sentence* after the *names* of its models, unless it is a note of all models."""
    return sentence if len(names) == len(on.estimates) else f"{', '.join(names)}: {sentence}"


def _under_roofs(on: OnDevice, roofline: Roofline, printed: Collection[str]) -> ReportText:
    """Return the report text of *roofline* with the models below it, without notes that are *printed* already."""
    report_text = roofline.report_text()
    work = [(each.name, prefixed(each.flops, "flop"), _moved(each.moved)) for each in roofline.launches]
    return replace(
        report_text,
        question="Roofline",
        tables=[*report_text.tables, Table(("launch", "work", "traffic"), work, last=1)],
        remarks=[OF_ALL_LANES, *report_text.remarks, *filter(None, [on.under_the_roof])],
        notes=[each for each in report_text.notes if each not in printed],
    )


def _moved(moved: Mapping[str, float]) -> str:
    return ", ".join(f"{memory} {prefixed(nbytes, 'B')}" for memory, nbytes in moved.items())


def _reasons(refusals: Mapping[str, str]) -> list[str]:
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason(refusals).items()]


def _summaries(answer: Explanation) -> Table:
    """Return a table of the assumptions of each model that was run, in the order of the model catalog."""
    names = {name for on in answer.devices for name in (*on.estimates, *on.refusals)}
    rows = [(name, model.summary) for name, model in MODELS.items() if name in names]
    return Table(("model", "assumptions"), rows, text=2)


def _parts_table(estimate: Estimate) -> Table:
    """Return a table of the cost of each property: time, and share of the whole."""
    whole = float(estimate.seconds)
    rows = [
        (*cost.in_words(estimate.columns), in_percent(float(cost.seconds) / whole) if whole else "")
        for cost in estimate.breakdown.costs()
    ]
    return Table((*HEADINGS[estimate.columns], "share"), rows)


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
