"""What is shown on standard error while one waits: a bar for what can be counted, a word for what cannot.

Nothing is shown where standard error is not a terminal, or with ``--quiet``. What is printed while one waits is never
the answer: kernels are built then, and what the user's functions print goes to standard error.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from loopyperf.cli.streams import is_quiet, no_answer_yet, standard_error
from loopyperf.measurement.campaign import Progress, ProgressReport

GOES_ON = "what was measured is kept, and the same command goes on from there"
"""is said of a campaign that is interrupted"""


class FractionColumn(MofNCompleteColumn):
    """How many are done of how many, where that is known."""

    def render(self, task: Task) -> Text:
        """Return both numbers, or nothing."""
        return Text() if task.total is None else super().render(task)


class StageProgress:
    """The stages of a campaign on a bar: each has a count, and a clock, of its own."""

    def __init__(self, bar: Bar) -> None:
        """Begin with measuring on *bar*."""
        self._bar = bar
        self._start("measuring")

    def _start(self, stage: str) -> None:
        self._stage, self._task = stage, self._bar.add_task(stage, total=None)

    def report(self, progress: Progress) -> None:
        """Show how far the stage is, or that another one has begun."""
        if progress.stage != self._stage:
            self._bar.remove_task(self._task)
            self._start(progress.stage)
        if progress.total:
            doing = f"{progress.stage} {progress.kernel_class}"
            self._bar.update(self._task, completed=progress.done, total=progress.total, description=doing)


@contextmanager
def campaign_bar() -> Generator[ProgressReport]:
    """Show a bar while a campaign runs, and the stages after it; yields what reports progress.

    What is measured is in the archive at once, and whoever interrupts the campaign is told so.
    """
    try:
        with no_answer_yet(), _bar() as bar:
            yield StageProgress(bar).report
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(GOES_ON)
        raise


@contextmanager
def counting_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Show a bar while things are answered one by one; yields what is told how many are, and of how many at most."""
    with no_answer_yet(), _bar() as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def working(title: str) -> Generator[None]:
    """Show that something is being worked out, and for how long already."""
    console = standard_error()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Bar(*columns, console=console, transient=True, disable=not _is_shown(console))
    with no_answer_yet(), bar:
        bar.add_task(title, total=None)
        yield


def _bar() -> Bar:
    console = standard_error()
    columns = (TextColumn("{task.description}"), BarColumn(), FractionColumn(), TimeElapsedColumn())
    return Bar(*columns, console=console, transient=True, disable=not _is_shown(console))


def _is_shown(console: Console) -> bool:
    return console.is_terminal and not is_quiet()
