"""``loopyperf doctor``: what is installed, what is missing, how to mend it."""

from collections.abc import Iterator
from dataclasses import dataclass

import click
from rich.console import Console

from loopyperf.calibration.library import known_fits
from loopyperf.counts.quasipolynomial import ENGINE_REMEDY, engine_is_exact
from loopyperf.errors import BackendError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.environment import installed_versions


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at."""

    fine: bool
    essential: bool
    text: str


@click.command(epilog="Example: loopyperf doctor")
def doctor() -> None:
    """Check the installation; exit with status 1 if something essential is broken."""
    console = Console()
    findings = list(examine())
    for finding in findings:
        mark = "[green]ok[/]  " if finding.fine else "[red]bad[/] " if finding.essential else "[yellow]none[/]"
        console.print(f"{mark} {finding.text}", soft_wrap=True, highlight=False)
    if any(finding.essential and not finding.fine for finding in findings):
        raise SystemExit(1)


def examine() -> Iterator[Finding]:
    """Yield what was found: versions, the counting engine, the local device, the fits."""
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    yield Finding(True, True, f"installed: {versions}")
    exact = engine_is_exact()
    engine = "barvinok: counts are symbolic and exact" if exact else f"islpy without barvinok; {ENGINE_REMEDY}"
    yield Finding(exact, True, f"counting engine: {engine}")
    yield _device()
    fits = ", ".join(f"{fit.slug} ({fit.model}, {fit.origin})" for fit in known_fits())
    yield Finding(bool(fits), False, f"fits: {fits or 'none; make one with `loopyperf calibrate`'}")


def _device() -> Finding:
    try:
        environment = open_backend("opencl").environment
    except BackendError as error:
        return Finding(False, False, f"OpenCL device: {error}")
    return Finding(True, False, f"OpenCL device: {environment.device}; short name {environment.slug}")
