"""The machine graph of a kernel against its machine code, executed: the same instructions of each class."""

import pytest

from loopyperf.counts.typical import Typical
from loopyperf.idg.kernel_graphs import kernel_graphs
from loopyperf.idg.lowering import lowered
from loopyperf.kernel import load_kernel

from .catalog import CATALOG
from .conftest import Build
from .graph_classes import COMPARED, executed

EXACT = [
    *(f"tiled {tile}" for tile in (8, 16, 32)),
    *(f"n-body {group}" for group in (64, 128, 256)),
    *(f"transposition {tile}" for tile in (16, 32)),
]
ARCHITECTURES = ("sm_80", "sm_90")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", EXACT)
def test_a_warp_executes_what_its_machine_graph_says(launch: Build, name: str, architecture: str) -> None:
    entry = CATALOG[name]
    unit = entry.program()
    graphs = kernel_graphs(load_kernel(unit), entry.sizes, Typical({}))
    example = graphs.launches[0].representative.example
    group = tuple(example.groups.get(axis, 0) for axis in range(3))
    tally = launch(unit, architecture).run(dict(entry.sizes), group, example.number)
    machine = {name: count for name, count in tally.counts.items() if name.partition(".")[0] in COMPARED and count}
    graph = {name: count for name, count in executed(lowered(graphs)).items() if name.partition(".")[0] in COMPARED}
    assert machine == graph
