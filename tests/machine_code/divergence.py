"""Divergence and reconvergence of a warp's lanes: fragments that execute separately, and convergence barriers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from .lanes import ALL, members


@dataclass(slots=True)
class Fragment:
    """Lanes of a warp that are at the same address and execute together."""

    lanes: int
    address: int


@dataclass(slots=True)
class Meeting:
    """One execution of BSSY: the lanes that will reconverge, and those that already wait."""

    expected: int
    waiting: int = 0
    then: int = 0
    """the address at which they continue"""


@dataclass(slots=True)
class Convergence:
    """The fragments of a warp, and its pending reconvergences by convergence-barrier register."""

    lanes: int = ALL
    """lanes that have not exited"""
    ready: list[Fragment] = field(default_factory=list)
    meetings: dict[int, Meeting] = field(default_factory=dict)
    """by number, until the lanes have reconverged"""
    agreed: dict[tuple[str, int], int] = field(default_factory=dict)
    """number of the reconvergence in which a lane takes part, by barrier register and lane"""
    numbers: Iterator[int] = field(default_factory=count)

    def agree(self, barrier: str, lanes: int) -> None:
        """Add a reconvergence of *lanes* at *barrier* (BSSY)."""
        number = next(self.numbers)
        self.meetings[number] = Meeting(lanes)
        self.assign(barrier, lanes, number)

    def assign(self, barrier: str, lanes: int, meeting: int) -> None:
        """Assign *meeting* to *barrier* in *lanes*."""
        self.agreed.update(((barrier, lane), meeting) for lane in members(lanes))

    def meeting_of(self, barrier: str, lanes: int) -> dict[int, int]:
        """Return the reconvergences assigned to *barrier*, each with those of *lanes* to which it is assigned."""
        found: dict[int, int] = {}
        for lane in members(lanes):
            number = self.agreed[barrier, lane]
            found[number] = found.get(number, 0) | 1 << lane
        return found

    def wait(self, barrier: str, lanes: int, then: int) -> None:
        """Make *lanes* wait at *barrier* for the others, and continue at address *then* (BSYNC)."""
        for number, here in self.meeting_of(barrier, lanes).items():
            self.meetings[number].waiting |= here
            self.meetings[number].then = then
            self._open(number)

    def leave(self, barrier: str, lanes: int) -> None:
        """Remove *lanes* from those expected at *barrier* (BREAK)."""
        for number, here in self.meeting_of(barrier, lanes).items():
            self.meetings[number].expected &= ~here
            self._open(number)

    def end(self, lanes: int) -> None:
        """Remove *lanes*, which have exited, from those expected at all barriers (EXIT)."""
        self.lanes &= ~lanes
        for number, meeting in list(self.meetings.items()):
            if meeting.expected & lanes:
                meeting.expected &= ~lanes
                self._open(number)

    def _open(self, number: int) -> None:
        meeting = self.meetings[number]
        if meeting.waiting and meeting.waiting == meeting.expected:
            self.ready.append(Fragment(meeting.waiting, meeting.then))
            del self.meetings[number]
