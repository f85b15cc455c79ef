"""The profile of an application as an HTML page: tables, flame graphs by call chain, and why its kernels are slow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from markupsafe import Markup

from loopyperf.applications.application import ApplicationProfile
from loopyperf.applications.program_text import program_of
from loopyperf.applications.projection import Transform, to_predict
from loopyperf.applications.traces import stacks
from loopyperf.device.device_library import DeviceChoice
from loopyperf.display import called
from loopyperf.errors import LoopyperfError
from loopyperf.explain.explain import explain
from loopyperf.explain.report import TEMPLATE as REPORT
from loopyperf.explain.report import environment
from loopyperf.units import printable

TEMPLATE = Path(__file__).parent / "template"
EXPLAINED = 3
"""kernels that are explained: those that take longest on the first device"""


@dataclass
class Frame:
    """A call of a flame graph, with the calls inside it."""

    name: str
    seconds: float = 0.0
    inside: list["Frame"] = field(default_factory=list["Frame"])

    @property
    def share(self) -> float:
        """Return the relative width."""
        return max(self.seconds, 1e-12) * 1e6


def flame(profile: ApplicationProfile, place: int) -> Frame:
    """Return the tree of calls with their predicted seconds on the device number *place*."""
    root = Frame(profile.name)
    for stack, seconds in stacks(profile, place).items():
        current = root
        current.seconds += seconds
        for name, path, line in stack:
            words = f"{name} ({PurePath(path).name}:{line})" if path else name
            inner = next((each for each in current.inside if each.name == words), None)
            if inner is None:
                inner = Frame(words)
                current.inside.append(inner)
            inner.seconds += seconds
            current = inner
    return root


def page_of(
    profile: ApplicationProfile, devices: Sequence[DeviceChoice | None], transform: Transform | None = None
) -> str:
    """Return *profile* as a self-contained HTML document; *devices* and *transform* are those it was made with."""
    page = (
        environment(TEMPLATE)
        .get_template("profile.html")
        .render(
            profile=profile,
            text=profile.report_text(),
            whole=Markup(profile.whole_table().html()),
            kernels=Markup(profile.kernels_table(len(profile.rows)).html()),
            flames=[(device, flame(profile, place)) for place, device in enumerate(profile.devices)],
            explained=list(_explained(profile, devices, transform)),
            style=Markup((REPORT / "page.css").read_text()),
        )
    )
    return printable(page)


def _explained(
    profile: ApplicationProfile, devices: Sequence[DeviceChoice | None], transform: Transform | None
) -> Iterator[tuple[str, Any]]:
    """Yield (kernel, explanation as HTML) for the Loopy kernels that take longest on the first device."""
    record = profile.record
    costs: dict[int, float] = {}
    for item, *_ in record.events:
        if record.items[item].work == "kernel":
            costs[item] = costs.get(item, 0.0) + (profile.seconds_of(item, 0) or 0.0)
    slowest = sorted((item for item, seconds in costs.items() if seconds), key=costs.__getitem__, reverse=True)
    for item in slowest[:EXPLAINED]:
        number = record.items[item].program
        assert number is not None
        case = to_predict(program_of(record.programs[number].text), record.items[item].sizes, transform)
        try:
            html = explain(case.kernel, device=devices[0], parameters=case.sizes).report_text().html()
        except LoopyperfError as error:
            html = f"<p>{error}</p>"
        yield called(record.items[item].name, case.sizes), Markup(html)
