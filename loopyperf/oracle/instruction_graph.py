"""The instruction dependence graphs of a kernel, as users ask for them."""

from collections.abc import Mapping
from typing import Any

from loopyperf.counts.typical import Typical
from loopyperf.errors import ParameterError
from loopyperf.idg.construction.kernel_graphs import KernelIdg, kernel_graphs
from loopyperf.kernel import Program
from loopyperf.oracle.analysis import admitted_sizes, prepared
from loopyperf.properties.unified import item_named


def instruction_graph(
    program: Program,
    /,
    *,
    warp_size: int = 32,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> KernelIdg:
    """Return the source graph of *program* at *sizes*: that of the representative warp of its longest launch.

    The graphs of other launches, and of other kinds of warps with how many there are, are in its ``launches``. What
    nvcc makes of a graph is :func:`loopyperf.idg.lowering.lowered`. Sizes are the kernel's integer parameters as
    keywords; one that collides with an option goes through *parameters*. *typical* states what the source does not tell
    (see :func:`loopyperf.count`); *warp_size* is the number of lanes of a warp, 64 on some devices of AMD.

    Raises :class:`KernelError` for a kernel that Loopy cannot schedule, :class:`UncountableError` for what depends on
    data of which nothing is stated, and :class:`ParameterError` for wrong sizes and options.
    """
    _check(warp_size)
    twice = sorted(set(parameters or {}) & set(sizes))
    if twice:
        raise ParameterError(f"size {', '.join(twice)} is given twice, as a keyword and in parameters")
    kernel = prepared(program)
    stated = Typical(typical or {}, item_named)
    graphs = kernel_graphs(kernel, admitted_sizes(kernel, {**(parameters or {}), **sizes}), stated, warp_size)
    stated.check_all_asked(kernel.name)
    return graphs


def _check(warp_size: object) -> None:
    if isinstance(warp_size, bool) or not isinstance(warp_size, int) or warp_size < 1:
        raise ParameterError(f"warp_size is a number of lanes, 1 or more, received {warp_size!r}")
