"""
Run time over the size
======================

:func:`~loopyperf.explain.plots.plot_sizes` shows how the time grows with a size.
"""

# %%
# A size may be an array: one estimate then has the time for each value. The kernel multiplies a small matrix by the
# nodal values of each of n elements.
import numpy as np
from kernels import element_product

import loopyperf as lpp
from loopyperf.calibration.fit_library import bundled_fits
from loopyperf.explain import plots

fit = lpp.load_fit(bundled_fits() / "nvidia-h200" / "linear.json")
est = lpp.estimate(element_product(), n=2 ** np.arange(8, 21), fit=fit)

# %%
# The band is the prediction interval. With ``fit``, sizes are hatched where the fit extrapolates: the kernel then does
# more, or less, of something than all kernels that were measured.
plots.plot_sizes(est, "n", fit=fit)
