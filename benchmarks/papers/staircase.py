"""Dao et al., section 4: start and finish times of groups if the scheduler prefers the oldest group when a warp blocks.

A loop with additions runs in groups of 256 work-items. Six of them are resident on each of the 16 cores of a GTX 580,
so all 96 groups start at once. With a single-precision addition in the loop, they finish together (Fig. 6a); with
double precision, they finish one after the other, in a staircase (Fig. 6b, 7, 8).

The latencies are those of another Fermi (Lemeire, Table 5), because those of the GTX 580 are unknown. For double
precision, "the two rows of sixteen SPs are logically linked": all additions and the loop control share a pipeline,
which double precision occupies for twice as long. The paper's explanation depends on which instructions block a warp,
so we simulate two assumptions:

- ``"every operand"``: the latencies are unchanged, so a warp waits after each instruction whose result the next needs.
- ``"double precision"``: a warp continues immediately after all other instructions, because "warps block very
  infrequently" in the loop with single precision.
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
"""iterations of the loop; the paper does not state the number"""
SHARES = (0.2, 0.4, 0.6, 0.8)
"""Fig. 7"""
LEFT_OUT = ("unrolling", "loop guards", "entry")

Precision = Literal["f32", "f64"]
Blocking = Literal["every operand", "double precision"]


def kernel(additions: int, precision: Precision) -> lp.TranslationUnit:
    """Return the loop with *additions* additions, each of which depends on the previous one."""
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
    """Return the graph of one warp, with additions and loop control on one pipeline."""
    source = lpp.instruction_graph(kernel(additions, precision), n=WORK_ITEMS * GROUPS, passes=PASSES)
    machine = lowered(source, LEFT_OUT)
    return replace(machine, instructions=tuple(map(_on_one_pipeline, machine.instructions)))


def _on_one_pipeline(instruction: Instruction) -> Instruction:
    return instruction if instruction.subsystem == "global" else replace(instruction, subsystem="alu")


def latencies(blocking: Blocking) -> Callable[[Instruction], Lambdas]:
    """Return a function that maps instructions to latencies, under an assumption about *blocking*."""
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
    """The times of the groups of one core."""

    times: tuple[GroupTimes, ...]

    @property
    def finished(self) -> tuple[float, ...]:
        """Return the finish time of each group, divided by that of the last."""
        last = max(each.finish for each in self.times)
        return tuple(float(each.finish / last) for each in self.times)

    @property
    def steepness(self) -> float:
        """Return the time between the first and the last finish, divided by the total; 0 if there is no staircase."""
        return 1 - min(self.finished)

    def of_device(self, cores: int) -> Mapping[int, GroupTimes]:
        """Return the times of all groups of a device that assigns groups to its *cores* in turn."""
        return {each.group * cores + core: each for each in self.times for core in range(cores)}


def staircase(
    additions: int,
    precision: Precision,
    blocking: Blocking,
    scheduler: str | Scheduler = "quantum",
    concurrent_groups: int | None = None,
) -> Staircase:
    """Return the start, progress and finish times of the groups of a core. By default, as many are resident as fit."""
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
