"""The contract of all predictors: a :class:`loopyperf.Case` goes in, an :class:`loopyperf.Estimate` comes out."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.calibration.fits import Fit
from loopyperf.device.description import Device
from loopyperf.device.device_files import is_processor
from loopyperf.device.device_library import a_processor, description_or_none
from loopyperf.kernel import Program
from loopyperf.kernel.kernel import Group
from loopyperf.models.result import Estimate
from loopyperf.stages.case import Case, merged_sizes, prepared_group


@dataclass(frozen=True, eq=False)
class Predictor(ABC):
    """A model bound to its fit or its device; picklable, unless it executes kernels.

    Call it with a kernel and sizes, or give :meth:`predict` a :class:`loopyperf.Case`. What is called like an option
    of the call goes through ``parameters``.
    """

    model: str
    """name of the model"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    notes: tuple[str, ...] = ()
    """about the choice of the model and the fit, in sentences; every estimate has them"""
    fit: Fit | None = field(default=None, kw_only=True)
    """what it predicts by; None where it is not fitted"""

    executes_kernels: ClassVar[bool] = False
    """whether it executes a part of the kernel to predict the whole"""

    @abstractmethod
    def predict(self, case: Case) -> Estimate:
        """Return how long *case* takes, in seconds; arrays of sizes give arrays of seconds.

        Raises :class:`LoopyperfError` with the reason where there is no answer (see :func:`loopyperf.estimate`).
        """

    def __call__(
        self,
        program: Program,
        /,
        *,
        typical: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **sizes: Any,
    ) -> Estimate:
        """Return how long *program* takes at *sizes*, in seconds; see :func:`loopyperf.estimate`."""
        return self.predict(Case(program, merged_sizes(parameters, sizes), typical))

    @property
    def device_parameters(self) -> Device | None:
        """Return the published parameters of the device; None where there are none."""
        return description_or_none(self.device)

    @property
    def uncertainty(self) -> Uncertainty | None:
        """Return how far its fit was off on kernel classes that were held out; None where that is not known."""
        return None if self.fit is None else self.fit.uncertainty

    @property
    def limits(self) -> Device | None:
        """Return whose limits the groups of a kernel must keep, PoCL's for processors; None where none are known."""
        return self.device_parameters or (a_processor() if is_processor(self.device) else None)

    def group(self, case: Case) -> Group:
        """Return what a group of *case* takes once Loopy has prepared the kernel."""
        return prepared_group(case.kernel)
