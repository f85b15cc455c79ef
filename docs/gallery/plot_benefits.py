"""
Possible benefits
=================

:func:`~loopyperf.explain.plots.plot_benefits` shows how much time a kernel spends on memory and on computation, and how
much it would ideally spend.
"""

# %%
# The variants sum the rows of a matrix by work-groups of different sizes. A solid point is what a kernel costs, the
# cross what it would cost without overlap, and the hollow point what it would cost ideally. The longer the line to the
# hollow point, the more an optimization may gain.
from kernels import row_sums

import loopyperf as lpp
from loopyperf.explain import plots

advice = {
    f"groups of {group}": lpp.advise(row_sums(group), n=2**14, m=1024, device="nvidia-v100")[0]
    for group in (32, 128, 512)
}
plots.plot_benefits(advice)
