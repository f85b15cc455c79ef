"""
Run time against size
=====================

:func:`~loopyperf.explain.plots.plot_sizes` shows the predicted time as a function of a size.
"""

# %%
# If you pass an array of sizes, the estimate contains an array of times. The kernel multiplies a small matrix by the
# nodal values of each of n elements.
import numpy as np
from kernels import element_product

import loopyperf as lpp
from loopyperf.device.device_library import bundled_fits
from loopyperf.explain import plots

fit = lpp.load_fit(bundled_fits() / "nvidia-h200" / "linear.json")
est = lpp.estimate(element_product(), n=2 ** np.arange(8, 21), fit=fit)

# %%
# The band is the prediction interval. If you pass ``fit=``, markers are hollow at sizes where the fit extrapolates,
# that is, at which the count of some property is outside the range of the measured kernels.
plots.plot_sizes(est, "n", fit=fit)
