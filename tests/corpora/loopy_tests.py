"""The kernels that loopy's own tests build, harvested from its source distribution by running these tests.

Nothing of that distribution is part of this repository: it is downloaded, run and left in a folder of the caller's.
"""

import os
import pickle
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from pathlib import Path

import loopy as lp
from loopy.type_inference import infer_unknown_types

from .specimen import Specimen

FOLDER = Path(__file__).parents[2] / ".pytest_cache" / "loopy-tests"
"""ignored by git; a harvest takes five minutes"""
LEFT_OUT = "not (test_fuzz_expression_code_gen and ExecutableCTarget) and not bajillions"
"""C compilers spend minutes on random expressions, which OpenCL gets too; PoCL does not survive 900 arguments"""
DEVICE = re.compile(r"<context factory for .*?>>-?")
"""in the name of a test; says nothing of the kernel"""


@dataclass(frozen=True)
class Harvest:
    """What loopy's tests bring to Loopy's scheduler."""

    specimens: tuple[Specimen, ...]
    """distinct kernels that Loopy can schedule"""
    obstacles: tuple[tuple[str, str], ...]
    """test and reason, where Loopy itself cannot, as the test expects"""


def harvest(folder: Path = FOLDER) -> Harvest:
    """Return the kernels of loopy's tests, run in *folder*, or what an earlier run has left there.

    Raises :class:`subprocess.CalledProcessError` where loopy's source distribution cannot be downloaded.
    """
    source = _source(folder)
    sys.path.append(str(source / "test"))  # kernels refer to functions that test modules define
    kept = source / "harvest.pickle"
    if not kept.exists():
        kept.write_bytes(pickle.dumps(_sorted_out(_recorded(source))))
    return pickle.loads(kept.read_bytes())


# {{{ running loopy's tests


def _source(folder: Path) -> Path:
    """Return the unpacked source distribution of the loopy that is installed, downloaded if need be."""
    release = version("loopy")
    source = folder / f"loopy-{release}"
    if not source.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
        subprocess.run([*pip, "--no-binary", ":all:", "--dest", str(folder), f"loopy=={release}"], check=True)
        with tarfile.open(f"{source}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return source


def _recorded(source: Path) -> Path:
    """Return the folder of what the recorder saw of the tests, each file run in a process of its own."""
    recorded, partial = source / "recorded", source / "recorded.partial"
    if recorded.exists():
        return recorded
    partial.mkdir(exist_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", "-c", os.devnull]
    for file in sorted((source / "test").glob("test_*.py")):
        with (partial.parent / f"{file.stem}.log").open("w") as log:
            # That some tests fail, and some modules need what is not installed, is no concern of ours.
            command = [*pytest, "--rootdir", ".", "-rs", "--tb=line", "-k", LEFT_OUT, file.name]
            subprocess.run(command, cwd=file.parent, env=_environment(partial), stdout=log, stderr=log, check=False)
    return partial.rename(recorded)


def _environment(recorded: Path) -> dict[str, str]:
    ours = {
        "LOOPY_NO_CACHE": "1",
        "POCL_MAX_PTHREAD_COUNT": "1",
        "PYTHONHASHSEED": "0",
        "PYOPENCL_CTX": "portable",
        "PYOPENCL_TEST": "portable",
        "PYTHONPATH": str(Path(__file__).parent),
        "RECORDED_KERNELS": str(recorded),
    }
    return {**os.environ, **ours}


# }}}


# {{{ what is a kernel


def _sorted_out(recorded: Path) -> Harvest:
    specimens: dict[str, Specimen] = {}
    obstacles: dict[tuple[str, str], None] = {}
    for specimen in _recordings(recorded):
        try:
            with redirect_stdout(StringIO()):  # Loopy prints kernels that it cannot schedule
                specimens.setdefault(_scheduled(specimen), specimen)
        except Exception as error:  # whatever Loopy raises: this is not a kernel
            obstacles[specimen.name, f"{type(error).__name__}: {error}"] = None
    return Harvest(tuple(specimens.values()), tuple(obstacles))


def _recordings(recorded: Path) -> Iterator[Specimen]:
    """Yield what was recorded, in the order of the tests, one specimen for each entry point."""
    for path in sorted(recorded.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        test, pickled, _ = pickle.loads(path.read_bytes())
        whole = Specimen(DEVICE.sub("", test).replace("[]", ""), pickled)
        names = sorted(whole.unit().entrypoints)
        if len(names) < 2:
            yield whole
        else:
            yield from (Specimen(whole.name, pickled, name) for name in names)


def _scheduled(specimen: Specimen) -> str:
    """Return the kernel as Loopy schedules it, in words: what tells kernels apart."""
    prepared = lp.preprocess_program(specimen.unit())
    return str(lp.linearize(infer_unknown_types(prepared, expect_completion=True)))


# }}}
