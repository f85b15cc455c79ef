"""The kernels of projects that use Loopy, recorded while the projects' tests and examples run.

This repository contains nothing of these projects. The caller provides a folder of checkouts, each under the name of
its project, and the environment in which they run (CONTRIBUTING.md).
"""

import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from loopy.kernel import KernelState

from .specimen import Specimen

STAND_INS = Path(__file__).parent / "stand_ins"
"""stubs of packages that PyOP2 and TSFC import, but do not need to generate kernels"""
SECONDS = 600
"""time limit of one test file or example"""
MOST = 24
"""limit of the kernels of one test; some tests loop over all operators and types"""
DEVICE = re.compile(r"<context factory for .*?>>-?|<\w*ArrayContextFactory.*?>-?")
"""part of a test's name that does not describe the kernel"""


@dataclass(frozen=True)
class Project:
    """The files of one project that are run."""

    name: str
    files: tuple[str, ...]
    """patterns relative to its checkout"""
    results: str = ""
    """functions whose results are recorded, for :mod:`recorder`"""


TSFC = "tsfc.kernel_interface.firedrake_loopy"
PROJECTS = (
    Project("pytato", ("test/test_*.py", "examples/*.py")),
    Project("arraycontext", ("test/test_*.py",)),
    Project("meshmode", ("test/test_*.py", "examples/*.py")),
    Project("grudge", ("test/test_*.py", "examples/*/*.py")),
    Project("sumpy", ("sumpy/test/test_*.py", "examples/*.py")),
    Project("pystella", ("test/test_*.py", "examples/*.py")),
    Project("feinsum", ("test/test_*.py", "examples/*.py")),
    Project(
        "firedrake",
        ("tests/tsfc/test_*.py", "tests/pyop2/test_*.py"),
        "tsfc.kernel_interface.firedrake_loopy:generate_loopy",
    ),
)


def harvest(checkouts: Path, kept: Path) -> dict[str, list[Specimen]]:
    """Return the distinct kernels of each project in *checkouts*, run now or *kept* from an earlier run."""
    known: set[str] = set()
    here = [project for project in PROJECTS if (checkouts / project.name).is_dir()]
    for project in here:  # kernels refer to functions that test modules define
        sys.path += sorted({str(file.parent) for file in _files(project, checkouts)})
    return {project.name: distinct(_recorded(project, checkouts, kept), known) for project in here}


def distinct(recorded: Path, known: set[str]) -> list[Specimen]:
    """Return the *recorded* kernels that are not in *known*, at most :data:`MOST` of each test."""
    found: list[Specimen] = []
    of_test: Counter[str] = Counter()
    for specimen in _recordings(recorded):
        test = specimen.name.partition("[")[0]
        # Tests build one kernel with many constant sizes, so kernels that differ only in numbers are the same.
        text = re.sub(r"\d+", "#", _text(specimen)) if of_test[test] < MOST else ""
        if text and text not in known:
            known.add(text)
            of_test[test] += 1
            found.append(specimen)
    return found


def _recorded(project: Project, checkouts: Path, kept: Path) -> Path:
    """Return the folder with the records of *project*, whose files each run in a separate process."""
    recorded, partial = kept / project.name, kept / f"{project.name}.partial"
    if recorded.exists():
        return recorded
    partial.mkdir(parents=True, exist_ok=True)
    for file in _files(project, checkouts):
        with (kept / f"{project.name}.{file.stem}.log").open("w") as log:
            try:
                # Ignore tests that fail and modules whose dependencies are not installed.
                subprocess.run(
                    _command(file),
                    cwd=file.parent,
                    env=_environment(project, partial),
                    stdout=log,
                    stderr=log,
                    check=False,
                    timeout=SECONDS,
                )
            except subprocess.TimeoutExpired:
                log.write(f"stopped after {SECONDS} s\n")
    return partial.rename(recorded)


def _files(project: Project, checkouts: Path) -> list[Path]:
    checkout = (checkouts / project.name).resolve()
    return sorted(file for pattern in project.files for file in checkout.glob(pattern))


def _command(file: Path) -> list[str]:
    if not file.name.startswith("test_"):
        return [sys.executable, str(Path(__file__).with_name("recorder.py")), str(file)]
    pytest = [sys.executable, "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", "-c", os.devnull]
    return [*pytest, "--rootdir", ".", "--tb=line", "-q", file.name]


def _environment(project: Project, recorded: Path) -> dict[str, str]:
    ours = {
        "LOOPY_NO_CACHE": "1",
        "MPLBACKEND": "Agg",
        "POCL_MAX_PTHREAD_COUNT": "1",
        "PYTHONHASHSEED": "0",
        "PYOPENCL_CTX": "portable",
        "PYOPENCL_TEST": "portable",
        "PYTHONPATH": os.pathsep.join((str(Path(__file__).parent), str(STAND_INS), os.environ.get("PYTHONPATH", ""))),
        "RECORDED_KERNELS": str(recorded.resolve()),
        "RECORDED_PARAMETERS": str(MOST),
        "RECORDED_RESULTS": project.results,
    }
    return {**os.environ, **ours}


def _recordings(recorded: Path) -> Iterator[Specimen]:
    """Yield the programs recorded before Loopy's preprocessing, in the order of the tests, one for each entry point."""
    for path in sorted(recorded.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        test, pickled, arguments = pickle.loads(path.read_bytes())
        whole = Specimen(DEVICE.sub("", test).replace("[]", ""), pickled, arguments=arguments)
        unit = whole.unit()
        names = sorted(unit.entrypoints)
        for name in names:
            if unit[name].state < KernelState.PREPROCESSED and all(arg.dtype is not None for arg in unit[name].args):
                yield Specimen(whole.name, pickled, name, arguments)


def _text(specimen: Specimen) -> str:
    unit = specimen.unit()
    called = (getattr(each, "subkernel", None) for each in unit.callables_table.values())
    return "\n".join(str(kernel) for kernel in (unit.default_entrypoint, *called))
