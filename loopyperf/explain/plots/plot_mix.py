"""Plot instruction mixes of kernels, and GPUPerf's potential benefits."""

from collections.abc import Mapping, Sequence
from dataclasses import fields

from loopyperf.explain.plots.figures import (
    HALVES,
    Axes,
    Figure,
    area_styles,
    axes,
    check_drawn,
    figure_of,
    hollow,
    legend_above,
    name_rows,
    point_styles,
)
from loopyperf.idg.parallelism import Count, InstructionMix
from loopyperf.models.literature.gpuperf_advice import Advice

Class = str | tuple[str, str]
"""class of instructions, e.g. a subsystem, or an opcode and a data type"""
WHENCE = "kernel names to results of loopyperf.idg.Idg.mix"
MOST = 8
"""maximum number of classes drawn one by one; the others are one"""


def plot_mix(
    mixes: Mapping[str, InstructionMix | Mapping[Class, Count]], *, most: int = MOST, ax: Axes | None = None
) -> Figure:
    """Plot the instruction mix of a warp of each kernel as stacked bars (x, % of its instructions), one row per kernel.

    *mixes* maps kernel names to a :func:`loopyperf.idg.parallelism.instruction_mix`, or to numbers of instructions by
    class, as :meth:`loopyperf.idg.Idg.mix` and :func:`loopyperf.idg.parallelism.executions_by_subsystem` return. The
    total number of instructions is shown beside the name. All but the *most* frequent classes over all kernels are
    "others". A kernel without instructions has no bar. Raises :class:`ParameterError` if *mixes* is of another type.
    """
    check_drawn(mixes, Mapping, WHENCE)
    ax = axes(ax)
    tables = {kernel: _by_class(mix) for kernel, mix in mixes.items()}
    totals = {kernel: sum(table.values()) for kernel, table in tables.items()}
    shares = {
        kernel: {name: 100 * count / totals[kernel] for name, count in table.items() if count}
        for kernel, table in tables.items()
    }
    left = dict.fromkeys(tables, 0.0)
    for (name, of_class), style in zip(_classes(shares, most).items(), area_styles(), strict=False):
        widths = [of_class.get(kernel, 0.0) for kernel in tables]
        ax.barh(range(len(tables)), widths, left=list(left.values()), **style, linewidth=0.3, label=name)
        left = {kernel: left[kernel] + width for kernel, width in zip(tables, widths, strict=True)}
    names = [f"{kernel} ({float(totals[kernel]):,.6g})" for kernel in tables]
    name_rows(ax, names)
    ax.set(xlabel="instructions (%)", xlim=(0, 100))
    ax.invert_yaxis()
    legend_above(ax)
    return figure_of(ax)


def _by_class(mix: InstructionMix | Mapping[Class, Count]) -> dict[str, float]:
    if isinstance(mix, InstructionMix):
        return {each.name: float(getattr(mix, each.name)) for each in fields(mix)}
    check_drawn(mix, Mapping, WHENCE)
    return {name if isinstance(name, str) else " ".join(name).strip(): float(count) for name, count in mix.items()}


def _classes(shares: Mapping[str, Mapping[str, float]], most: int) -> dict[str, dict[str, float]]:
    """Return class -> kernel -> share, the most frequent classes first, and all others as one class."""
    found: dict[str, dict[str, float]] = {}
    for kernel, table in shares.items():
        for name, share in table.items():
            found.setdefault(name, {})[kernel] = share
    ordered = sorted(found, key=lambda name: -sum(found[name].values()))
    shown = ordered if len(ordered) <= most + 1 else ordered[:most]
    others: dict[str, float] = {}
    for name in ordered[len(shown) :]:
        for kernel, share in found[name].items():
            others[kernel] = others.get(kernel, 0.0) + share
    kept = {name: found[name] for name in shown}
    return {**kept, "others": others} if others else kept


MILLISECOND = 1e-3
EDGE = 0.06
"""share of the width; a tick label closer to the right edge would be clipped"""
MARGIN = 0.12
"""margin for text above and below the points, as a share of the longest time"""


def plot_benefits(advice: Mapping[str, Advice] | Sequence[Advice] | Advice, *, ax: Axes | None = None) -> Figure:
    """Plot GPUPerf's benefit chart: the memory cost (x, ms) and computation cost (y, ms) of kernels, actual and ideal.

    *advice* is the advice on one launch, a mapping from kernel names, or the result of :func:`loopyperf.advise`. For
    each launch, the cross is the cost without overlap, (Tmem, Tcomp); above the diagonal, the launch is
    computation-bound. The solid marker is the cost with overlap, (T'mem, Tcomp), where T'mem is the memory time that is
    not hidden; their sum is Texec. The hollow marker at the end of the line is the ideal cost: at most Tmem_min, and
    Tfp. The chart is that of Sim, Fig. 4 (A and A') and 14. Without kernels, the axes are empty. Raises
    :class:`ParameterError` if *advice* is of another type.
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
    # Leave room for text above the highest and below the lowest point.
    ax.set_ylim(-MARGIN * largest or None, (1 + MARGIN) * largest or None)
    ax.annotate("computation-bound", (0.02, 0.98), xycoords="axes fraction", va="top", fontsize="small")
    ax.annotate("memory-bound", (0.98, 0.02), xycoords="axes fraction", ha="right", fontsize="small")
    ax.plot([], [], "x", color="grey", label="without overlap")
    ax.plot([], [], "o", color="grey", fillstyle="none", label="ideal")
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
