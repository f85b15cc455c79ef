"""
Weights of a fit
================

:func:`~loopyperf.explain.plots.plot_weights` shows what a unit of work costs, and how far each weight may be off.
"""

# %%
# These weights of the bundled fit for the H200 are what a global load and a store cost by access pattern. In "1/4", the
# accesses of neighboring work-items are four elements apart, and one of the four is used.
import loopyperf as lpp
from loopyperf.calibration.fit_library import bundled_fits
from loopyperf.explain import plots

fit = lpp.load_fit(bundled_fits() / "nvidia-h200" / "linear.json")
strides = ["1", "2/2", "4/4", "1/2", "1/4", "1/>4"]
loads = [f"global load 32-bit stride {stride}" for stride in strides]
stores = [f"global store 32-bit stride {stride}" for stride in strides]
plots.plot_weights({"H200": fit}, loads + stores)
