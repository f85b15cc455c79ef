"""Jobs dealt to the least loaded machine: batches match single jobs; more work lowers no load (Graham, 1969)."""

import heapq
from random import Random

from loopyperf.pipeline.batches import Machines

Jobs = list[tuple[int, int]]
"""load of a job, and the number of equal jobs in succession"""


def one_by_one(machines: int, jobs: Jobs) -> tuple[list[int], list[int]]:
    """Return the loads of the machines in ascending order, and the start of the last job of each batch."""
    loads, starts = [0] * machines, list[int]()
    for load, number in jobs:
        start = loads[0]
        for _ in range(number if load else 0):
            start = loads[0]
            heapq.heapreplace(loads, start + load)
        starts.append(start)
    return sorted(loads), starts


def deal_all(machines: int, jobs: Jobs) -> Machines:
    found = Machines(machines)
    for load, number in jobs:
        found.deal(float(load), number)
    return found


def random_jobs(random: Random) -> tuple[int, Jobs]:
    jobs = [(random.choice([0, 1, 2, 3, 5, 8, 50]), random.randint(1, 40)) for _ in range(random.randint(1, 8))]
    return random.randint(1, 12), jobs


def test_batches_of_jobs_are_dealt_as_if_one_by_one() -> None:
    for seed in range(300):
        machines, jobs = random_jobs(Random(seed))
        loads, starts = one_by_one(machines, jobs)
        found = Machines(machines)
        assert [found.deal(float(load), number) for load, number in jobs] == starts
        assert [level.load for level in found.levels for _ in range(level.machines)] == loads


def test_more_work_lowers_none_of_the_sorted_loads() -> None:
    for seed in range(300):
        random = Random(seed)
        machines, jobs = random_jobs(random)
        place = random.randrange(len(jobs))
        load, number = jobs[place]
        grows = [(load + random.randint(1, 20), 1), (load, number - 1)] if number > 1 else [(load + 1, 1)]
        more = random.choice([grows, [(load, number), (7, 1)]])
        before, after = (deal_all(machines, each) for each in (jobs, [*jobs[:place], *more, *jobs[place + 1 :]]))
        assert all(one <= other for one, other in zip(loads_of(before), loads_of(after), strict=True))


def loads_of(machines: Machines) -> list[float]:
    return [level.load for level in machines.levels for _ in range(level.machines)]


def test_millions_of_jobs_take_a_few_steps() -> None:
    found = deal_all(80, [(3, 10**7), (100_000, 1), (2, 10**7)])
    assert [(level.load, level.machines) for level in found.levels] == [((3 * 10**7 + 10**5 + 2 * 10**7) / 80, 80)]
