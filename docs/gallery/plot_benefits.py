"""
Potential benefits
==================

:func:`~loopyperf.explain.plots.plot_benefits` shows the time that a kernel spends on memory accesses and on
computation, and the ideal times, according to the model GPUPerf.
"""

# %%
# The variants sum the rows of a matrix with groups of different sizes. Each variant has three markers: a solid one for
# its cost, a cross for its cost if memory accesses and computation did not overlap, and a hollow one for its ideal
# cost. A long line to the hollow marker indicates a large potential for optimization.
from kernels import row_sums

import loopyperf as lpp
from loopyperf.explain import plots

advice = {
    f"groups of {group}": lpp.advise(row_sums(group), n=2**14, m=1024, device="nvidia-v100")[0]
    for group in (32, 128, 512)
}
plots.plot_benefits(advice)
