"""The roofs of a roofline chart: slopes of memories and levels of arithmetic, of one device or of several."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal

from loopyperf.models.on_device.roofs import MULTIPLY_ADDS, Roofline
from loopyperf.plots.figures import NARROW, Axes, ink, width_of
from loopyperf.plots.levels import name_levels, names_in_lines
from loopyperf.plots.styles import DASHES, Dash, line_weights
from loopyperf.units import prefixed

MARGIN = 4.0
"""times: how far the axes go beyond the launches and the ridges"""
BEYOND = 1.5
"""times: how far level lines go beyond what is farthest right"""
CLASSICAL = MULTIPLY_ADDS.format("f32")
"""the level that is drawn of each of several devices, beside those that bind a launch"""
UNBROKEN_HYPHEN = "\N{NON-BREAKING HYPHEN}"
"""of the name of a device, which stays in one line"""
Kind = Literal["memory", "peak", "launch"]


def mark_of(kind: Kind, number: int) -> str:
    """Return the id (``Artist.get_gid``) of what is drawn of a memory, of peaks that look the same, or of a launch.

    The *number* is that in the order of :attr:`Roofline.bandwidths`, of the peaks by height as they first appear in
    :attr:`Roofline.peaks`, or of :attr:`Roofline.launches`; over several devices or rooflines, numbers go on.
    """
    return f"{kind}-{number}"


@dataclass(frozen=True, slots=True)
class DeviceRoofs:
    """What is drawn of the roofs of one device."""

    device: str
    """its short name, for those that read the chart"""
    bandwidths: Mapping[str, float]
    """memory -> B/s"""
    peaks: Mapping[str, float]
    """what is limited -> flop/s: those that are drawn"""
    is_alone: bool
    """whether no other device is in the chart"""
    memories_before: int
    """memories of devices before it"""
    levels_before: int
    """levels of devices before it"""

    @property
    def highest(self) -> float | None:
        """Return the highest peak, in flop/s; None where there is none."""
        return max(self.peaks.values(), default=None)

    @property
    def levels(self) -> dict[str, list[str]]:
        """Return height, as it is written -> the names of the peaks that have it: one name is written for them."""
        found: dict[str, list[str]] = {}
        for name, peak in self.peaks.items():
            found.setdefault(prefixed(peak, "flop/s"), []).append(name)
        return found

    def memory_mark(self, number: int) -> str:
        """Return the id of what is drawn of the memory of that *number* here."""
        return mark_of("memory", self.memories_before + number)

    def level_mark(self, number: int) -> str:
        """Return the id of what is drawn of the level of that *number* here."""
        return mark_of("peak", self.levels_before + number)

    def words(self) -> dict[str, str]:
        """Return what each roof is and how high, by its id."""
        where = "" if self.is_alone else f", {self.device}"
        memories = {
            self.memory_mark(number): f"{memory}, {prefixed(bandwidth, 'B/s')}{where}"
            for number, (memory, bandwidth) in enumerate(self.bandwidths.items())
        }
        return memories | {
            self.level_mark(number): f"{' and '.join(names)}, {height}{where}"
            for number, (height, names) in enumerate(self.levels.items())
        }

    def level_names(self, *, is_narrow: bool) -> dict[str, str]:
        """Return what is written at the end of each level, by its id; where narrow no numbers, or no names at all.

        Names have no room where the chart is narrow and has several devices.
        """
        names = {self.level_mark(number): " and ".join(each) for number, each in enumerate(self.levels.values())}
        if not self.is_alone:
            device = self.device.replace("-", UNBROKEN_HYPHEN)
            return {} if is_narrow else {mark: f"{name}, {device}" for mark, name in names.items()}
        words = self.words()
        return names if is_narrow else {mark: words[mark] for mark in names}


def roofs_of(rooflines: Iterable[Roofline]) -> list[DeviceRoofs]:
    """Return the roofs to draw of *rooflines*: of each device once, and of several devices only the levels that matter.

    These are those of multiply-adds in single precision, and those that bind a launch.
    """
    every = list(rooflines)
    distinct: list[Roofline] = []
    for each in every:
        if not any(_have_the_same_roofs(each, known) for known in distinct):
            distinct.append(each)
    binding = {launch.roof for each in every for launch in each.launches}
    found: list[DeviceRoofs] = []
    for each in distinct:
        others = [known.device for known in found if known.device.partition(" (")[0] == each.device]
        is_alone = len(distinct) == 1
        shown = {name: peak for name, peak in each.peaks.items() if name == CLASSICAL or name in binding}
        roofs = DeviceRoofs(
            device=f"{each.device} ({len(others) + 1})" if others else each.device,
            bandwidths=each.bandwidths,
            peaks=each.peaks if is_alone or not shown else shown,
            is_alone=is_alone,
            memories_before=sum(len(known.bandwidths) for known in found),
            levels_before=sum(len(known.levels) for known in found),
        )
        found.append(roofs)
    return found


def _have_the_same_roofs(one: Roofline, other: Roofline) -> bool:
    return (one.device, one.bandwidths, one.peaks) == (other.device, other.bandwidths, other.peaks)


def roofs_in_words(*rooflines: Roofline) -> dict[str, str]:
    """Return what each roof of *rooflines* is and how high, by :func:`mark_of` it, as in ``"DRAM, 900 GB/s"``."""
    return {mark: words for roofs in roofs_of(rooflines) for mark, words in roofs.words().items()}


def draw_roofs(
    ax: Axes, every: Sequence[DeviceRoofs], across: Sequence[float], up: Sequence[float], below: float
) -> None:
    """Draw the roofs of *every* device, with limits that show launches at *across* (flop/B) and *up* (flop/s).

    A share *below* of the height is left for names under the lowest launch.
    """
    is_narrow = width_of(ax) <= NARROW
    written = {mark: name for roofs in every for mark, name in roofs.level_names(is_narrow=is_narrow).items()}
    heights = [roofs.peaks[names[0]] for roofs in every for names in roofs.levels.values()][: len(written)]
    names, share = names_in_lines(ax, list(written.values()))
    end = _set_limits(ax, every, across, up, share, below)
    dashes = _dashes(every)
    for number, (roofs, (color, width)) in enumerate(zip(every, line_weights(ink(ax)), strict=False)):
        _draw_device(ax, roofs, dashes, (color, width), end, 1 - 0.01 * number)
    if len(every) > 1:
        for memory, dash in dashes.items():
            ax.plot([], [], color=ink(ax), linewidth=1, linestyle=dash, label=f"memory: {memory}")
    labels = name_levels(ax, dict(zip(names, heights, strict=True)), end)
    for mark, name in zip(written, names, strict=True):
        labels[name].set_gid(mark)


def _dashes(every: Sequence[DeviceRoofs]) -> dict[str, Dash]:
    """Return memory -> how its slope is dashed, on all devices alike."""
    memories = dict.fromkeys(memory for roofs in every for memory in roofs.bandwidths)
    return dict(zip(memories, cycle(DASHES)))


def _set_limits(
    ax: Axes, every: Sequence[DeviceRoofs], across: Sequence[float], up: Sequence[float], names: float, below: float
) -> float:
    """Show all launches, and the ridge of each memory with the highest peak; return where level lines end.

    To the right, a share of the width is left for *names*.
    """
    highest = max((roofs.highest or 0.0 for roofs in every), default=0.0) or 1.0
    ridges = [(roofs.highest or highest) / each for roofs in every for each in roofs.bandwidths.values()]
    everywhere = [*ridges, *across] or [1.0]
    left, end = min(everywhere) / MARGIN, max(everywhere) * BEYOND
    low, high = min([*up, *(peak for roofs in every for peak in roofs.peaks.values())], default=1.0), highest * MARGIN
    room = min(low / MARGIN, low * (low / high) ** (below / (1 - below)))
    ax.set_xlim(left, left * (end / left) ** (1 / (1 - names)))
    ax.set_ylim(room, high)
    return end


def _draw_device(
    ax: Axes, roofs: DeviceRoofs, dashes: Mapping[str, Dash], weight: tuple[str, float], end: float, zorder: float
) -> None:
    (left, _), (_, top), (color, width) = ax.get_xlim(), ax.get_ylim(), weight
    highest, words = roofs.highest or top, roofs.words()
    if not roofs.is_alone:
        ax.plot([], [], color=color, linewidth=width, label=f"roofs of {roofs.device}")
    for number, (memory, bandwidth) in enumerate(roofs.bandwidths.items()):
        gid = roofs.memory_mark(number)
        label = words[gid] if roofs.is_alone else None
        ends = [left, highest / bandwidth], [left * bandwidth, highest]
        (line,) = ax.plot(*ends, color=color, linewidth=width, linestyle=dashes[memory], label=label, zorder=zorder)
        line.set_gid(gid)
    steepest = max(roofs.bandwidths.values(), default=highest / left)
    for number, names in enumerate(roofs.levels.values()):
        for peak in (roofs.peaks[name] for name in names):
            (line,) = ax.plot([peak / steepest, end], [peak, peak], color=color, linewidth=0.6 * width, zorder=zorder)
            line.set_gid(roofs.level_mark(number))
