"""GPUPerf's X-Y chart: what memory and computation cost of a kernel, and what might be gained of either."""

from collections.abc import Mapping, Sequence

from loopyperf.models.literature.advice import Advice
from loopyperf.plots.figures import Axes, Figure, axes, check_drawn, figure_of, legend_above
from loopyperf.plots.styles import HALVES, hollow, point_styles

MILLISECOND = 1e-3
EDGE = 0.06
"""of the width: a number so near the right edge would be cut"""
MARGIN = 0.12
"""of the longest time: the room for words above and below the points"""


def plot_benefits(advice: Mapping[str, Advice] | Sequence[Advice] | Advice, *, ax: Axes | None = None) -> Figure:
    """Return the benefit X-Y chart: what memory (x, ms) and computation (y, ms) cost of kernels, and would ideally.

    *advice* is that on one launch, or by the names of kernels, or what :func:`loopyperf.advise` returns. Of each, the
    cross is what it would cost without overlap, Tmem and Tcomp: above the diagonal, computation is the bound. The solid
    point is what it costs: T'mem, which nothing hides, and Tcomp; their sum is Texec. The hollow one, at the end of the
    line, is what it would cost ideally: Tmem_min at most, and Tfp. The chart is that of Sim, Fig. 4 (A and A') and 14.
    Without kernels the axes are empty. Raises :class:`ParameterError` for anything else than advice.
    """
    by_name = _by_name(advice)
    ax = axes(ax)
    largest = 0.0
    for (name, each), style in zip(by_name.items(), point_styles(HALVES), strict=False):
        unit = each.clock * MILLISECOND
        found = each.analysis
        memory, computation = float(found.t_mem_visible) / unit, float(found.t_comp) / unit
        whole = float(found.t_mem) / unit
        ideal = memory - float(found.b_memlp) / unit, float(found.t_fp) / unit
        ax.plot([memory, ideal[0]], [computation, ideal[1]], color=style["color"], linewidth=1, linestyle=":")
        ax.plot([whole, memory], [computation, computation], color=style["color"], linewidth=1)
        ax.plot([whole], [computation], "x", color=style["color"])
        ax.plot([memory], [computation], **style, linestyle="none", label=name)
        ax.plot([ideal[0]], [ideal[1]], **hollow(style), linestyle="none")
        largest = max(largest, whole, computation)
    ax.plot([0, largest], [0, largest], color="grey", linewidth=1, linestyle="--", zorder=0)
    # Above the highest and below the lowest point, so that it covers none.
    ax.set_ylim(-MARGIN * largest or None, (1 + MARGIN) * largest or None)
    ax.annotate("computation is the bound", (0.02, 0.98), xycoords="axes fraction", va="top", fontsize="small")
    ax.annotate("memory is the bound", (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize="small")
    ax.plot([], [], "x", color="grey", label="without overlap")
    ax.plot([], [], "o", color="grey", fillstyle="none", label="ideally")
    ax.set(xlabel="memory, T'mem (ms)", ylabel="computation, Tcomp (ms)")
    ax.set_xlim(-0.02 * largest or None, 1.05 * largest or None)
    left, right = ax.get_xlim()
    ax.set_xticks([tick for tick in ax.get_xticks() if left <= tick <= right - EDGE * (right - left)])
    legend_above(ax)
    return figure_of(ax)


def _by_name(advice: Mapping[str, Advice] | Sequence[Advice] | Advice) -> dict[str, Advice]:
    if not isinstance(advice, Mapping | Sequence):
        advice = [advice]
    listed = list(advice.values() if isinstance(advice, Mapping) else advice)
    for each in listed:
        check_drawn(each, Advice, "loopyperf.advise")
    names = advice if isinstance(advice, Mapping) else [each.launch for each in listed]
    return dict(zip(names, listed, strict=True))
