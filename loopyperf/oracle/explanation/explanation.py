"""An :class:`Explanation`: what there is to say of a kernel's time on some devices, as plain values."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

from loopyperf.models.literature.advice import UNMODELLED, Advice
from loopyperf.models.on_device.roofs import Roofline
from loopyperf.models.result import Estimate
from loopyperf.oracle.explanation.costs import LineCost, line_costs
from loopyperf.oracle.explanation.listing import Line
from loopyperf.oracle.models_table import below_roofline, is_below, models_table
from loopyperf.oracle.refusals import unanswered
from loopyperf.sheet import Sheet, Shown, Table, called, plain
from loopyperf.units import duration, in_percent

COSTLIEST = 5
"""lines of the source that are shown of an explanation"""


@dataclass(frozen=True, slots=True, repr=False)
class OnDevice(Shown):
    """What there is to say of a kernel on one device."""

    device: str
    """its short name"""
    name: str
    """its full name; the short one where it is not described"""
    first: str
    """the model that is shown first: the one that was asked for, if it has an answer"""
    estimates: Mapping[str, Estimate]
    """by model, one at least"""
    refusals: Mapping[str, str]
    """model -> why it has no answer"""
    clock: float | None
    """of a core, in Hz; None where the device is not described"""
    roofline: Roofline | None
    """the launches under the roofs of the device; None where :attr:`gaps` says why"""
    advice: tuple[Advice, ...]
    """of each launch"""
    gaps: Mapping[str, str]
    """``"roofline"`` or ``"advice"`` -> why there is none"""

    @property
    def estimate(self) -> Estimate:
        """Return the estimate that is shown first."""
        return self.estimates[self.first]

    @property
    def least(self) -> float:
        """Return the seconds of the roofline, a bound of what it sees alone; -infinity where there is none.

        Those of the model, which has what launching takes, where it was asked.
        """
        if "roofline" in self.estimates:
            return float(self.estimates["roofline"])
        return -inf if self.roofline is None else sum(launch.seconds for launch in self.roofline.launches)

    @property
    def beyond_advice(self) -> str:
        """Return a sentence on what most of the time is for, where GPUPerf, whose advice it is, does not model that."""
        bound = self.estimate.bound
        if not self.advice or bound not in UNMODELLED:
            return ""
        return f"most of the time of {self.first} is for {bound}, which GPUPerf does not model: try {UNMODELLED[bound]}"

    def is_under_the_roof(self, model: str) -> bool:
        """Return whether *model* says less than the roofline."""
        return is_below(self.estimates[model], self.least)

    @property
    def under_the_roof(self) -> str:
        """Return a sentence on the models that say less than the roofline; empty where there are none."""
        return below_roofline(self.estimates, self.least)

    def sheet(self) -> Sheet:
        """Return what each model says, and why others have no answer."""
        shown = self.estimate
        return Sheet(
            asked=f"{called(shown.kernel, shown.sizes, shown.typical)} on {self.name}",
            answer=f"{shown.time_in_words} by {self.first}, {shown.most_of_it}",
            tables=[models_table(self.estimates, self.clock)],
            remarks=unanswered(self.refusals),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain values that JSON can hold."""
        return {
            "device": self.device,
            "name": self.name,
            "first": self.first,
            "estimates": {name: each.to_dict() for name, each in self.estimates.items()},
            "refusals": dict(self.refusals),
            "clock": self.clock,
            "roofline": None if self.roofline is None else _plain(self.roofline),
            "advice": [each.to_dict() for each in self.advice],
            "gaps": dict(self.gaps),
        }


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Shown):
    """What there is to say of a kernel's time at one size."""

    kernel: str
    """its name"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    about: str
    """what the kernel is for, in the words of who asked"""
    listing: tuple[Line, ...]
    """its source, and below it what else estimates attribute costs to"""
    devices: tuple[OnDevice, ...]
    """one at least"""
    refusals: Mapping[str, str]
    """device -> why no model has an answer for it"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    def lines(self, estimate: Estimate) -> tuple[LineCost, ...]:
        """Return what each line of the listing costs by *estimate*, one of those here; they add up to its seconds."""
        return tuple(line_costs(estimate, self.listing))

    def sheet(self) -> Sheet:
        """Return what is shown first on each device, and the lines that cost most on the first one."""
        first = self.devices[0]
        devices = [(on.name, on.first, on.estimate.bound, on.estimate.time_in_words) for on in self.devices]
        return Sheet(
            asked=called(self.kernel, self.sizes, self.typical),
            answer=f"{first.estimate.time_in_words} on {first.name} by {first.first}",
            tables=[
                Table(("device", "model", "most of it for", "time"), devices, text=3),
                Table((f"costliest lines on {first.device}", "time", "share"), self._costliest(first.estimate)),
            ],
            remarks=unanswered(self.refusals),
        )

    def _costliest(self, estimate: Estimate) -> list[tuple[str, str, str]]:
        costs = sorted(self.lines(estimate), key=lambda cost: -abs(cost.seconds))[:COSTLIEST]
        whole = float(estimate.seconds)
        return [
            (cost.line.text, duration(cost.seconds), in_percent(cost.seconds / whole) if whole else "")
            for cost in costs
            if cost.parts
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation as plain values that JSON can hold."""
        return {
            "kernel": self.kernel,
            "sizes": plain(self.sizes),
            "typical": plain(self.typical),
            "about": self.about,
            "listing": [line.to_dict() for line in self.listing],
            "devices": [each.to_dict() for each in self.devices],
            "refusals": dict(self.refusals),
        }


def _plain(roofline: Roofline) -> dict[str, Any]:
    launches = [
        {**asdict(launch), "performance": launch.performance, "intensities": launch.intensities}
        for launch in roofline.launches
    ]
    return {
        "typical": plain(roofline.typical),
        "bandwidths": dict(roofline.bandwidths),
        "peaks": dict(roofline.peaks),
        "launches": launches,
        "notes": list(roofline.notes),
    }
