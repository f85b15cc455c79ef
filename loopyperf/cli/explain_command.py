"""``loopyperf explain``: in a terminal, what a report shows."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, show_report_text
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.progress import working
from loopyperf.display import ReportText, Table
from loopyperf.errors import by_reason
from loopyperf.explain.explain import explain as ask
from loopyperf.explain.explain import notes_on, paragraphs
from loopyperf.explain.explanation import Explanation, OnDevice
from loopyperf.explain.first_screen import accesses_table, bar
from loopyperf.explain.roofline_chart import OF_ALL_LANES, Roofline
from loopyperf.models.catalog import MODELS
from loopyperf.models.result import HEADINGS, Estimate
from loopyperf.predict.compare import models_table
from loopyperf.units import duration, in_percent, prefixed

SMALL = 0.01
"""of the time: what lines cost that cost less is not shown"""
INDENT = 2
"""columns for each loop around a line"""
ADVISOR = "gpuperf"
"""the model whose advice it is"""


@click.command(epilog="\b\nExample: loopyperf explain matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.explaining
@click.option("--details", is_flag=True, help="Print all models, the roofline, GPUPerf's advice and all notes, too.")
@settings.as_json
def explain_command(as_json: bool, details: bool, **asked: Any) -> None:
    """Say why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would make it faster.

    The first screen has the time and its cause, how busy each part of the device is, and the three changes that help
    most, each simulated; below are the lines of the source with their costs. `loopyperf report` makes a page of it.
    """
    models = asked.pop("models") or (tuple(MODELS) if details else ())
    answer = explanation_for(models=models, **asked)
    if as_json:
        print_json(answer.to_dict())
    else:
        show_explanation(answer, details=details)


def explanation_for(
    *,
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    devices: tuple[str, ...],
    model: str | None,
    models: tuple[str, ...],
    fit: str | None,
    findings: bool,
    code: bool = False,
) -> Explanation:
    """Return what there is to say of the kernel that the options of :func:`loopyperf.cli.settings.explaining` name."""
    program = load_program(kernel)
    with working("simulating"):
        return ask(
            program,
            device=devices or None,
            model=model,
            models=models or None,
            fit=fit,
            about=words_on(kernel),
            findings=findings,
            code=code,
            typical=typical,
            parameters=sizes,
        )


def show_explanation(answer: Explanation, *, details: bool = False) -> None:
    """Print *answer*, device by device; all of it with *details*."""
    for paragraph in paragraphs(answer.about):
        show(paragraph, hanging="")
    for number, report_text in enumerate(_report_texts(answer, details)):
        if number or answer.about:
            show("")
        show_report_text(report_text)


def _report_texts(answer: Explanation, details: bool) -> Iterator[ReportText]:
    """Yield what there is to print, one below the other; all of it with *details*."""
    for on in answer.devices:
        screen = on.report_text()
        least = [f"the roofline says {duration(on.least)} at least"] if on.is_under_the_roof(on.first) else []
        yield replace(screen, remarks=[*screen.remarks, *least])
        yield ReportText("", tables=[_source_table(answer, on)])
        yield from _memory(on)
        if details:
            yield from _details(on)
    if details:
        yield ReportText("What the models assume", tables=[_summaries(answer)])
    yield from _listed("No answer", _reasons(answer.refusals))


def _details(on: OnDevice) -> Iterator[ReportText]:
    """Yield what the first screen has no room for."""
    said = notes_on(on)
    if on.estimate.breakdown.rows:
        yield ReportText("What the time is made of", tables=[_parts_table(on.estimate)])
    yield from _waiting(on)
    yield from _listed(_whose(on), [_repeated_by(names, sentence, on) for sentence, names in said.items()])
    yield ReportText("The models", tables=[models_table(on.estimates, on.clock)])
    yield from _listed("No answer", _reasons(on.refusals))
    if on.roofline is not None:
        yield _under_roofs(on, on.roofline, said)
    for advice in on.advice:
        report_text = advice.report_text()
        yield replace(report_text, question=f"What would help {report_text.question}, by {ADVISOR}{_beside(on)}")
    missing = [name for name, reason in on.gaps.items() if reason not in on.refusals.values()]
    yield from _listed("Missing", [f"{name}: {on.gaps[name]}" for name in missing])


def _memory(on: OnDevice) -> Iterator[ReportText]:
    """Yield what each access of the longest launch asks of memory, and what device memory moves."""
    if on.diagnosis is not None and on.diagnosis.launches:
        longest, words = on.diagnosis.longest, on.diagnosis.words
        yield ReportText("", tables=[accesses_table(longest, words)], remarks=[longest.traffic.in_words])


def _waiting(on: OnDevice) -> Iterator[ReportText]:
    """Yield what the warps of each launch wait for."""
    if on.diagnosis is not None:
        for launch in on.diagnosis.launches:
            if launch.waiting is not None:
                rows = [(cause, bar(share), in_percent(share)) for cause, share in launch.waiting.total.items()]
                asked = f"What the {on.diagnosis.words.warp}s of {launch.name} wait for"
                yield ReportText(asked, tables=[Table(("", "", "share"), rows, text=2)])


def _listed(title: str, sentences: Sequence[str]) -> Iterator[ReportText]:
    """Yield *sentences* below *title*, if there are any."""
    if sentences:
        yield ReportText(title, remarks=sentences)


def _whose(on: OnDevice) -> str:
    """Return the title of the notes, some of which name the models that they are of."""
    return "Notes, of all models where none is named" if len(on.estimates) > 1 else "Notes"


def _repeated_by(names: Sequence[str], sentence: str, on: OnDevice) -> str:
    """Return *sentence* with the models that say it, unless all do."""
    return sentence if len(names) == len(on.estimates) else f"{', '.join(names)}: {sentence}"


def _under_roofs(on: OnDevice, roofline: Roofline, said: Collection[str]) -> ReportText:
    """Return the report text of a *roofline* without what was *said*, and with the models that are faster."""
    report_text = roofline.report_text()
    work = [(each.name, prefixed(each.flops, "flop"), _moved(each.moved)) for each in roofline.launches]
    return replace(
        report_text,
        question="Roofline",
        tables=[*report_text.tables, Table(("launch", "does", "moves"), work, last=1)],
        remarks=[OF_ALL_LANES, *report_text.remarks, *filter(None, [on.under_the_roof])],
        notes=[each for each in report_text.notes if each not in said],
    )


def _moved(moved: Mapping[str, float]) -> str:
    return ", ".join(f"{memory} {prefixed(nbytes, 'B')}" for memory, nbytes in moved.items())


def _beside(on: OnDevice) -> str:
    """Return that advice is on another model's time than what is shown first, where it is."""
    return "" if on.first == ADVISOR else f", whose time is not that of {on.first}"


