"""``loopyperf explain``: explain the run time of a kernel in the terminal, as a report does."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.progress import working
from loopyperf.cli.streams import Form, is_quiet
from loopyperf.display import ReportText, Table
from loopyperf.errors import by_reason
from loopyperf.explain.explain import explain, notes_on, paragraphs
from loopyperf.explain.explanation import Explanation, OnDevice
from loopyperf.explain.first_screen import accesses_table, bar
from loopyperf.explain.roofline_chart import OF_ALL_LANES, Roofline
from loopyperf.models.catalog import MODELS
from loopyperf.models.result import HEADINGS, Estimate
from loopyperf.predict.compare import models_table
from loopyperf.units import duration, in_percent, prefixed

SMALL = 0.01
"""share of the time below which a line's cost is not shown"""
INDENT = 2
"""indentation of a source line for each loop around it"""


@click.command(epilog="\b\nExample: loopyperf explain matmul.py:tiled --set n=4096 --device nvidia-v100")
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
        return explain(program, about=words_on(kernel), **options)


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
