"""Evaluate fits of pipelines to a few measured kernels, on kernels of other classes.

A third of the classes is held out, and the kernels for a fit are selected at random from the others; each selection
draws new kernels and new held-out classes. Weights are regularized toward the device parameters, or toward the fit to
all kernels of the other device, as in :func:`loopyperf.fit`. With 0 kernels, the prediction is the overlap of pipelines
with the weights of the prior.

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
"""numbers of kernels in a fit"""
SELECTIONS = 32
"""number of random selections of kernels and of held-out classes"""
SLOWER = 1.5
"""factor on all measured times, to emulate a device that is slower than its parameters"""
H200 = "fits/nvidia-h200/raw/calibration.jsonl.xz"
ANY_DEVICE = Provenance(model="overlap", device="any", slug="any", counting="executed")
DEVICE_PARAMETERS = Fit(**asdict(ANY_DEVICE), basis="pipelines", weights={LAUNCHES: LAUNCH}, sharpness=SHARPNESS)
"""the prior without measurements: all pipeline times are those of the device parameters"""


def errors(rows: Sequence[Observation], number: int, prior: Fitted) -> list[float]:
    """Return the median error on the held-out classes for each selection of *number* kernels from the other classes."""
    classes = sorted({row.kernel_class for row in rows})
    found: list[float] = []
    for selection in range(SELECTIONS):
        rng = np.random.default_rng(selection)
        held_out = set(rng.permutation(classes)[: len(classes) // 3].tolist())
        others = [row for row in rows if row.kernel_class not in held_out]
        predicted_rows = [row for row in rows if row.kernel_class in held_out]
        fitted_rows = [others[place] for place in rng.permutation(len(others))[:number]]
        fit = solve_overlap(pose_problem(fitted_rows, "pipelines"), prior) if fitted_rows else prior
        predicted = sensitivity(fit, [row.pipelines for row in predicted_rows]).seconds
        found.append(median_log_error(predicted, np.array([row.seconds for row in predicted_rows])))
    return found


def main() -> None:
    """Print the errors of the fits."""
    titan_v = observed(measured_kernels(), gathered([GATHERED]))
    h200 = lpp.load_observations(H200)
    of_titan_v, of_h200 = (solve_overlap(pose_problem(rows, "pipelines")) for rows in (titan_v, h200))
    slower = [replace(row, seconds=SLOWER * row.seconds) for row in titan_v]
    columns: dict[str, tuple[list[Observation], Fitted]] = {
        "TITAN V": (titan_v, DEVICE_PARAMETERS),
        "TITAN V, H200 fit as prior": (titan_v, of_h200),
        f"TITAN V, times × {SLOWER:g}": (slower, DEVICE_PARAMETERS),
        "H200": (h200, DEVICE_PARAMETERS),
        "H200, TITAN V fit as prior": (h200, of_titan_v),
    }
    found = table("measured kernels", *columns)
    for number in NUMBERS:
        medians = [errors(rows, number, prior) for rows, prior in columns.values()]
        found.add_row(str(number), *(f"{np.median(each):.2f} ({np.quantile(each, 0.9):.2f})" for each in medians))
    show(found)


if __name__ == "__main__":
    main()
