"""Progress on standard error: a bar for steps that can be counted, a spinner for others.

If standard error is not a terminal, a campaign prints a line every half minute instead. With ``--quiet``, nothing is
shown. Meanwhile standard output is redirected to
standard error, since kernels are built then and the user's functions may print.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import monotonic

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bar
from rich.text import Text

from loopyperf.cli.options import is_quiet, no_answer_yet, standard_error
from loopyperf.measurement.campaign import Progress, ProgressReport

RESUME_NOTE = "measurements are saved; rerun the same command to resume"
"""message after an interrupted campaign"""
LINE_INTERVAL = 30
"""seconds between two lines of progress"""


def _lines_on(console: Console) -> ProgressReport:
    """Return a function that prints progress as lines on *console*, one every half minute."""
    latest = monotonic()

    def report(progress: Progress) -> None:
        nonlocal latest
        if monotonic() - latest >= LINE_INTERVAL:
            latest = monotonic()
            of = f": {progress.done} of {progress.total}" if progress.total else ""
            console.print(Text(f"{progress.stage} {progress.kernel_class}".strip() + of))

    return report


def _stages_on(bar: Bar) -> ProgressReport:
    """Return a function that shows progress on *bar*; each stage has its own count and clock."""
    stage, task = "measuring", bar.add_task("measuring", total=None)

    def report(progress: Progress) -> None:
        nonlocal stage, task
        if progress.stage != stage:
            bar.remove_task(task)
            stage, task = progress.stage, bar.add_task(progress.stage, total=None)
        if progress.total:
            doing = f"{progress.stage} {progress.kernel_class}"
            bar.update(task, completed=progress.done, total=progress.total, description=doing)

    return report


@contextmanager
def campaign_bar() -> Generator[ProgressReport]:
    """Show a bar during a campaign and the stages after it; yield the function that reports progress.

    An interrupt gets a note that the measurements so far are saved in the archive.
    """
    console = standard_error()
    try:
        with no_answer_yet(), _bar() as bar:
            as_lines = not console.is_terminal and not is_quiet()
            yield _lines_on(console) if as_lines else _stages_on(bar)
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(RESUME_NOTE)
        raise


@contextmanager
def counting_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Show a bar with *title*; yield the function that takes the number of steps done and their largest total."""
    with no_answer_yet(), _bar() as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def working(title: str) -> Generator[None]:
    """Show a spinner with *title* and the elapsed time."""
    console = standard_error()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Bar(*columns, console=console, transient=True, disable=not _is_shown(console))
    with no_answer_yet(), bar:
        bar.add_task(title, total=None)
        yield


def _bar() -> Bar:
    console = standard_error()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Bar(*columns, console=console, transient=True, disable=not _is_shown(console))


def _is_shown(console: Console) -> bool:
    return console.is_terminal and not is_quiet()
