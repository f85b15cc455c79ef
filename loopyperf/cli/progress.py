"""A progress bar for campaigns of measurements."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from loopyperf.cli.console import standard_error
from loopyperf.measurement.campaign import Progress
from loopyperf.oracle.campaign import ProgressReport


@contextmanager
def campaign_bar(title: str) -> Generator[ProgressReport]:
    """Show a bar on standard error while a campaign runs, if that is a terminal; yields what reports progress."""
    console = standard_error()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=None)

        def report(progress: Progress) -> None:
            bar.update(
                task, completed=progress.done, total=progress.total, description=f"{title} {progress.kernel_class}"
            )

        yield report
