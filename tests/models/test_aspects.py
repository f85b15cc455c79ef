"""What models say that they see: the documentation's table, and whether a model's answer depends on it."""

from pathlib import Path

import numpy as np
import pytest
from analytic_models import MODELS as RUNS

from loopyperf.models import DEVICE_MODELS as OF_DEVICE
from loopyperf.models.aspects import ASPECTS, Aspect
from loopyperf.models.workload import Lambdas, TwoPipelines, Workload

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


def plain(
    independent: float = 0, ilp: float = 1, computing: float = 18, memory: float = 440, barriers: float = 0,
    group: int = 2, limit: float = 10,
) -> tuple[Workload, TwoPipelines]:  # fmt: skip
    workload = Workload(40, 10, independent_compute=independent, ilp=ilp, barriers=barriers, warps_per_group=group)
    return workload, TwoPipelines(Lambdas(1, computing), Lambdas(4, memory), issue_limit=limit)


# What changes where a model may see it; barriers are in the latency of a graph, of which plain numbers know nothing.
CHANGES: dict[Aspect, tuple[tuple[Workload, TwoPipelines], tuple[Workload, TwoPipelines]]] = {
    "ILP": (plain(), plain(independent=20, ilp=2)),
    "latency of computation": (plain(), plain(computing=30)),
    "latency of memory": (plain(), plain(memory=700)),
    "barriers": (plain(), plain(barriers=5)),
    "work-groups": (plain(barriers=5), plain(barriers=5, group=4)),
    "issue limit": (plain(), plain(limit=0.2)),
}
NOT_IN_PLAIN_NUMBERS = {("volkov", "barriers")}


@pytest.mark.parametrize("aspect", CHANGES)
@pytest.mark.parametrize("name", RUNS)
def test_a_model_sees_what_it_says_and_nothing_else(name: str, aspect: Aspect):
    occupancy = np.array([1.0, 2, 4, 8, 16, 64])
    before, after = (RUNS[name](*demand, occupancy) for demand in CHANGES[aspect])
    seen = aspect in OF_DEVICE[name].sees and (name, aspect) not in NOT_IN_PLAIN_NUMBERS
    assert bool((before != after).any()) == seen


def test_the_table_of_the_documentation_is_that_of_the_models():
    rows = [
        "| | " + " | ".join(OF_DEVICE) + " |",
        *(
            f"| {aspect} | " + " | ".join("yes" if aspect in model.sees else "" for model in OF_DEVICE.values()) + " |"
            for aspect in ASPECTS
        ),
    ]
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [row for row in rows if row not in text] == []
