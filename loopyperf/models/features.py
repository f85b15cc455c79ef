"""What a learned model is told of a kernel: numbers by name.

Some every kernel has, as its ILP; of others a kernel may have nothing, as of barriers, and then they are 0. Neither
names a kernel, an array, an instruction of it, or a transformation: what is learned is to hold for other kernels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ModelInputError

TICK = 1e-9
"""seconds that logarithms of times are relative to"""
DIGITS = 9
"""significant ones that are kept of a number"""


@dataclass(frozen=True, slots=True)
class Features:
    """A kernel as a learned model sees it. Raises :class:`ModelInputError` for a number that is not finite."""

    told: Mapping[str, float]
    """those that every kernel has"""
    amounts: Mapping[str, float] = field(default_factory=dict[str, float])
    """those of which it may have none; an absent one is 0"""

    def __post_init__(self) -> None:
        """Refuse values that are not finite."""
        for name, value in (*self.told.items(), *self.amounts.items()):
            if not np.isfinite(value):
                raise ModelInputError(f"the feature {name!r} is {value}: a feature must be a finite number")

    def __or__(self, other: "Features") -> "Features":
        """Return both together."""
        return Features({**self.told, **other.told}, {**self.amounts, **other.amounts})

    def vector(self, told: Sequence[str], amounts: Sequence[str]) -> NDArray[np.float64]:
        """Return the features called *told*, then those called *amounts*, in this order.

        Raises :class:`ModelInputError` if one of those is missing that every kernel has.
        """
        missing = [name for name in told if name not in self.told]
        if missing:
            raise ModelInputError(
                f"the learned model asks for the features {', '.join(missing)}, which the kernel comes without; give "
                "what the model was trained with: the device's description, and samples if it saw samples"
            )
        values = [*(self.told[name] for name in told), *(self.amounts.get(name, 0.0) for name in amounts)]
        return np.array(values, dtype=np.float64)

    def rounded(self) -> "Features":
        """Return the features with as many digits as a file keeps, so that trained and asked ones are the same."""
        return Features(_rounded(self.told), _rounded(self.amounts))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}
