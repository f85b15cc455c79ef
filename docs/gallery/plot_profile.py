"""
Warps and groups over time
==========================

:func:`~loopyperf.explain.plots.plot_profile` shows what each warp of a simulated core waits for, and
:func:`~loopyperf.explain.plots.plot_groups` when each work-group starts and finishes.
"""

# %%
# The kernel sums the rows of a matrix: each work-group sums one row, at the end in a tree with barriers. The picture
# shows 500 cycles in the middle of the run: above the warps, below the pipelines.
from kernels import row_sums

import loopyperf as lpp
from loopyperf.explain import plots
from loopyperf.pipeline import group_times

(launch,) = lpp.trace(row_sums(), n=4096, m=1024, device="nvidia-v100").launches
plots.plot_profile(launch.profile)

# %%
# The points on a bar are when a quarter, half and three quarters of the group's instructions have been issued.
plots.plot_groups(group_times(launch.explicit.simulation, shares=(0.25, 0.5, 0.75)))
