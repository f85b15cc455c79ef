"""Pictures of what the models say, by matplotlib: the extra ``plots``.

Each function draws on the axes that it is given, or on a figure of its own, and returns the figure.
"""

from loopyperf.explain.plots.accuracy import plot_predictions, plot_residual_panels, plot_residuals
from loopyperf.explain.plots.breakdown import plot_breakdown, plot_weights
from loopyperf.explain.plots.mix import plot_benefits, plot_mix
from loopyperf.explain.plots.occupancy import plot_groups, plot_over_occupancy
from loopyperf.explain.plots.profile import plot_profile
from loopyperf.explain.plots.roofline import plot_roofline
from loopyperf.explain.plots.sizes import plot_sizes

__all__ = [
    "plot_benefits",
    "plot_breakdown",
    "plot_groups",
    "plot_mix",
    "plot_over_occupancy",
    "plot_predictions",
    "plot_profile",
    "plot_residual_panels",
    "plot_residuals",
    "plot_roofline",
    "plot_sizes",
    "plot_weights",
]
