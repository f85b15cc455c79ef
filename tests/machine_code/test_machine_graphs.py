"""The machine graph of a kernel against its machine code, executed: the same instructions of each class."""

import pytest

from loopyperf.counts.typical import Typical
from loopyperf.idg import Idg
from loopyperf.idg.construction.kernel_graphs import kernel_graphs
from loopyperf.idg.lowering import lowered
from loopyperf.kernel import load_kernel

from .catalog import CATALOG
from .conftest import Build
from .graph_classes import COMPARED, executed
from .tally import Tally

EXACT = [
    *(f"tiled {tile}" for tile in (8, 16, 32)),
    *(f"n-body {group}" for group in (64, 128, 256)),
    *(f"transposition {tile}" for tile in (16, 32)),
]
ARCHITECTURES = ("sm_80", "sm_90")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", EXACT)
def test_a_warp_executes_what_its_machine_graph_says(launch: Build, name: str, architecture: str) -> None:
    graph, tally = both(launch, name, architecture)
    machine = {name: count for name, count in tally.counts.items() if name.partition(".")[0] in COMPARED and count}
    assert machine == {name: count for name, count in executed(graph).items() if name.partition(".")[0] in COMPARED}


@pytest.mark.parametrize("name", [*EXACT, "naive", "convolution", "skinny"])
def test_all_that_a_warp_executes_is_within_fifteen_per_cent(launch: Build, name: str) -> None:
    graph, tally = both(launch, name, "sm_90")
    assert abs(graph.executed / tally.total - 1) < 0.15


def both(launch: Build, name: str, architecture: str) -> tuple[Idg, Tally]:
    """Return the machine graph of a kernel's representative warp, and what that warp executes."""
    entry = CATALOG[name]
    unit = entry.program()
    graphs = kernel_graphs(load_kernel(unit), entry.sizes, Typical({}))
    example = graphs.launches[0].representative.example
    group = tuple(example.groups.get(axis, 0) for axis in range(3))
    return lowered(graphs), launch(unit, architecture).run(dict(entry.sizes), group, example.number)
