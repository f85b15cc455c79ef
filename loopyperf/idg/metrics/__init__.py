"""What the models without a simulator ask of a graph: its mix, parallelism, registers, work flow."""

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.metrics.parallelism import (
    Block,
    Mix,
    basic_blocks,
    block_ilp,
    block_mlp,
    executions_by_subsystem,
    ilp,
    instruction_mix,
    mlp,
    slowest_recurrence,
    waited_for,
)
from loopyperf.idg.metrics.work_flow import Arc, Node, WorkFlowGraph, executed_one_by_one, work_flow_graph

__all__ = [
    "Arc",
    "Block",
    "Lambdas",
    "Mix",
    "Node",
    "WorkFlowGraph",
    "basic_blocks",
    "block_ilp",
    "block_mlp",
    "executed_one_by_one",
    "executions_by_subsystem",
    "ilp",
    "instruction_mix",
    "mlp",
    "slowest_recurrence",
    "waited_for",
    "work_flow_graph",
]
