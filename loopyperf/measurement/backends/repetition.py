"""What backends that launch have in common: how much may be in one run, and what must not disturb it."""

import gc
from collections.abc import Generator
from contextlib import contextmanager

from loopyperf.errors import MeasurementError

MOST_LAUNCHES = 1000
"""What launches more in one run is not timed: 1000 launches take 10 ms before they have computed anything."""


def check_launches(already: int) -> None:
    """Raise :class:`MeasurementError` if no launch may follow those that a run has *already*."""
    if already >= MOST_LAUNCHES:
        raise MeasurementError(
            f"one run of the kernel is more than {MOST_LAUNCHES} launches: the loops around its global barriers "
            "run on the host; move them into the launches, or measure a smaller size"
        )


@contextmanager
def no_garbage_collection() -> Generator[None]:
    """Keep Python from collecting: Loopy leaves so many objects that this takes longer than most kernels."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
