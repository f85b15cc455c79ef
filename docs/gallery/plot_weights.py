"""
Weights of a fit
================

:func:`~loopyperf.explain.plots.plot_weights` shows the weights of a fit, that is, the cost per unit of work, with error
bars.
"""

# %%
# The plot shows weights of the bundled fit for the H200: the cost of a global load and of a global store for several
# strides. For stride "1/4", neighboring work-items access elements that are four elements apart, and the kernel uses
# one of these four.
import loopyperf as lpp
from loopyperf.calibration.fit_library import bundled_fits
from loopyperf.explain import plots

fit = lpp.load_fit(bundled_fits() / "nvidia-h200" / "linear.json")
strides = ["1", "2/2", "4/4", "1/2", "1/4", "1/>4"]
loads = [f"global load 32-bit stride {stride}" for stride in strides]
stores = [f"global store 32-bit stride {stride}" for stride in strides]
plots.plot_weights({"H200": fit}, loads + stores)
