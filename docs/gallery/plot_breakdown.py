"""
Breakdown of the run time
=========================

:func:`~loopyperf.explain.plots.plot_breakdown` shows the time of each type of operation, or of each source instruction.
"""

# %%
# The kernel multiplies a sparse matrix in CSR format by a vector. The length of a row depends on the data, so
# ``typical`` has the average length. Each bar is one part of the predicted time. The bar of the total time has the
# prediction interval of the bundled fit.
from kernels import sparse_rows

import loopyperf as lpp
from loopyperf.explain import plots

est = lpp.estimate(sparse_rows(), n=2**20, typical={"k": 27}, device="nvidia-h200")
plots.plot_breakdown(est)

# %%
# With ``by="source"``, the bars show the time of each instruction of the kernel, identified by its ``id``.
plots.plot_breakdown(est, by="source")
