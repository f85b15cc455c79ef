"""What a model is to those who ask it: a name, what it needs, and its answer, a time with its rows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from loopyperf.models.aspects import Aspect
from loopyperf.models.on_device.costs import Notes, Rows, kernel_time, no_notes
from loopyperf.models.result import ModelTime
from loopyperf.pipeline.timed_program import TimedProgram

Need = Literal["fit", "device", "samples"]

Weights = Mapping[str, float]
"""property -> seconds per unit"""

Basis = Literal["counts", "pipelines"]
"""what a fitted model is told of a kernel: its property counts, or how long it keeps a device's pipelines busy"""

Count = int | float | NDArray[np.int64] | NDArray[np.float64]
"""an exact integer, or an array over sizes, of floats where a count needs more than 63 bits; of pipelines, seconds"""

Shares = Mapping[str, Mapping[str, Count]]
"""property -> source -> count"""


class Fitted(Protocol):
    """What a fitted model knows from measurements: a :class:`loopyperf.calibration.fits.Fit`."""

    @property
    def model(self) -> str:
        """Name of the model."""
        ...

    @property
    def weights(self) -> Weights:
        """Seconds per unit of each column; of pipelines, seconds per second that they are described to be busy."""
        ...

    @property
    def sharpness(self) -> float:
        """p of the overlap model; others have no use for it."""
        ...

    @property
    def basis(self) -> Basis:
        """What the columns are."""
        ...


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model that turns counts into time by weights fitted to measurements of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""
    time: Callable[[Fitted, Shares], ModelTime]
    is_weighted_sum: bool = False
    """whether its time is the sum of weights times counts, and of nothing else"""

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
    rows: Rows
    """what a launch costs"""
    sees: frozenset[Aspect]
    """what it takes into account (Lemeire, Table 7)"""
    notes: Notes = no_notes
    """what it assumes of a launch"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"device"})

    def time(self, kernel: TimedProgram) -> ModelTime:
        """Return how long *kernel* takes, in seconds.

        Raises :class:`MissingNumberError` for a latency that the model needs and the device's description lacks.
        """
        return kernel_time(kernel, self.rows, self.notes, self.sees)


@dataclass(frozen=True, slots=True)
class SampledModel:
    """A model that turns what a kernel's first groups took into the time of all of them."""

    name: str
    summary: str
    """what it assumes, in one line"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel."""
        return frozenset({"samples"})


@dataclass(frozen=True, slots=True)
class LearnedModel:
    """A model that corrects the answer of another one by what was learned from measurements of the device."""

    name: str
    summary: str
    """what it assumes, in one line"""

    @property
    def needs(self) -> frozenset[Need]:
        """Return what the model must be given besides the kernel, and besides what its base needs."""
        return frozenset({"fit"})


Model = FittedModel | DeviceModel | SampledModel | LearnedModel
