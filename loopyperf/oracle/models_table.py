"""What several models say of one kernel, as a table, and which of them say less than can be."""

from collections.abc import Mapping

from loopyperf.models.result import NAMED, Estimate
from loopyperf.sheet import Table
from loopyperf.units import duration, listed

ROUNDING = 1e-9
"""share by which times differ that are the same"""


def models_table(estimates: Mapping[str, Estimate], clock: float | None) -> Table:
    """Return the bound and the time of each of *estimates*, by model, and its cycles where a core's *clock* is known.

    Beside the bound stands what else the time may be. The clock is in Hz.
    """
    rows = [(name, f"{each.bound}{_others(each)}", each.time_in_words) for name, each in estimates.items()]
    if clock is None:
        return Table(("model", "bound by", "time"), rows, text=2)
    cycles = (f"{float(each) * clock:,.0f}" for each in estimates.values())
    counted = [(*row, number) for row, number in zip(rows, cycles, strict=True)]
    return Table(("model", "bound by", "time", "cycles"), counted, text=2)


def is_below(estimate: Estimate, least: float) -> bool:
    """Return whether *estimate* is less than the *least* seconds that the roofline says."""
    return float(estimate) < least * (1 - ROUNDING)


def below_roofline(estimates: Mapping[str, Estimate], least: float) -> str:
    """Return a sentence on which of *estimates*, by model, are less than the roofline says; empty where none is.

    The roofline says the *least* seconds; it is a bound of what it sees alone.
    """
    below = [name for name, each in estimates.items() if is_below(each, least)]
    if not below:
        return ""
    verb, who = ("says", "it does") if len(below) == 1 else ("say", "they do")
    left_out = dict.fromkeys(what for name in below for what in estimates[name].left_out)
    without = f", and leave{'s' * (len(below) == 1)} out {listed(left_out, NAMED)}" if left_out else ""
    less = f"{', '.join(below)} {verb} less than the {duration(least)} of the roofline"
    return f"{less}: {who} not see all that the roofline sees{without}"


def _others(estimate: Estimate) -> str:
    return "".join(f", or {duration(float(other.seconds))}" for other in estimate.alternatives)
