"""What is shown on standard error while one waits: a bar for what can be counted, a word for what cannot.

Nothing is, where standard error is no terminal, or with ``--quiet``.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from loopyperf.cli.console import standard_error
from loopyperf.cli.loudness import is_quiet
from loopyperf.measurement.campaign import Progress
from loopyperf.oracle.measuring import ProgressReport


@contextmanager
def campaign_bar(title: str) -> Generator[ProgressReport]:
    """Show a bar while a campaign runs; yields what reports progress."""
    with _bar() as bar:
        task = bar.add_task(title, total=None)

        def report(progress: Progress) -> None:
            bar.update(
                task, completed=progress.done, total=progress.total, description=f"{title} {progress.kernel_class}"
            )

        yield report


@contextmanager
def counting_bar(title: str) -> Generator[Callable[[int, int], None]]:
    """Show a bar while things are answered one by one; yields what is told how many are, and of how many at most."""
    with _bar() as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def working(title: str) -> Generator[None]:
    """Show that something is being worked out, and for how long already."""
    console = standard_error()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not _is_shown(console)) as bar:
        bar.add_task(title, total=None)
        yield


def _bar() -> Bar:
    console = standard_error()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Bar(*columns, console=console, transient=True, disable=not _is_shown(console))


def _is_shown(console: Console) -> bool:
    return console.is_terminal and not is_quiet()
