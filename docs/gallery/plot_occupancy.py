"""
Performance against occupancy
=============================

:func:`~loopyperf.explain.plots.plot_over_occupancy` shows performance as a function of the number of resident warps per
core, according to several models.
"""

# %%
# The kernel is a five-point stencil whose groups load tiles into local memory. Without ``models=``, the plot shows all
# models that include occupancy.
from kernels import stencil

import loopyperf as lpp
from loopyperf.explain import plots

models = ["roofline", "volkov", "transit", "mwp-cwp-corrected", "gpumech-gto", "pipeline"]
found = lpp.compare_occupancies(stencil(is_tiled=True), n=4096, device="amd-mi210", models=models)
plots.plot_over_occupancy(found)
