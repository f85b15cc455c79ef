"""What fitted models are told, without a fit's provenance."""

from dataclasses import dataclass

from loopyperf.models.interface import Basis, Weights


@dataclass(frozen=True)
class Weighted:
    weights: Weights
    model: str = "linear"
    sharpness: float = 1.0
    basis: Basis = "counts"
