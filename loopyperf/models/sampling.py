"""The sampled model: what the first groups of a launch took tells what all of them will (Dao).

D. Dao, J. Kim, S. Seo, B. Egger, J. Lee: "A Performance Model for GPUs with Caches", IEEE TPDS 26(7), 2015, section 5.
"""

from dataclasses import dataclass
from math import isfinite

from loopyperf.errors import ModelInputError


@dataclass(frozen=True, slots=True)
class Samples:
    """What the first groups of one launch took, for several numbers of them.

    Raises :class:`ModelInputError` unless there is a time for each number, numbers increase from 1 or more and are at
    most those of the launch, and times are positive.
    """

    groups: tuple[int, ...]
    """groups launched, increasing"""
    seconds: tuple[float, ...]
    """what they took, for each number of them"""
    saturation: int
    """Psat: the groups that the device runs at once"""
    total_groups: int
    """N: the groups of the whole launch"""

    def __post_init__(self) -> None:
        """Refuse samples that are none."""
        if self.saturation < 1 or self.total_groups < 1:
            raise ModelInputError(
                "a device runs a group or more at once, and a launch has one or more; received "
                f"saturation={self.saturation} and total_groups={self.total_groups}"
            )
        if not self.groups or len(self.groups) != len(self.seconds):
            raise ModelInputError(
                f"each sample is a number of groups and what they took; received {len(self.groups)} numbers and "
                f"{len(self.seconds)} times"
            )
        if (
            list(self.groups) != sorted(set(self.groups))
            or not 1 <= self.groups[0] <= self.groups[-1] <= self.total_groups
        ):
            raise ModelInputError(
                f"numbers of groups increase, from 1 to at most the {self.total_groups} of the launch; received "
                f"{', '.join(map(str, self.groups))}"
            )
        if not all(isfinite(each) and each > 0 for each in self.seconds):
            raise ModelInputError(
                f"what groups take are positive seconds; received {', '.join(map(str, self.seconds))}"
            )
