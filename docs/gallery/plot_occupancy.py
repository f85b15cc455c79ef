"""
Performance over occupancy
==========================

:func:`~loopyperf.explain.plots.plot_over_occupancy` shows how many warps a core must execute at once to reach its best
performance, according to several models.
"""

# %%
# The kernel is a five-point stencil whose work-groups share a tile in local memory. Without ``models``, all models that
# know the occupancy are compared.
from kernels import stencil

import loopyperf as lpp
from loopyperf.explain import plots

models = ["roofline", "volkov", "transit", "mwp-cwp-corrected", "gpumech-gto", "pipeline"]
found = lpp.compare_occupancies(stencil(is_tiled=True), n=4096, device="amd-mi210", models=models)
plots.plot_over_occupancy(found)
