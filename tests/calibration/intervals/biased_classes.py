"""Observations of kernels in classes, with a known error of each class and of each kernel."""

import numpy as np

from loopyperf.calibration.problem import Observation


def observations(classes: int, bias: float = 0.15, noise: float = 0.05, seed: int = 1) -> list[Observation]:
    """Return kernels whose times are a sum with two random errors, each given as a standard deviation of ln T.

    The error *bias* is the same for all kernels of a class; *noise* is drawn for each kernel.
    """
    rng = np.random.default_rng(seed)
    rows: list[Observation] = []
    for number in range(classes):
        class_error = rng.normal(0, bias)
        for _ in range(4):
            adds, loads = (int(each) for each in 10.0 ** rng.uniform(5, 8, 2))
            seconds = (1e-11 * adds + 3e-11 * loads + 1e-5) * np.exp(class_error + rng.normal(0, noise))
            counts = {"f32 add": adds, "global load 32-bit stride 1": loads, "launches": 1}
            rows.append(Observation(f"class {number}", "x", {}, counts, float(seconds)))
    return rows
