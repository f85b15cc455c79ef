"""
Warps and groups over time
==========================

:func:`~loopyperf.explain.plots.plot_profile` shows the stall reasons of each warp of a simulated core.
:func:`~loopyperf.explain.plots.plot_groups` shows the start and end of each group.
"""

# %%
# The kernel sums the rows of a matrix: each group sums one row, and ends with a tree reduction that uses barriers. The
# plot covers 500 cycles in the middle of the run. The upper part shows the warps, the lower part the pipelines.
from kernels import row_sums

import loopyperf as lpp
from loopyperf.explain import plots
from loopyperf.pipeline import group_times

(launch,) = lpp.trace(row_sums(), n=4096, m=1024, device="nvidia-v100").launches
plots.plot_profile(launch.profile)

# %%
# Each bar is a group. The points on a bar mark the times at which a quarter, half and three quarters of the
# instructions of the group have been issued.
plots.plot_groups(group_times(launch.explicit.simulation, shares=(0.25, 0.5, 0.75)))
