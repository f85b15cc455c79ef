"""Dao et al., section 4: when groups start and finish while the scheduler prefers the oldest one where a warp blocks.

A loop with additions runs in groups of 256 work-items, of which six reside on each of the 16 cores of a GTX 580: 96
groups, all of which start at once. With a single-precision addition in the loop they finish together (Fig. 6a); with
double precision they finish one after the other, the staircase (Fig. 6b, 7, 8).

Latencies are those of a Fermi (Lemeire, Table 5), since of the GTX 580 none are known. For double precision "the two
rows of sixteen SPs are logically linked": all additions and the loop's control share a pipeline, of which double
precision takes twice as long. Which instructions block a warp is what the paper's explanation turns on, so that there
are two readings of it:

- ``"every operand"``: the latencies as they are, so that a warp waits after each instruction that the next one needs.
- ``"double precision"``: a warp goes on at once after everything else, since "warps block very infrequently" in the
  loop with single precision.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import loopy as lp
import numpy as np

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.device.device_library import load_device
from loopyperf.device.lambdas import Lambdas
from loopyperf.device.occupancy import occupancy
from loopyperf.idg import Idg, Instruction
from loopyperf.pipeline import Execution, GroupTimes, Scheduler, group_times, simulate

DEVICE, MEASURED = "nvidia-gtx-580", "nvidia-tesla-c2050"
WORK_ITEMS, GROUPS = 256, 96
PASSES = 200
"""of the loop; the paper does not say how many"""
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Fig. 7"""
LEFT_OUT = ("unrolling", "loop guards", "entry")

Precision = Literal["f32", "f64"]
Blocking = Literal["every operand", "double precision"]


def kernel(additions: int, precision: Precision) -> lp.TranslationUnit:
    """Return the loop with so many additions, each of which waits for the one before."""
    lines = "\n".join(
        f"x = x + {number}.5 {{id=add{number}, dep=add{number - 1}}}" for number in range(1, additions + 1)
    )
    dtype = {"f32": np.float32, "f64": np.float64}[precision]
    unit = lp.make_kernel(
        "{[i, again]: 0 <= i < n and 0 <= again < passes}",
        f"""
        for i
            <> x = start[i] {{id=add0}}
            for again
                {lines}
            end
            result[i] = x {{dep=add{additions}}}
        end
        """,
        [lp.GlobalArg("start, result", dtype, shape="n"), lp.ValueArg("n, passes", np.int32)],
        name="additions",
        assumptions=f"n mod {WORK_ITEMS} = 0 and n >= {WORK_ITEMS} and passes >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", WORK_ITEMS, outer_tag="g.0", inner_tag="l.0")


@cache
def graph(additions: int, precision: Precision) -> Idg:
    """Return the graph of one warp: additions and the control of the loop on one pipeline."""
    source = lpp.instruction_graph(kernel(additions, precision), n=WORK_ITEMS * GROUPS, passes=PASSES)
    machine = lowered(source, LEFT_OUT)
    return replace(machine, instructions=tuple(map(_on_one_pipeline, machine.instructions)))


def _on_one_pipeline(instruction: Instruction) -> Instruction:
    return instruction if instruction.subsystem == "global" else replace(instruction, subsystem="alu")


def latencies(blocking: Blocking) -> Callable[[Instruction], Lambdas]:
    """Return what instructions take, by what blocks a warp."""
    table = {each.name: Lambdas(each.issue, each.completion) for each in load_device(MEASURED).instructions}
    single = table["mul f32"]
    if blocking == "double precision":
        single = Lambdas(single.issue, single.issue)

    def timing(instruction: Instruction) -> Lambdas:
        if instruction.subsystem == "global":
            return table["load global b32"]
        return table["mul f64"] if instruction.dtype == "f64" else single

    return timing


@dataclass(frozen=True, slots=True)
class Staircase:
    """The groups of one core."""

    times: tuple[GroupTimes, ...]

    @property
    def finished(self) -> tuple[float, ...]:
        """Return when each group finished, as a share of when the last one did."""
        last = max(each.finish for each in self.times)
        return tuple(float(each.finish / last) for each in self.times)

    @property
    def steepness(self) -> float:
        """Return the time between the first finish and the last as a share of the whole: 0 where there is no stair."""
        return 1 - min(self.finished)

    def of_device(self, cores: int) -> Mapping[int, GroupTimes]:
        """Return the times of all groups of a device whose *cores* get one group after the other in turn."""
        return {each.group * cores + core: each for each in self.times for core in range(cores)}


def staircase(
    additions: int,
    precision: Precision,
    blocking: Blocking,
    scheduler: str | Scheduler = "quantum",
    concurrent_groups: int | None = None,
) -> Staircase:
    """Return when the groups of a core start, come along and finish; as many reside as there is room for, or fewer."""
    device = load_device(DEVICE)
    resident = occupancy(device, WORK_ITEMS)
    execution = Execution(resident.warps_per_group, concurrent_groups or resident.groups, GROUPS // device.cores)
    found = simulate(
        graph(additions, precision),
        latencies(blocking),
        execution,
        scheduler=scheduler,
        issue_limit=device.issue_limit,
    )
    return Staircase(group_times(found, SHARES))
