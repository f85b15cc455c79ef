"""What fitted models are told, without a fit's provenance."""

from dataclasses import dataclass

from loopyperf.models.model_interface import Basis, Weights

FREE = {
    **dict.fromkeys(("f32 add", "f32 mul", "local load 32-bit", "local store 32-bit"), 0.0),
    **{f"global {way} 32-bit stride 1": 0.0 for way in ("load", "store")},
}
"""weights of a fit by which these kernels' work costs nothing: without any weight for it, an estimate is refused"""


@dataclass(frozen=True)
class Weighted:
    weights: Weights
    model: str = "linear"
    sharpness: float = 1.0
    basis: Basis = "counts"
