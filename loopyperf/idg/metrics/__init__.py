"""What the models without a simulator ask of a graph: its mix, parallelism, registers, work flow."""

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg.metrics.blocks import Block, basic_blocks
from loopyperf.idg.metrics.lambdas import waited_for
from loopyperf.idg.metrics.mix import Mix, executions_by_subsystem, instruction_mix
from loopyperf.idg.metrics.parallelism import block_ilp, block_mlp, ilp, mlp
from loopyperf.idg.metrics.recurrences import slowest_recurrence
from loopyperf.idg.metrics.work_flow import Arc, Node, WorkFlowGraph, work_flow_graph
from loopyperf.idg.metrics.work_item_loops import executed_one_by_one

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
