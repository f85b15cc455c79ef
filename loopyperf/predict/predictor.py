"""The interface of all predictors: from a :class:`loopyperf.Case` to an :class:`loopyperf.Estimate`."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from loopyperf.device.description import Device
from loopyperf.device.device_files import is_processor
from loopyperf.device.device_library import a_processor, description_or_none
from loopyperf.kernel import Program
from loopyperf.kernel.kernel import Group
from loopyperf.models.result import Estimate
from loopyperf.stages.case import Case, merged_sizes, prepared_group

if TYPE_CHECKING:
    from loopyperf.calibration.accuracy import Uncertainty
    from loopyperf.calibration.fits import Fit


@dataclass(frozen=True, eq=False)
class Predictor(ABC):
    """A model bound to its fit or its device; picklable unless it executes kernels.

    :func:`loopyperf.predictor` creates one. Call it with a kernel and sizes, or call :meth:`predict` with a
    :class:`loopyperf.Case`. Subclasses implement :meth:`predict`; :func:`loopyperf.testing.check_predictor` tests them.

    Examples
    --------
    >>> import loopy as lp
    >>> import numpy as np
    >>> import loopyperf as lpp
    >>> knl = lp.make_kernel(
    ...     "{[i]: 0 <= i < n}",
    ...     "b[i] = 2*a[i]",
    ...     [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
    ...     assumptions="n >= 1",
    ...     lang_version=(2018, 2),
    ... )
    >>> knl = lp.split_iname(knl, "i", 256, outer_tag="g.0", inner_tag="l.0")
    >>> roofline = lpp.predictor(device="nvidia-titan-v", model="roofline")
    >>> case = lpp.Case(knl, {"n": 2**24})
    >>> f"{roofline.predict(case).seconds:.1e}"
    '2.4e-04'
    >>> roofline.executes_kernels
    False
    """

    model: str
    """name of the model"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    notes: tuple[str, ...] = ()
    """notes about the choice of the model and the fit, which every estimate repeats"""
    fit: "Fit | None" = field(default=None, kw_only=True)
    """the fit that it uses; None if it is not fitted"""

    executes_kernels: ClassVar[bool] = False
    """whether it executes part of the kernel to predict the whole"""

    @abstractmethod
    def predict(self, case: Case) -> Estimate:
        """Return the predicted run time of *case* in seconds; arrays of sizes give arrays of seconds.

        Raises :class:`LoopyperfError` if there is no prediction (see :func:`loopyperf.estimate`).
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
        """Return the predicted run time of *program* at *sizes*, in seconds; see :func:`loopyperf.estimate`.

        A size that has the name of an option goes into *parameters*.
        """
        return self.predict(Case(program, merged_sizes(parameters, sizes), typical))

    @property
    def device_parameters(self) -> Device | None:
        """Return the published parameters of the device; None if there are none."""
        return description_or_none(self.device)

    @property
    def uncertainty(self) -> "Uncertainty | None":
        """Return the errors of its fit on held-out kernel classes; None if unknown."""
        return None if self.fit is None else self.fit.uncertainty

    @property
    def limits(self) -> Device | None:
        """Return the device parameters that limit work-groups (PoCL's limits for processors); None if unknown."""
        return self.device_parameters or (a_processor() if is_processor(self.device) else None)

    def group(self, case: Case) -> Group:
        """Return the resources of a work-group of *case* after Loopy has preprocessed the kernel."""
        return prepared_group(case.kernel)
