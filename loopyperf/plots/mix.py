"""Which instructions kernels are made of."""

from collections.abc import Mapping
from dataclasses import fields

from loopyperf.idg.metrics.parallelism import Count, Mix
from loopyperf.plots.figures import Axes, Figure, axes, check_drawn, figure_of, legend_above, name_rows
from loopyperf.plots.styles import area_styles

Class = str | tuple[str, str]
"""what instructions are called: e.g. a subsystem; or a kind and a type"""
WHENCE = "loopyperf.idg.Idg.mix of each kernel, by its name"
MOST = 8
"""classes that are told apart; others are one"""


def plot_mix(mixes: Mapping[str, Mix | Mapping[Class, Count]], *, most: int = MOST, ax: Axes | None = None) -> Figure:
    """Return stacked bars, a row for each kernel, of what a warp of it executes: shares of its instructions (x, %).

    *mixes* are by the kernel's name: a :func:`loopyperf.idg.metrics.instruction_mix`, or numbers of instructions by
    class, as :meth:`loopyperf.idg.Idg.mix` and :func:`loopyperf.idg.metrics.executions_by_subsystem` return. How many
    instructions all are stands beside the name. Classes beyond the *most* frequent ones over all kernels are "others".
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


def _by_class(mix: Mix | Mapping[Class, Count]) -> dict[str, float]:
    if isinstance(mix, Mix):
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
