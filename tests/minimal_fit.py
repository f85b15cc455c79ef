"""A fit for fitted models, without provenance."""

from dataclasses import dataclass

from loopyperf.models.model_interface import Basis, Weights

FREE = {
    **dict.fromkeys(("f32 add", "f32 mul", "local load 32-bit", "local store 32-bit"), 0.0),
    **{f"global {way} 32-bit stride 1": 0.0 for way in ("load", "store")},
}
"""zero weights for the operations of the tests' kernels: an estimate without weights for them raises an error"""


@dataclass(frozen=True)
class Weighted:
    weights: Weights
    model: str = "linear"
    sharpness: float = 1.0
    basis: Basis = "counts"
