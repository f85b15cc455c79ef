"""One of the two that are compared: a kernel at its sizes on a device, with what an explanation says of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from loopyperf.models.result import Estimate
from loopyperf.oracle.difference.sums import Sums
from loopyperf.oracle.explanation.costs import LineCost
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice
from loopyperf.sheet import called


@dataclass(frozen=True)
class Side:
    """A kernel at its sizes on one device."""

    explanation: Explanation
    on: OnDevice
    """one of the explanation's devices"""

    @property
    def kernel(self) -> str:
        """Return the name of the kernel."""
        return self.explanation.kernel

    @property
    def sizes(self) -> Mapping[str, Any]:
        """Return the values of the kernel's parameters."""
        return self.explanation.sizes

    @property
    def called(self) -> str:
        """Return the kernel with its sizes, e.g. ``"product(n=1024)"``."""
        return called(self.kernel, self.sizes, self.explanation.typical)

    @property
    def estimate(self) -> Estimate:
        """Return the estimate by the model that is shown."""
        return self.on.estimate

    @property
    def seconds(self) -> float:
        """Return the run time."""
        return float(self.estimate)

    @cached_property
    def lines(self) -> tuple[LineCost, ...]:
        """Return what each line of the source costs; they add up to the run time."""
        return self.explanation.lines(self.estimate)

    @cached_property
    def sums(self) -> Sums | None:
        """Return what the launches do; None where the device has no parameters, or the kernel executes nothing."""
        diagnosis = self.on.diagnosis
        return None if diagnosis is None or not diagnosis.launches else Sums(diagnosis)

    @property
    def launching(self) -> float:
        """Return the seconds that launching takes; 0 where the model of the run time knows no pipelines."""
        if self.sums is None or self.sums.diagnosis.model != self.on.first:
            return 0.0
        return max(0.0, self.seconds - self.sums.executing)
