"""Pictures of what the models say, by matplotlib: the extra ``plots``.

Each function draws on the axes that it is given, or on a figure of its own, and returns the figure.
"""

from loopyperf.plots.accuracy import plot_predictions, plot_residual_panels, plot_residuals
from loopyperf.plots.benefits import plot_benefits
from loopyperf.plots.breakdown import plot_breakdown
from loopyperf.plots.groups import plot_groups
from loopyperf.plots.mix import plot_mix
from loopyperf.plots.occupancy import plot_over_occupancy
from loopyperf.plots.profile import plot_profile
from loopyperf.plots.roofline import plot_roofline
from loopyperf.plots.sizes import plot_sizes
from loopyperf.plots.weights import plot_weights

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
