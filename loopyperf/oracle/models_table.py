"""What several models say of one kernel, as a table."""

from collections.abc import Mapping

from loopyperf.models.result import Estimate
from loopyperf.sheet import Table
from loopyperf.units import duration


def models_table(estimates: Mapping[str, Estimate], clock: float | None) -> Table:
    """Return the bound and the time of each of *estimates*, by model, and its cycles where a core's *clock* is known.

    Beside the bound stands what else the time may be. The clock is in Hz.
    """
    rows = [(name, f"{each.bound}{_others(each)}", each.time_in_words) for name, each in estimates.items()]
    if clock is None:
        return Table(("model", "most of it for", "time"), rows, text=2)
    cycles = (f"{float(each) * clock:,.0f}" for each in estimates.values())
    counted = [(*row, number) for row, number in zip(rows, cycles, strict=True)]
    return Table(("model", "most of it for", "time", "cycles"), counted, text=2)


def _others(estimate: Estimate) -> str:
    return "".join(f", or {duration(float(other.seconds))}" for other in estimate.alternatives)
