"""``loopyperf explain``: in a terminal, what a report shows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, show, show_sheet
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.progress import working
from loopyperf.oracle.explanation.about import paragraphs
from loopyperf.oracle.explanation.explain import explain as ask
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice
from loopyperf.oracle.models_table import models_table
from loopyperf.oracle.refusals import by_reason
from loopyperf.sheet import Sheet, Table
from loopyperf.units import duration, in_percent

INDENT = 2
"""columns for each loop around a line"""
ADVISOR = "gpuperf"
"""the model whose advice it is"""


@click.command(epilog="\b\nExample: loopyperf explain matmul.py:tiled --set n=4096 --device nvidia-v100")
@settings.explaining
@settings.as_json
def explain(as_json: bool, **asked: Any) -> None:
    """Say why the Loopy kernel that FUNCTION in FILE.py builds takes so long: line by line, by all models.

    `loopyperf report` makes a page of the same.
    """
    answer = explained(**asked)
    if as_json:
        print_json(answer.to_dict())
    else:
        show_explanation(answer)


def explained(
    *,
    kernel: str,
    sizes: dict[str, int],
    typical: dict[str, float] | None,
    devices: tuple[str, ...],
    model: str | None,
    models: tuple[str, ...],
    fit: str | None,
) -> Explanation:
    """Return what there is to say of the kernel that the options of :func:`loopyperf.cli.settings.explaining` name."""
    program = load_program(kernel)
    with working("asking all models"):
        return ask(
            program,
            device=devices or None,
            model=model,
            models=models or None,
            fit=fit,
            about=words_on(kernel),
            typical=typical,
            parameters=sizes,
        )


def show_explanation(answer: Explanation) -> None:
    """Print *answer*, device by device."""
    for paragraph in paragraphs(answer.about):
        show(paragraph, hanging="")
    for number, sheet in enumerate(_sheets(answer)):
        if number or answer.about:
            show("")
        show_sheet(sheet)


def _sheets(answer: Explanation) -> Iterator[Sheet]:
    """Yield what there is to print, one below the other."""
    for on in answer.devices:
        whole = on.estimate.sheet()
        yield Sheet(whole.asked, whole.answer, [_source_table(answer, on)])
        if whole.tables:
            yield Sheet("What the time is made of", tables=whole.tables)
        notes = [*whole.remarks, *whole.notes]
        yield from _listed("Notes", notes)
        yield Sheet("The models", tables=[models_table(on.estimates, on.clock)])
        yield from _listed("No answer", _reasons(on.refusals))
        if on.roofline is not None:
            yield _under_roofs(on, on.roofline.sheet(), notes)
        for advice in on.advice:
            sheet = advice.sheet()
            yield replace(sheet, asked=f"What would help {sheet.asked}, by {ADVISOR}{_beside(on)}")
        missing = [name for name, reason in on.gaps.items() if reason not in on.refusals.values()]
        yield from _listed("Missing", [f"{name}: {on.gaps[name]}" for name in missing])
    yield from _listed("No answer", _reasons(answer.refusals))


def _listed(title: str, sentences: Sequence[str]) -> Iterator[Sheet]:
    """Yield *sentences* below *title*, if there are any."""
    if sentences:
        yield Sheet(title, remarks=sentences)


def _under_roofs(on: OnDevice, sheet: Sheet, said: Sequence[str]) -> Sheet:
    """Return the *sheet* of a roofline without what was *said*, and with the models that are faster."""
    notes = [each for each in sheet.notes if each not in said]
    return replace(sheet, asked="Roofline", remarks=list(filter(None, [on.under_the_roof])), notes=notes)


def _beside(on: OnDevice) -> str:
    """Return that advice is on another model's time than what is shown first, where it is."""
    return "" if on.first == ADVISOR else f", whose time is not that of {on.first}"


def _reasons(refusals: Mapping[str, str]) -> list[str]:
    return [f"{', '.join(names)}: {reason}" for reason, names in by_reason(refusals).items()]


def _source_table(answer: Explanation, on: OnDevice) -> Table:
    """Return the source, as Loopy writes it, with what each line costs: advice has the instructions' ids."""
    whole = float(on.estimate.seconds)
    rows: list[tuple[str, str, str, str]] = []
    for cost in answer.lines(on.estimate):
        line = cost.line
        if line.kind == "other" and not cost.parts:
            continue
        name = f"  {{id={line.source}}}" if line.kind == "instruction" else ""
        time = duration(cost.seconds) if cost.parts else ""
        share = in_percent(cost.seconds / whole) if cost.parts and whole else ""
        rows.append((" " * INDENT * line.depth + line.text + name, time, share, ", ".join(cost.parts)))
    return Table(("source", "time", "share", "most of it for"), rows, last=1)
