"""Tests of the examples in the commands' help: they succeed, fit into 80 columns, and print JSON.

The commands are the real ones; they measure a synthetic device with few, small kernels.
"""

import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import platformdirs
import pytest
from click.testing import Result
from rich.console import Console

from loopyperf.cli import measuring, progress
from loopyperf.cli.command_table import COMMANDS
from loopyperf.measurement import backends, kernel_files
from loopyperf.measurement.microbenchmarks.measured_description import described_by
from tests.cli.runner import run
from tests.small_campaign import write_kernel_files

HERE = Path(__file__).parent
TUTORIAL = HERE.parents[1] / "docs" / "tutorial"
RECORDED = HERE.parent / "measurement" / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
WIDTH = 80
IMMEDIATE = {"cache", "devices", "doctor"}
"""commands that finish at once and show no progress"""
STAGES = {
    "advise matmul.py:tiled --set n=1024 --device nvidia-v100": ["simulating"],
    "calibrate --samples": ["measuring", "sampling", "fitting"],
    "compare matmul.py:tiled --set n=4096 --device nvidia-v100": ["running all models"],
    "counters matmul.py:tiled --set n=4096 --device nvidia-v100": ["counting"],
    "diff matmul.py:tiled --set n=2048 --set-after n=4096 --device nvidia-v100": ["comparing"],
    "estimate matmul.py:tiled --set n=4096 --device amd-r9-fury": ["estimating"],
    "explain matmul.py:tiled --set n=4096 --device nvidia-v100": ["simulating"],
    "check matmul.py:tiled --set n=4096 --device nvidia-v100 --max 60ms": ["estimating"],
    "fit archive.jsonl": ["fitting"],
    "measure matmul.py:tiled --set n=256": ["measuring"],
    "microbenchmark --quick": ["measuring"],
    f"microbenchmark --from-archive {RECORDED}": ["evaluating"],
    "profile --device nvidia-v100 --parallelize app.py": ["predicting"],
    "rank tiles.py:variants --set n=4096 --device nvidia-v100 --model pipeline": ["ranking"],
    "report matmul.py:tiled --set n=4096 --device nvidia-v100": ["simulating"],
    "trace matmul.py:tiled --set n=256 --device nvidia-v100": ["simulating"],
    "train archive.jsonl": ["training"],
    "tune matmul.py:tiled --choose tile=8,16 --set n=512 --backend opencl": ["tuning"],
    "validate": ["measuring", "predicting"],
    "validate --from-archive archive.jsonl": ["predicting"],
}
"""by command line: the stages that it shows on a terminal, in this order"""

pytestmark = [
    pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning"),
]


def examples() -> Iterator[tuple[str, str]]:
    """Yield each command line in the examples of the help, preceded by the name of its command."""
    for name, command in COMMANDS.items():
        for each in (command, *getattr(command, "commands", {}).values()):
            epilog = re.sub(r"\\\n\s*", "", each.epilog or "")  # joins continued lines
            for line in re.findall(r"^(?:Example: )?(?:\w+=\S+ )?(loopyperf .*)$", epilog, re.MULTILINE):
                yield name, line


@cache
def lines() -> list[str]:
    """Return the command lines of all examples."""
    return sorted({line for _, line in examples()})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the examples use."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("app.py", "matmul.py", "tiles.py"):
        shutil.copy(TUTORIAL / name, folder)
    write_kernel_files(folder / "package" / "measurement_kernels")
    write_kernel_files(folder / "package" / "test_kernels", "long vectors")
    with in_workspace(folder):
        for words in ("calibrate --samples --archive archive.jsonl", "calibrate --samples --archive gpu.jsonl"):
            assert run_line(f"loopyperf {words}").exit_code == 0
        assert run_line("loopyperf train gpu.jsonl").exit_code == 0
    return folder


