"""What a model may see of a kernel and of a device (Lemeire, Table 7)."""

from typing import Literal, get_args

Aspect = Literal[
    "ILP",
    "latency of computation",
    "latency of memory",
    "barriers",
    "more than two subsystems",
    "work-groups",
    "divergent warps",
    "issue limit",
    "scheduler",
]
"""
:ILP: instructions of one warp that overlap
:latency of computation: Λcomp
:latency of memory: Λmem
:barriers: they cost time
:more than two subsystems: each pipeline has its own throughput, and the busiest one is a limit
:work-groups: how many warps meet at a barrier, and take their places together
:divergent warps: warps that execute other programs than the representative one
:issue limit: instructions that issue in a cycle at most
:scheduler: which warp issues next
"""

ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
