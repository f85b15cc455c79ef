"""
Breakdown of the run time
=========================

:func:`~loopyperf.explain.plots.plot_breakdown` shows which operations, or which instructions of the source, take the
time.
"""

# %%
# The kernel multiplies a sparse matrix in CSR format by a vector. Only the data tell how long a row is, so ``typical``
# gives the average. The bars are the parts of the time, and the interval is that of the bundled fit.
from kernels import sparse_rows

import loopyperf as lpp
from loopyperf.explain import plots

est = lpp.estimate(sparse_rows(), n=2**20, typical={"k": 27}, device="nvidia-h200")
plots.plot_breakdown(est)

# %%
# By source, the same time is divided among the instructions of the kernel, by their ``id``.
plots.plot_breakdown(est, by="source")
