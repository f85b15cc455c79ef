"""``loopyperf explain``: in a terminal, what a report shows."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loopyperf.cli import settings
from loopyperf.cli.console import print_json, standard_output, table_of
from loopyperf.cli.estimate import property_table
from loopyperf.cli.kernel_source import load_program, words_on
from loopyperf.cli.progress import working
from loopyperf.models.on_device.roofs import LaunchUnderRoofs
from loopyperf.oracle.explanation.about import paragraphs
from loopyperf.oracle.explanation.explain import explain as ask
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice
from loopyperf.oracle.explanation.reasons import by_reason, in_short
from loopyperf.units import duration, in_percent

INDENT = 2
"""columns for each loop around a line"""
PARTS = 24
"""columns of what a line's time is for, at most"""


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
    for part in _parts(answer, console.width):
        console.print(part, soft_wrap=False)


def _parts(answer: Explanation, width: int) -> Iterator[RenderableType]:
    for paragraph in paragraphs(answer.about):
        yield Text(paragraph)
    for on in answer.devices:
        yield Text(f"\n{str(on.estimate).partition(chr(10))[0]}", "bold")
        yield _source_table(answer, on)
        yield property_table(on.estimate)
        yield from _items("Assumed", on.estimate.notes)
        yield from _items("Or", map(str, on.estimate.alternatives))
        yield _model_table(on)
        yield from _items("No answer", _reasons(on.refusals))
        launches = on.roofline.launches if on.roofline is not None else ()
        yield from _items("Roofline", map(_under_roofs, launches))
        advice = (each.sheet().text(width - INDENT) for each in on.advice)
        yield from _items("What would help", (line for text in advice for line in text.splitlines()))
        yield from _items("Missing", (f"{name}: {in_short(reason)}" for name, reason in on.gaps.items()))
    yield from _items("No answer", _reasons(answer.refusals))


def _items(title: str, sentences: Iterable[str]) -> Iterator[RenderableType]:
    """Yield *sentences* below *title*, each as far in as it begins; nothing where there are none."""
    listed = list(sentences)
    if listed:
        yield Text(f"\n{title}", "bold")
        for sentence in listed:
            words = sentence.lstrip()
            yield Padding(Text(words), (0, 0, 0, INDENT + len(sentence) - len(words)), expand=False)


def _reasons(refusals: Mapping[str, str]) -> Iterator[str]:
    return (f"{', '.join(names)}: {reason}" for reason, names in by_reason(refusals).items())


def _source_table(answer: Explanation, on: OnDevice) -> Table:
    table = table_of("source", "time", "share", "for")
    table.columns[3].justify, table.columns[3].max_width = "left", PARTS
    for column in table.columns[1:3]:
        column.no_wrap = True
    whole = float(on.estimate.seconds)
    for cost in answer.lines(on.estimate):
        if cost.line.kind == "other" and not cost.parts:
            continue
        text = Padding(Text(cost.line.text), (0, 0, 0, INDENT * cost.line.depth))
        time = duration(cost.seconds) if cost.parts else ""
        share = in_percent(cost.seconds / whole) if cost.parts and whole else ""
        table.add_row(text, time, share, ", ".join(cost.parts))
    return table


def _model_table(on: OnDevice) -> Table:
    table = table_of("model", "time", "most of it for")
    table.columns[2].justify = "left"
    for name, estimate in on.estimates.items():
        table.add_row(name, estimate.time_in_words, estimate.bound)
    return table


def _under_roofs(launch: LaunchUnderRoofs) -> str:
    intensities = ", ".join(f"{value:.3g} flop/B for {memory}" for memory, value in launch.intensities.items())
    return (
        f"{launch.name}: {duration(launch.seconds)} at least, bound by {launch.bound}, "
        f"{launch.flops:.3g} flop{f', {intensities}' if launch.flops else ''}"
    )
