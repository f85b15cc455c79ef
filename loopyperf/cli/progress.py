"""A progress bar for campaigns of measurements."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from loopyperf.measurement.campaign import Progress
from loopyperf.oracle.calibrate import ProgressReport


@contextmanager
def campaign_bar(title: str) -> Generator[ProgressReport]:
    """Show a bar on standard error while a campaign runs; yields what reports progress to it."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)

        def report(progress: Progress) -> None:
            bar.update(
                task, completed=progress.done, total=progress.total, description=f"{title} {progress.kernel_class}"
            )

        yield report
