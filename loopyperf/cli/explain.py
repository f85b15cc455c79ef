"""``loopyperf explain``: in a terminal, what a report shows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import click
from rich.console import Console
from rich.text import Text

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, standard_output
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.progress import working
from loopyperf.cli.shell_terms import in_shell_terms
from loopyperf.oracle.explanation.about import paragraphs
from loopyperf.oracle.explanation.explain import explain as ask
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice
from loopyperf.oracle.explanation.reasons import by_reason, in_short
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
        show_explanation(answer, standard_output())


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


def show_explanation(answer: Explanation, console: Console) -> None:
    """Print *answer*, device by device, in lines that are no longer than the console is wide."""
    for number, part in enumerate(part for part in _parts(answer, console.width) if part.lines):
        if number:
            console.print()
        if part.title:
            console.print(Text(part.title, "bold"))
        for line in part.lines:
            console.print(Text(line))


class _Part(NamedTuple):
    """Lines below a title."""

    title: str
    lines: Sequence[str]


def _parts(answer: Explanation, width: int) -> Iterator[_Part]:
    yield _Part("", [line for paragraph in paragraphs(answer.about) for line in wrap(paragraph, width)])
    for on in answer.devices:
        shown = on.estimate.sheet()
        yield _Part(Sheet(shown.head).text(width), list(_source_table(answer, on).lines(width)))
        yield _Part("What the time is made of", [line for table in shown.tables for line in table.lines(width)])
        yield _items("Notes", shown.remarks, width)
        yield _Part("The models", list(_model_table(on).lines(width)))
        yield _items("No answer", _reasons(on.refusals), width)
        if on.roofline is not None:
            lines = [*on.roofline.sheet().text(width).splitlines(), *wrap(on.under_the_roof, width)]
            yield _Part("Roofline", lines)
        advice = (line for each in on.advice for line in each.sheet().text(width).splitlines())
        yield _Part(f"What would help, by {ADVISOR}{_beside(on)}", list(advice))
        yield _items("Missing", (f"{name}: {in_short(reason)}" for name, reason in on.gaps.items()), width)
    yield _items("No answer", _reasons(answer.refusals), width)


def _items(title: str, sentences: Iterable[str], width: int) -> _Part:
    """Return *sentences* below *title*, in the words of the shell."""
    said = [in_shell_terms(sentence.removeprefix("note: ")) for sentence in sentences]
    return _Part(title, Sheet("", remarks=said).text(width).splitlines())


def _beside(on: OnDevice) -> str:
    """Return that advice is on another model's time than what is shown first, where it is."""
    return "" if on.first == ADVISOR else f" and its time, which is not that of {on.first}"


def _reasons(refusals: Mapping[str, str]) -> Iterator[str]:
    return (f"{', '.join(names)}: {reason}" for reason, names in by_reason(refusals).items())


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


def _model_table(on: OnDevice) -> Table:
    """Return what each model says, in cycles of a core, too, where the clock is known."""
    rows = [
        (name, each.bound, each.time_in_words, f"{float(each) * on.clock:,.0f}" if on.clock else "")
        for name, each in on.estimates.items()
    ]
    return Table(("model", "most of it for", "time", "cycles"), rows, text=2)
