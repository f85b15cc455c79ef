"""Synthetic training sets with a known error of the base model."""

import numpy as np

from loopyperf.calibration.fits import Provenance
from loopyperf.calibration.problem import Observation
from loopyperf.calibration.training import Example
from loopyperf.models.residual_regression import Features

CLASSES = 6
MADE_UP = Provenance(model="", device="Made Up", slug="made-up", counting="executed")


def examples(seed: int = 0, number: int = 72, noise: float = 0.02) -> list[Example]:
    """Return kernels whose times are exp(tanh(2 u) - v + 1/3) times the base, with a mean log error of 0.

    The third feature, idle, has no effect.
    """
    rng = np.random.default_rng(seed)
    found: list[Example] = []
    for place in range(number):
        u, idle = rng.uniform(-1, 1, 2)
        v = rng.uniform(0, 1) if place % 3 else 0.0
        base = float(10.0 ** rng.uniform(-5, -2))
        seconds = base * float(np.exp(np.tanh(2 * u) - v + 1 / 3 + noise * rng.standard_normal()))
        observation = Observation(f"class {place % CLASSES}", str(place), {}, {"launches": 1}, seconds)
        found.append(Example(observation, Features({"u": u, "idle": idle}, {"v": v} if v else {}), base))
    return found
