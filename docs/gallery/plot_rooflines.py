"""
Rooflines of variants and devices
=================================

:func:`~loopyperf.explain.plots.plot_roofline` compares variants of a kernel on one device, or one kernel on several
devices.
"""

# %%
# To compare variants, pass a dict of names and rooflines. A five-point stencil moves the same number of bytes from DRAM
# with and without a tile in local memory, but the tile and its halo cost additional instructions.
from kernels import element_product, stencil

import loopyperf as lpp
from loopyperf.explain import plots

plots.plot_roofline(
    {
        "without a tile": lpp.roofline(stencil(), n=4096, device="nvidia-v100"),
        "with a tile": lpp.roofline(stencil(is_tiled=True), n=4096, device="nvidia-v100"),
    }
)

# %%
# To compare devices, pass a dict of their rooflines. Each device has its own color. The kernel multiplies a small
# matrix by the nodal values of each element, as in discontinuous Galerkin methods.
devices = ["nvidia-h200", "amd-mi210"]
plots.plot_roofline({device: lpp.roofline(element_product(), n=2**17, device=device) for device in devices})
