"""``loopyperf doctor``: check the installation."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import click

from loopyperf.calibration.fits import load_fit
from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.streams import Form, is_quiet
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import known_descriptions, known_fits
from loopyperf.display import ReportText, Table
from loopyperf.errors import ENGINE_REMEDY, BackendError, DeviceFileError, FitFileError, SimulationError
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.environment import installed_versions
from loopyperf.pipeline.simulator import compiled_core
from loopyperf.polyhedral.quasipolynomial import engine_is_exact


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check."""

    text: str
    fine: bool = True
    essential: bool = False

    @property
    def mark(self) -> tuple[str, str]:
        """Return the word before the text, and its color."""
        if self.fine:
            return "ok", "green"
        return ("bad", "red") if self.essential else ("none", "yellow")


@click.command(epilog="\b\nExample: loopyperf doctor")
@settings.form
def doctor_command(form: Form) -> None:
    """Check the installation.

    With --quiet, print only what is missing or broken. Exit with status 1 if something essential is broken.
    """
    findings = tuple(examine())
    if form == "text":
        for finding in findings:
            mark, colour = finding.mark
            if not (is_quiet() and finding.fine):
                show(finding.text, mark=f"{mark:<5}", colour=colour)
    else:
        rows = [asdict(finding) for finding in findings]
        table = Table(("", "check"), [(finding.mark[0], finding.text) for finding in findings], text=2)
        print_in(form, lambda: [ReportText("", tables=[table])], lambda: rows, lambda: rows)
    if any(finding.essential and not finding.fine for finding in findings):
        raise SystemExit(1)


def examine() -> Iterator[CheckResult]:
    """Yield results for versions, counting engine, simulator, local devices, fits and device files."""
    versions = ", ".join(f"{name} {version}" for name, version in installed_versions().items())
    yield CheckResult(f"installed: {versions}")
    yield _engine()
    yield _simulator()
    yield _device("OpenCL", "opencl")
    yield _device("CUDA", "cuda")
    yield from _fits()
    yield from _descriptions()


def _engine() -> CheckResult:
    exact = engine_is_exact()
    engine = "barvinok: counts are symbolic and exact" if exact else f"islpy without barvinok; {ENGINE_REMEDY}"
    return CheckResult(f"counting engine: {engine}", fine=exact, essential=True)


def _simulator() -> CheckResult:
    try:
        compiled_core()
    except SimulationError as error:
        return CheckResult(f"simulator: {error}", fine=False, essential=True)
    return CheckResult("simulator: compiled")


def _device(kind: str, backend: str) -> CheckResult:
    try:
        environment = open_backend(backend).environment
    except BackendError as error:
        return CheckResult(f"{kind} device: {error}", fine=False)
    return CheckResult(f"{kind} device: {environment.device}; short name {environment.slug}")


def _fits() -> Iterator[CheckResult]:
    known = known_fits()
    fits = ", ".join(f"{fit.slug} ({fit.model}, {fit.origin})" for fit in known)
    yield CheckResult(f"fits: {fits or 'none; make one with `loopyperf calibrate`'}", fine=bool(known))
    for fit in known:
        try:
            load_fit(fit.path)
        except FitFileError as error:
            yield CheckResult(f"fit: {error}", fine=False, essential=True)


def _descriptions() -> Iterator[CheckResult]:
    known = known_descriptions()
    own = sum(description.origin == "user" for description in known)
    yield CheckResult(f"device files: {len(known)}, {own} of them yours")
    for description in known:
        try:
            load_description(description.path)
        except DeviceFileError as error:
            yield CheckResult(f"device: {error}", fine=False, essential=True)
