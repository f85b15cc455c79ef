"""
Instruction mix
===============

:func:`~loopyperf.explain.plots.plot_mix` shows the instructions that a warp executes, by type.
"""

# %%
# The number beside each name is the number of instructions that a warp executes. These are the instructions of the
# source code, before compiler optimizations, which remove much of the integer arithmetic for addresses.
from kernels import element_product, row_sums, sparse_rows, stencil

import loopyperf as lpp
from loopyperf.explain import plots

graphs = {
    "stencil": lpp.instruction_graph(stencil(), n=4096),
    "tiled stencil": lpp.instruction_graph(stencil(is_tiled=True), n=4096),
    "row sums": lpp.instruction_graph(row_sums(), n=4096, m=4096),
    "sparse rows": lpp.instruction_graph(sparse_rows(), n=2**20, typical={"k": 27}),
    "element product": lpp.instruction_graph(element_product(), n=2**17),
}
plots.plot_mix({name: graph.mix() for name, graph in graphs.items()})
