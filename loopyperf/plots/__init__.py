"""Pictures of what the models say, by matplotlib: the extra ``plots``.

Each function draws on the axes that it is given, or on a figure of its own, and returns the figure.
"""

from loopyperf.plots.accuracy import plot_predictions, plot_residual_panels, plot_residuals
from loopyperf.plots.benefits import plot_benefits
from loopyperf.plots.groups import plot_groups
from loopyperf.plots.occupancy import plot_over_occupancy

__all__ = [
    "plot_benefits",
    "plot_groups",
    "plot_over_occupancy",
    "plot_predictions",
    "plot_residual_panels",
    "plot_residuals",
]
