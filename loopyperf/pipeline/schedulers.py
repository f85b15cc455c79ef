"""Which warp issues where several could: policies as data, so that one loop serves all of them.

A policy says for how long the warp that issued last goes on while it can, and in which order the others are asked once
it cannot. Where it still can when its time is over, the others are asked from the one that has waited longest.

========================  ==============  ============  ===========================================================
policy                    goes on for     then          source
========================  ==============  ============  ===========================================================
``round-robin``           0               longest wait  Lemeire, section 2.5 (the default)
``greedy-then-oldest``    while it can    oldest        Lemeire, section 2.5
``greedy-then-youngest``  while it can    youngest      Huerta et al., Analyzing Modern NVIDIA GPU Cores, section
                                                        5.1.2, as observed from Turing on; where the compiler tells a
                                                        warp to yield is not modelled
``oldest-first``          0               oldest        ours: the oldest warp always
``quantum``               32 cycles       oldest        Dao, section 4: "a round-robin scheduling policy when the
                                                        active warp has executed for a certain number of cycles. If
                                                        a warp blocks, the scheduler selects the first warp that is
                                                        ready-to-run from the work-group with the lowest ID"
========================  ==============  ============  ===========================================================

A warp has waited since it last issued; one that has not yet issued, since it began. The oldest warp is the first one
of the group that began first, the youngest the last one of the group that began last. So no two warps are equal, and
equal inputs give equal traces.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from loopyperf.device.lambdas import Cycles
from loopyperf.device.parts import Policy
from loopyperf.errors import SimulationError
from loopyperf.units import Word


class Order(Word):
    """In which order warps are asked whether they can issue."""

    LONGEST_WAIT = "longest wait"
    OLDEST = "oldest"
    YOUNGEST = "youngest"


QUANTUM = 32
"""cycles; Dao measured that there is a quantum, not how long it is: another one is ``Scheduler("oldest", cycles)``"""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """A policy."""

    order: Order
    """in which warps are asked whether they can issue"""
    goes_on: Cycles = 0
    """cycles for which the warp that issued last is asked first"""

    def __post_init__(self) -> None:
        if self.order not in tuple(Order):
            raise SimulationError(f"no order of warps {self.order!r}: there are {_names(Order)}")
        if not self.goes_on >= 0:
            raise SimulationError(f"a warp goes on for 0 cycles or more, received {self.goes_on}")

    @property
    def by_age(self) -> int:
        """Return 1 where the oldest warp is asked first, -1 where the youngest is, 0 where age does not count."""
        return {Order.LONGEST_WAIT: 0, Order.OLDEST: 1, Order.YOUNGEST: -1}[self.order]


SCHEDULERS: Mapping[Policy, Scheduler] = {
    Policy.ROUND_ROBIN: Scheduler(Order.LONGEST_WAIT),
    Policy.GREEDY_THEN_OLDEST: Scheduler(Order.OLDEST, inf),
    Policy.GREEDY_THEN_YOUNGEST: Scheduler(Order.YOUNGEST, inf),
    Policy.OLDEST_FIRST: Scheduler(Order.OLDEST),
    Policy.QUANTUM: Scheduler(Order.OLDEST, QUANTUM),
}


def scheduler_named(scheduler: str | Scheduler) -> Scheduler:
    """Return the policy of that name, or the one that is given.

    Raises :class:`SimulationError` for a name that is none, which lists those that are.
    """
    if isinstance(scheduler, Scheduler):
        return scheduler
    try:
        return SCHEDULERS[Policy(scheduler)]
    except ValueError:
        raise SimulationError(f"no scheduler {scheduler!r}: there are {_names(Policy)}") from None


def _names(there_are: type[Word]) -> str:
    return ", ".join(map(repr, there_are))