def _reasons(refusals: Mapping[str, str]) -> list[str]:
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason(refusals).items()]


def _summaries(answer: Explanation) -> Table:
    """Return in a few words what each model that was asked assumes, in the order of their table."""
    asked = {name for on in answer.devices for name in (*on.estimates, *on.refusals)}
    rows = [(name, model.summary) for name, model in MODELS.items() if name in asked]
    return Table(("model", "what it assumes"), rows, text=2)


def _parts_table(estimate: Estimate) -> Table:
    """Return what each property costs, in time and as a share of the whole."""
    whole = float(estimate.seconds)
    rows = [
        (*cost.in_words(estimate.columns), in_percent(float(cost.seconds) / whole) if whole else "")
        for cost in estimate.breakdown.costs()
    ]
    return Table((*HEADINGS[estimate.columns], "share"), rows)


def _source_table(answer: Explanation, on: OnDevice) -> Table:
    """Return the source, as Loopy writes it, with what each line costs and what its warps wait for."""
    whole = float(on.estimate.seconds)
    rows: list[tuple[str, str, str, str]] = []
    for cost in answer.lines_on(on):
        line = cost.line
        if line.kind == "other" and not (cost.parts and abs(cost.seconds) >= SMALL * whole):
            continue
        name = f"  {{id={line.source}}}" if line.kind == "instruction" else ""
        is_shown = bool(cost.parts and whole) and abs(cost.seconds) >= SMALL * whole
        time, share = (duration(cost.seconds), in_percent(cost.seconds / whole)) if is_shown else ("", "")
        rows.append((" " * INDENT * line.depth + line.text + name, time, share, on.waits_at(line.source)))
    return Table(("source", "time", "share", "waits for (share of all waiting)"), rows, last=1)
