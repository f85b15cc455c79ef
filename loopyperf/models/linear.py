"""The fitted linear model.

    T(n) = Σᵢ αᵢ pᵢ(n)

with the properties pᵢ of a kernel (counts, see :mod:`loopyperf.properties.unified`) and weights αᵢ in seconds per unit,
fitted to measurements of the device. Nothing overlaps: every operation is charged in full.

J. D. Stevens and A. Klöckner, A Unified, Hardware-Fitted, Cross-GPU Performance Model, section 2.
"""

from collections.abc import Iterable

import numpy as np

from loopyperf.models.exact_sum import adding_up
from loopyperf.models.interface import Count, Fitted, Shares, Weights
from loopyperf.models.result import Breakdown, ModelTime, Row
from loopyperf.models.workload import shown


def linear_time(fit: Fitted, shares: Shares) -> ModelTime:
    """Return Σ weight · count in seconds, one row for each property and source in *shares*.

    Properties without a weight are taken as free, and named.
    """
    weights = fit.weights
    charged = [
        (name, source, count) for name, parts in shares.items() if name in weights for source, count in parts.items()
    ]
    seconds, costs = adding_up([weights[name] * count for name, _, count in charged])
    rows = [
        Row(shown(name) if fit.basis == "pipelines" else name, source, count, weights[name], cost)
        for (name, source, count), cost in zip(charged, costs, strict=True)
    ]
    return ModelTime(seconds, Breakdown(tuple(rows)), unfitted(weights, shares), columns=fit.basis)


def unfitted(weights: Weights, shares: Shares) -> tuple[str, ...]:
    """Return the properties of which there are some in *shares*, but which have no weight."""
    return tuple(name for name, parts in shares.items() if name not in weights and _occurs(parts.values()))


def _occurs(counts: Iterable[Count]) -> bool:
    return any(count.any() if isinstance(count, np.ndarray) else count for count in counts)
