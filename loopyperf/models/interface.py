"""What a model is to those who ask it: a name, what it needs, and its answer, a time with its rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.on_device.timed_launch import TimedKernel
from loopyperf.models.result import ModelTime

Need = Literal["fit", "device", "samples"]

Weights = Mapping[str, float]
"""property -> seconds per unit"""

Count = int | NDArray[np.int64] | NDArray[np.float64]
"""an exact integer, or an array over sizes, of floats where a count needs more than 63 bits"""

Shares = Mapping[str, Mapping[str, Count]]
"""property -> source -> count"""


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model that turns counts into time by weights fitted to measurements of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""
    time: Callable[[Weights, Shares], ModelTime]

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"fit"})


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A model that turns the graphs of a kernel into time by what is known of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""
    time: Callable[[TimedKernel], ModelTime]

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"device"})


Model = FittedModel | DeviceModel