@contextmanager
def in_workspace(folder: Path) -> Iterator[None]:
    """Run in *folder*, with its data, cache and kernels, and with a synthetic device."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        patch.setenv("LOOPYPERF_DATA", "own data")
        patch.setenv("COLUMNS", str(WIDTH))
        patch.setattr(platformdirs, "user_cache_dir", lambda name, *_: "caches")
        patch.setattr(kernel_files, "PACKAGE", folder / "package")
        patch.setattr(backends, "BACKENDS", {**backends.BACKENDS, "opencl": ("tests.parts_backend", "device")})
        patch.setattr(measuring, "run_microbenchmarks", lambda *_, **__: described_by(RECORDED))
        yield
        for name in ("matmul", "tiles"):
            sys.modules.pop(name, None)


def run_line(line: str, *more: str) -> Result:
    return run(*shlex.split(line)[1:], *more)


@pytest.fixture(scope="module")
def run_once(workspace: Path) -> Callable[[str], tuple[Result, str]]:
    """Return a function that runs a command line, and caches its result and the progress shown on a terminal."""

    @cache
    def found(line: str) -> tuple[Result, str]:
        shown = io.StringIO()
        with in_workspace(workspace), pytest.MonkeyPatch.context() as patch:
            patch.setattr(progress, "standard_error", lambda: Console(file=shown, force_terminal=True, width=WIDTH))
            return run_line(line), shown.getvalue()

    return found


@pytest.fixture
def cached_run(run_once: Callable[[str], tuple[Result, str]]) -> Callable[[str], Result]:
    """Return a function that runs a command line once and caches its result."""
    return lambda line: run_once(line)[0]


def test_every_command_has_an_example() -> None:
    assert sorted({name for name, _ in examples()}) == sorted(COMMANDS)


def test_examples_succeed(subtests: pytest.Subtests, cached_run: Callable[[str], Result]) -> None:
    for line in lines():
        with subtests.test(line=line):
            found = cached_run(line)
            if found.exception is not None:
                raise found.exception
            assert found.exit_code == 0
            assert found.stdout


def test_output_fits_the_terminal_and_is_not_truncated(
    subtests: pytest.Subtests, cached_run: Callable[[str], Result]
) -> None:
    for line in lines():
        with subtests.test(line=line):
            printed = cached_run(line.replace(" --json", "")).stdout
            assert max(map(len, printed.splitlines())) <= WIDTH
            assert "…" not in printed
            assert "..." not in " ".join(printed.split()).replace("(model=... selects another)", "")


def test_example_of_each_command_prints_json(subtests: pytest.Subtests, cached_run: Callable[[str], Result]) -> None:
    for line in {line.split()[1]: line for line in reversed(lines())}.values():
        with subtests.test(line=line):
            with_json = line if line.endswith(" --json") else f"{line} --json"
            if " profile " in line:  # what follows the program is for the program
                with_json = line.replace(" profile ", " profile --json ")
            assert json.loads(cached_run(with_json).stdout)


def test_every_slow_command_is_listed_with_its_stages() -> None:
    assert {line.split()[0] for line in STAGES} == COMMANDS.keys() - IMMEDIATE


def test_progress_is_shown_on_a_terminal(
    subtests: pytest.Subtests, run_once: Callable[[str], tuple[Result, str]]
) -> None:
    stages = "|".join({stage for each in STAGES.values() for stage in each})
    for line, expected in STAGES.items():
        with subtests.test(line=line):
            result, shown = run_once(f"loopyperf {line}")
            assert result.exit_code == 0
            assert list(dict.fromkeys(re.findall(stages, shown))) == expected


def test_help_fits_the_terminal_and_is_not_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    parts = [f"{name} {part}" for name, command in COMMANDS.items() for part in getattr(command, "commands", {})]
    for words in ("", *COMMANDS, *parts):
        printed = run_line(f"loopyperf {words} --help").stdout
        assert [line for line in printed.splitlines() if len(line) > WIDTH] == [], words
        if words in ("", "devices"):
            assert "..." not in printed.replace("[ARGS]...", ""), words
