"""Plot predictions, breakdowns, profiles and rooflines with matplotlib (the extra ``plots``).

Each function draws on the given axes, or on a new figure, and returns the figure. Colors are those of the current
matplotlib style.
"""

from loopyperf.explain.plots.plot_accuracy import plot_predictions, plot_residuals
from loopyperf.explain.plots.plot_breakdown import plot_breakdown
from loopyperf.explain.plots.plot_occupancy import plot_groups, plot_over_occupancy
from loopyperf.explain.plots.plot_profile import plot_profile
from loopyperf.explain.plots.plot_roofline import plot_roofline
from loopyperf.explain.plots.plot_sizes import plot_sizes

__all__ = [
    "plot_breakdown",
    "plot_groups",
    "plot_over_occupancy",
    "plot_predictions",
    "plot_profile",
    "plot_residuals",
    "plot_roofline",
    "plot_sizes",
]
