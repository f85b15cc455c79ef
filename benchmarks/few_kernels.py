"""How near fits of pipelines to a few measured kernels come, on kernels of other classes.

The kernels are chosen at random, and a third of the classes is held out: each choice is of other kernels and other
classes. Weights are drawn to the device's description, or to the fit of all that is measured of the other device, as
:func:`loopyperf.fit` does. Nothing measured is the overlap of pipelines as the prior says that they are.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/few_kernels.py
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec.structs import asdict
from parts.tables import show, table
from parts.titan_v import GATHERED, gathered, measured_kernels, observed

import loopyperf as lpp
from loopyperf.calibration.accuracy import median_log_error
from loopyperf.calibration.fits import Fit, Provenance
from loopyperf.calibration.overlap_fit import LAUNCH, SHARPNESS, solve_overlap
from loopyperf.calibration.problem import Observation, pose_problem
from loopyperf.models.linear import sensitivity
from loopyperf.models.model_interface import Fitted
from loopyperf.models.workload import LAUNCHES

NUMBERS = (0, 1, 3, 10, 30, 100)
"""of kernels that fits are made of"""
CHOICES = 32
"""of so many kernels and of the classes that are held out, at random"""
SLOWER = 1.5
"""times as long as it takes: a device of the same description that is slower as a whole"""
H200 = "fits/nvidia-h200/raw/calibration.jsonl.xz"
OF_NOBODY = Provenance(model="overlap", device="any", slug="any", counting="executed")
DESCRIBED = Fit(**asdict(OF_NOBODY), basis="pipelines", weights={LAUNCHES: LAUNCH}, sharpness=SHARPNESS)
"""the fit to nothing: all pipelines take what is described"""


def errors(rows: Sequence[Observation], number: int, prior: Fitted) -> list[float]:
    """Return the median errors on a third of the classes, of fits to *number* kernels of others, of each choice."""
    classes = sorted({row.kernel_class for row in rows})
    found: list[float] = []
    for choice in range(CHOICES):
        rng = np.random.default_rng(choice)
        held_out = set(rng.permutation(classes)[: len(classes) // 3].tolist())
        others = [row for row in rows if row.kernel_class not in held_out]
        asked = [row for row in rows if row.kernel_class in held_out]
        told = [others[place] for place in rng.permutation(len(others))[:number]]
        fit = solve_overlap(pose_problem(told, "pipelines"), prior) if told else prior
        predicted = sensitivity(fit, [row.pipelines for row in asked]).seconds
        found.append(median_log_error(predicted, np.array([row.seconds for row in asked])))
    return found


def main() -> None:
    """Print how near the fits come."""
    titan_v = observed(measured_kernels(), gathered([GATHERED]))
    h200 = lpp.load_observations(H200)
    of_titan_v, of_h200 = (solve_overlap(pose_problem(rows, "pipelines")) for rows in (titan_v, h200))
    slower = [replace(row, seconds=SLOWER * row.seconds) for row in titan_v]
    columns: dict[str, tuple[list[Observation], Fitted]] = {
        "TITAN V": (titan_v, DESCRIBED),
        "TITAN V, H200 fit as prior": (titan_v, of_h200),
        f"TITAN V, times × {SLOWER:g}": (slower, DESCRIBED),
        "H200": (h200, DESCRIBED),
        "H200, TITAN V fit as prior": (h200, of_titan_v),
    }
    found = table("measured kernels", *columns)
    for number in NUMBERS:
        of_each = [errors(rows, number, prior) for rows, prior in columns.values()]
        found.add_row(str(number), *(f"{np.median(each):.2f} ({np.quantile(each, 0.9):.2f})" for each in of_each))
    show(found)


if __name__ == "__main__":
    main()
