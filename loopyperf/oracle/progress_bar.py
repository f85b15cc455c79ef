"""A bar for Python's calls that take long: what a notebook shows as a widget, and a terminal as text.

``progress=`` of :func:`loopyperf.rank`, :func:`loopyperf.search`, :func:`loopyperf.calibrate` and
:func:`loopyperf.validate` takes it. The bar is tqdm's, which is imported when the first one is made.
"""

import warnings
from importlib import import_module
from typing import Any

from loopyperf.errors import LoopyperfError
from loopyperf.measurement.campaign import Progress


class ProgressBar:
    """A bar that is called with how far something is: how many of how many are done, or a stage of a campaign.

    It is closed when all are done, by :meth:`close`, or at the end of a ``with`` statement. Making one raises
    :class:`LoopyperfError` where tqdm cannot be imported.
    """

    def __init__(self, title: str = "") -> None:
        """Show a bar, whose *title* stands before it until a stage has another one."""
        try:
            with warnings.catch_warnings():
                # Without ipywidgets tqdm shows text in notebooks, and warns.
                warnings.simplefilter("ignore")
                self._bar: Any = import_module("tqdm.auto").tqdm(desc=title or None)
        except ImportError as error:
            raise LoopyperfError(
                f"progress bars need tqdm, which cannot be imported ({error}): pip install 'loopyperf[notebooks]'"
            ) from error

    def __call__(self, progress: int | Progress, total: int | None = None, /) -> None:
        """Show that *progress* of *total* are done, or how far a stage of a campaign is."""
        if isinstance(progress, Progress):
            self._bar.set_description(f"{progress.stage} {progress.kernel_class}".strip(), refresh=False)
            self._show(progress.done, progress.total or None)
        else:
            self._show(progress, total)

    def _show(self, done: int, total: int | None) -> None:
        if done < self._bar.n or total != self._bar.total:
            self._bar.reset()
            self._bar.total = total
        self._bar.update(done - self._bar.n)
        self._bar.refresh()

    def close(self) -> None:
        """Leave the bar as it is: nothing more is shown."""
        self._bar.close()

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
