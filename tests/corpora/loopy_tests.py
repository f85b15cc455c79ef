"""The kernels of loopy's own tests, recorded while the tests of its source distribution run.

This repository contains nothing of that distribution: it is downloaded, run and kept in a folder of the caller.
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
EXCLUDED = "not (test_fuzz_expression_code_gen and ExecutableCTarget) and not bajillions"
"""C compilers take minutes for random expressions, which OpenCL tests, too; PoCL crashes on 900 arguments"""
DEVICE = re.compile(r"<context factory for .*?>>-?")
"""part of a test's name that does not describe the kernel"""


@dataclass(frozen=True)
class Harvest:
    """The programs that loopy's tests pass to Loopy's scheduler."""

    specimens: tuple[Specimen, ...]
    """distinct kernels that Loopy can schedule"""
    obstacles: tuple[tuple[str, str], ...]
    """test and reason, where Loopy itself fails, as the test expects"""


def harvest(folder: Path = FOLDER) -> Harvest:
    """Return the kernels of loopy's tests, run in *folder*, or the result of an earlier run there.

    Raises :class:`subprocess.CalledProcessError` if loopy's source distribution cannot be downloaded.
    """
    source = _source(folder)
    sys.path.append(str(source / "test"))  # kernels refer to functions that test modules define
    kept = source / "harvest.pickle"
    if not kept.exists():
        kept.write_bytes(pickle.dumps(_sorted_out(_recorded(source))))
    return pickle.loads(kept.read_bytes())


# {{{ running loopy's tests


def _source(folder: Path) -> Path:
    """Return the unpacked source distribution of the installed loopy, downloaded if necessary."""
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
    """Return the folder with the records of the tests, whose files each run in a separate process."""
    recorded, partial = source / "recorded", source / "recorded.partial"
    if recorded.exists():
        return recorded
    partial.mkdir(exist_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", "-c", os.devnull]
    for file in sorted((source / "test").glob("test_*.py")):
        with (partial.parent / f"{file.stem}.log").open("w") as log:
            # Ignore tests that fail and modules whose dependencies are not installed.
            command = [*pytest, "--rootdir", ".", "-rs", "--tb=line", "-k", EXCLUDED, file.name]
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


# {{{ distinct kernels


def _sorted_out(recorded: Path) -> Harvest:
    specimens: dict[str, Specimen] = {}
    obstacles: dict[tuple[str, str], None] = {}
    for specimen in _recordings(recorded):
        try:
            with redirect_stdout(StringIO()):  # Loopy prints kernels that it cannot schedule
                specimens.setdefault(_scheduled(specimen), specimen)
        except Exception as error:  # Loopy cannot schedule it, so it is not a kernel
            obstacles[specimen.name, f"{type(error).__name__}: {error}"] = None
    return Harvest(tuple(specimens.values()), tuple(obstacles))


def _recordings(recorded: Path) -> Iterator[Specimen]:
    """Yield the recorded programs in the order of the tests, one specimen for each entry point."""
    for path in sorted(recorded.iterdir(), key=lambda path: path.stat().st_mtime_ns):
        test, pickled, _ = pickle.loads(path.read_bytes())
        whole = Specimen(DEVICE.sub("", test).replace("[]", ""), pickled)
        names = sorted(whole.unit().entrypoints)
        if len(names) < 2:
            yield whole
        else:
            yield from (Specimen(whole.name, pickled, name) for name in names)


def _scheduled(specimen: Specimen) -> str:
    """Return the text of the scheduled kernel, which identifies the kernel."""
    prepared = lp.preprocess_program(specimen.unit())
    return str(lp.linearize(infer_unknown_types(prepared, expect_completion=True)))


# }}}
