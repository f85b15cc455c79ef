"""Lemeire et al., Fig. 1 and Table 2: predictions of every model for the example kernel at occupancies 1 to 20.

Fig. 2 shows the models as published. Fig. 14 shows the models with corrections, which make them cover the same effects.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from loopyperf.idg import Idg
from loopyperf.models import gpumech, mwp_cwp, roofline, transit, volkov, wfg
from loopyperf.models.workload import Lambdas, TwoPipelines, Workload
from loopyperf.pipeline import Execution, simulate

WARP = Workload(compute=4, memory=2, independent_compute=1)
CORE = TwoPipelines(compute=Lambdas(1, 4), memory=Lambdas(2, 6))
GRAPH = Idg.from_edges(
    kinds=["comp", "comp", "mem", "comp", "comp", "mem"], edges=[(0, 2), (1, 2), (2, 3), (3, 4), (4, 5)]
)
"""of the four computations, exactly one runs concurrently with another (section 2.2)"""
OCCUPANCIES = range(1, 21)


def pipeline(warp: Workload, core: TwoPipelines, occupancy: Any) -> Any:
    """Return the simulated cycles for each occupancy."""
    lambdas = {"comp": core.compute, "mem": core.memory}
    return np.array([simulate(GRAPH, lambdas, Execution(1, int(each), int(each))).cycles for each in occupancy])


FIGURES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    "2": {
        "roofline": roofline.cycles_per_run,
        "Volkov": volkov.cycles_per_run,
        "Transit": transit.cycles_per_run,
        "MWP-CWP": mwp_cwp.cycles_per_run,
        "WFG": wfg.cycles_per_run,
        "GPUMech RR": gpumech.cycles_per_run,
        "GPUMech GTO": partial(gpumech.cycles_per_run, policy="gto"),
        "pipeline": pipeline,
    },
    "14": {
        "Volkov": volkov.cycles_per_run,
        "MWP-CWP*": partial(mwp_cwp.cycles_per_run, corrected=True),
        "WFG*": partial(wfg.cycles_per_run, corrected=True),
        "GPUMech RR*": partial(gpumech.cycles_per_run, corrected=True),
        "GPUMech GTO": partial(gpumech.cycles_per_run, policy="gto"),
        "pipeline": pipeline,
    },
}


def warps_per_cycle(model: Callable[..., Any]) -> list[float]:
    """Return the warps per cycle (WPC) that *model* predicts for each occupancy."""
    occupancy = np.array(OCCUPANCIES)
    return (occupancy / model(WARP, CORE, occupancy)).tolist()
