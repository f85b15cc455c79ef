"""What models say that they see: the documentation's table, and whether a model's answer depends on it."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from loopyperf.models import MODELS, gpumech, mwp_cwp, roofline, transit, volkov, wfg
from loopyperf.models.aspects import ASPECTS, Aspect
from loopyperf.models.interface import DeviceModel
from loopyperf.models.workload import CyclesOfRun, Lambdas, PlainDemand, TwoPipelines, Workload

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"
OF_DEVICE = {name: model for name, model in MODELS.items() if isinstance(model, DeviceModel)}
OF_RUNS: dict[str, CyclesOfRun] = {
    "roofline": roofline.cycles,
    "volkov": volkov.cycles,
    "transit": transit.cycles,
    "mwp-cwp": mwp_cwp.cycles,
    "mwp-cwp-corrected": partial(mwp_cwp.cycles, corrected=True),
    "wfg": wfg.cycles,
    "wfg-corrected": partial(wfg.cycles, corrected=True),
    "gpumech-rr": gpumech.cycles,
    "gpumech-rr-corrected": partial(gpumech.cycles, corrected=True),
    "gpumech-gto": partial(gpumech.cycles, policy="gto"),
}


def plain(
    independent: float = 0, ilp: float = 1, computing: float = 18, memory: float = 440, barriers: float = 0,
    group: int = 2, limit: float = 10,
) -> PlainDemand:  # fmt: skip
    workload = Workload(40, 10, independent_compute=independent, ilp=ilp, barriers=barriers, warps_per_group=group)
    return PlainDemand(workload, TwoPipelines(Lambdas(1, computing), Lambdas(4, memory), issue_limit=limit))


# What changes where a model may see it; barriers are in the latency of a graph, of which plain numbers know nothing.
CHANGES: dict[Aspect, tuple[PlainDemand, PlainDemand]] = {
    "ILP": (plain(), plain(independent=20, ilp=2)),
    "latency of computation": (plain(), plain(computing=30)),
    "latency of memory": (plain(), plain(memory=700)),
    "barriers": (plain(), plain(barriers=5)),
    "work-groups": (plain(barriers=5), plain(barriers=5, group=4)),
    "issue limit": (plain(), plain(limit=0.2)),
}
NOT_IN_PLAIN_NUMBERS = {("volkov", "barriers")}


@pytest.mark.parametrize("aspect", CHANGES)
@pytest.mark.parametrize("name", OF_RUNS)
def test_a_model_sees_what_it_says_and_nothing_else(name: str, aspect: Aspect):
    occupancy = np.array([1.0, 2, 4, 8, 16, 64])
    before, after = (OF_RUNS[name](demand, occupancy) for demand in CHANGES[aspect])
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
