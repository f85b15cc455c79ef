"""How the lanes of a warp part and meet again: fragments that walk by themselves, and barriers where they wait."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from .lanes import ALL, members


@dataclass(slots=True)
class Fragment:
    """Lanes of a warp that are at the same address, and walk on together."""

    lanes: int
    address: int


@dataclass(slots=True)
class Meeting:
    """One execution of BSSY: the lanes that are to meet, and those that wait for the others."""

    expected: int
    waiting: int = 0
    then: int = 0
    """the address where they go on"""


@dataclass(slots=True)
class Convergence:
    """The fragments of a warp and the meetings that its lanes have agreed on, by convergence-barrier register."""

    lanes: int = ALL
    """those that have not ended"""
    ready: list[Fragment] = field(default_factory=list)
    meetings: dict[int, Meeting] = field(default_factory=dict)
    """by number, until the lanes have met"""
    agreed: dict[tuple[str, int], int] = field(default_factory=dict)
    """the number of the meeting that a lane has agreed on, by barrier register and lane"""
    numbers: Iterator[int] = field(default_factory=count)

    def agree(self, barrier: str, lanes: int) -> None:
        """Let *lanes* agree to meet at *barrier* (BSSY)."""
        number = next(self.numbers)
        self.meetings[number] = Meeting(lanes)
        self.assign(barrier, lanes, number)

    def assign(self, barrier: str, lanes: int, meeting: int) -> None:
        """Let *barrier* stand for *meeting* in *lanes*."""
        self.agreed.update(((barrier, lane), meeting) for lane in members(lanes))

    def meeting_of(self, barrier: str, lanes: int) -> dict[int, int]:
        """Return the meetings that *barrier* stands for, each with those of *lanes* for which it does."""
        found: dict[int, int] = {}
        for lane in members(lanes):
            number = self.agreed[barrier, lane]
            found[number] = found.get(number, 0) | 1 << lane
        return found

    def wait(self, barrier: str, lanes: int, then: int) -> None:
        """Let *lanes* wait at *barrier* for the others and go on at *then* (BSYNC)."""
        for number, here in self.meeting_of(barrier, lanes).items():
            self.meetings[number].waiting |= here
            self.meetings[number].then = then
            self._open(number)

    def leave(self, barrier: str, lanes: int) -> None:
        """Let *lanes* be no longer expected at *barrier* (BREAK)."""
        for number, here in self.meeting_of(barrier, lanes).items():
            self.meetings[number].expected &= ~here
            self._open(number)

    def end(self, lanes: int) -> None:
        """Let *lanes* end (EXIT): they are expected nowhere."""
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
