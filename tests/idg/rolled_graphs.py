"""Random rolled graphs and latencies for tests of graph metrics."""

from hypothesis import strategies as st
from pymbolic import parse

from loopyperf.device.lambdas import Lambdas
from loopyperf.idg import Idg
from tests.random_rolled_graphs import Sorts, graphs_of

PIPELINES = ("alu", "sfu", "mem", "barrier")
OF_OUTER = ("i == 0", "i >= 1", "i % 2 == 0", "i >= 5 and i <= 20", "i % 3 == 1 or i == 7", "not (i // 4 == 2)")
OF_INNER = (*OF_OUTER, "j == 0", "j >= 1", "i + j >= 6", "j % 2 == 1", "i - j >= 0", "(i + j) % 4 == 3")
LATENCIES = (0, 0.25, 1, 2, 3.5, 6, 17, 60)

lambdas = st.fixed_dictionaries(
    {name: st.builds(Lambdas, st.sampled_from(LATENCIES), st.sampled_from(LATENCIES)) for name in PIPELINES}
)


def rolled_graphs() -> st.SearchStrategy[Idg]:
    """Return random graphs of up to 7 instructions, whose loops have up to 47 iterations."""
    return graphs_of(
        Sorts(
            subsystems=PIPELINES,
            of_outer=OF_OUTER,
            of_inner=OF_INNER,
            instructions=7,
            edges=8,
            trips=[1, 2, 3, 30, 47],
            inner_trips=[1, 3, 25, parse("i + 1"), parse("i % 3")],
            passes=[0, 2, 24],
            furthest=5,
            back=20,
            relative=7,
        )
    )
