"""Which instructions kernels are made of."""

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
"""what instructions are called: e.g. a subsystem; or a kind and a type"""
WHENCE = "loopyperf.idg.Idg.mix of each kernel, by its name"
MOST = 8
"""classes that are told apart; others are one"""


def plot_mix(
    mixes: Mapping[str, InstructionMix | Mapping[Class, Count]], *, most: int = MOST, ax: Axes | None = None
) -> Figure:
    """Return stacked bars, a row for each kernel, of what a warp of it executes: shares of its instructions (x, %).

    *mixes* are by the kernel's name: a :func:`loopyperf.idg.parallelism.instruction_mix`, or numbers of instructions by
    class, as :meth:`loopyperf.idg.Idg.mix` and :func:`loopyperf.idg.parallelism.executions_by_subsystem` return. The
    total number of instructions stands beside the name. Classes beyond the *most* frequent ones over all kernels are
    "others".
    A kernel without instructions has no bar. Raises :class:`ParameterError` for anything else than mixes by name.
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
    """Return class -> kernel -> its share, the most frequent classes first, and the others as one."""
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
