"""Commands about the installation: ``cache`` and ``doctor``."""

import os
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import click
import loopy as lp

from loopyperf.calibration.fits import load_fit
from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.options import Form, is_quiet
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import known_descriptions, known_fits
from loopyperf.display import ReportText, Table
from loopyperf.errors import ENGINE_REMEDY, BackendError, DeviceFileError, FitFileError, SimulationError
from loopyperf.files import why_unwritable
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.environment import installed_versions
from loopyperf.pipeline.simulator import compiled_core
from loopyperf.polyhedral.quasipolynomial import engine_is_exact
from loopyperf.stages.cache import (
    CACHE_VARIABLE,
    LIMIT_VARIABLE,
    Entry,
    cache_folder,
    cache_limit,
    entries,
    own_folder,
    remove,
)
from loopyperf.units import number_of

# {{{ cache


@click.command("cache", epilog="\b\nExample: loopyperf cache --clear")
@click.option("--clear", is_flag=True, help="Delete all cached files.")
@settings.form
def cache_command(clear: bool, form: Form) -> None:
    """Show or clear the result cache.

    The cache keeps counts and predictions for later processes. Other files in its folder are never deleted. With
    --quiet, print only the number of bytes that it holds, or that were removed. Exit with status 1 if a file cannot be
    deleted.
    """
    folder = cache_folder() or own_folder()
    found = entries(folder)
    left = remove(found) if clear else ()
    lines, about = [f"folder: {folder}"], dict[str, Any]({"folder": str(folder)})
    if clear:
        counts = {"removed": _sum([entry for entry in found if entry not in left])}
        lines.append(f"removed: {_in_words(counts['removed'])}")
        if left:
            counts["cannot_be_removed"] = _sum(left)
            lines.append(f"cannot be removed: {_in_words(counts['cannot_be_removed'])}; permission denied")
    else:
        counts = {"holds": _sum(found)}
        about |= {"state": _state(), "limit": cache_limit()}
        lines += [about["state"], f"limit: {about['limit']:,} bytes; {LIMIT_VARIABLE}=NUMBER sets another limit"]
        lines.append(f"entries: {_in_words(counts['holds'])}")
    if form == "text":
        for line in [str(next(iter(counts.values()))["bytes"])] if is_quiet() else lines:
            show(line)
    else:
        records = [{"kind": name, **files} for name, files in counts.items()]
        print_in(form, lambda: [ReportText("", remarks=lines)], lambda: records, lambda: {**about, **counts})
    if left:
        raise SystemExit(1)


def _state() -> str:
    folder, value = cache_folder(), os.environ.get(CACHE_VARIABLE, "")
    if folder is None:
        on = f"unset {CACHE_VARIABLE} to turn the cache on"
        return f"off: {CACHE_VARIABLE}={value}; {on}" if value else "off: no home folder"
    if not lp.CACHING_ENABLED:
        return "off: LOOPY_NO_CACHE turns off Loopy's caches and this one"
    if reason := why_unwritable(folder, is_folder=True, makes_folders=True):
        return f"off: cannot write to {folder}: {reason}; {CACHE_VARIABLE}=FOLDER sets another folder"
    return f"on: {CACHE_VARIABLE}=0 turns it off, {CACHE_VARIABLE}=FOLDER sets another folder"


def _sum(found: Collection[Entry]) -> dict[str, int]:
    return {"files": len(found), "bytes": sum(entry.nbytes for entry in found)}


def _in_words(files: dict[str, int]) -> str:
    return f"{number_of(files['files'], 'file')}, {number_of(files['bytes'], 'byte')}"


# }}}


# {{{ doctor


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


@click.command("doctor", epilog="\b\nExample: loopyperf doctor")
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


# }}}
