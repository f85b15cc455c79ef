"""The examples that the commands' help ends with are run: they give answers, in 80 columns, and as JSON.

What they measure is a device made of arithmetic, with few and small kernels; what they run is the command as it is.
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

from loopyperf.cli import microbenchmark_command as microbenchmark
from loopyperf.cli import progress
from loopyperf.cli.command_table import COMMANDS
from loopyperf.measurement import backends, kernel_files
from loopyperf.measurement.microbenchmarks.measured_description import described_by
from tests.cli.invoked import run
from tests.small_campaign import write_kernel_files

HERE = Path(__file__).parent
TUTORIAL = HERE.parents[1] / "docs" / "tutorial"
RECORDED = HERE.parent / "measurement" / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
WIDTH = 80
AT_ONCE = {"cache", "devices", "doctor"}
"""commands that do not make one wait"""
STAGES = {
    "advise matmul.py:tiled --set n=1024 --device nvidia-v100": ["simulating"],
    "calibrate --samples": ["measuring", "sampling", "fitting"],
    "compare matmul.py:tiled --set n=4096 --device nvidia-v100": ["running all models"],
    "counters matmul.py:tiled --set n=4096 --device nvidia-v100": ["counting"],
    "coverage --group-size 1024": ["counting"],
    "diff matmul.py:tiled --set n=2048 --set-after n=4096 --device nvidia-v100": ["comparing"],
    "estimate matmul.py:tiled --set n=4096 --device amd-r9-fury": ["estimating"],
    "explain matmul.py:tiled --set n=4096 --device nvidia-v100": ["simulating"],
    "fit archive.jsonl": ["fitting"],
    "microbenchmark --quick": ["measuring"],
    f"microbenchmark --from-archive {RECORDED}": ["evaluating"],
    "rank tiles.py:variants --set n=4096 --device nvidia-v100 --model pipeline": ["ranking"],
    "report matmul.py:tiled --set n=4096 --device nvidia-v100": ["simulating"],
    "trace matmul.py:tiled --set n=256 --device nvidia-v100": ["simulating"],
    "train archive.jsonl": ["training"],
    "validate": ["measuring", "predicting"],
    "validate --from-archive archive.jsonl": ["predicting"],
}
"""by what is typed: what is shown on a terminal while it goes on, in this order"""

pytestmark = pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")


def examples() -> Iterator[tuple[str, str]]:
    """Yield the command of each line of a help that is a command line of ours, with the line."""
    for name, command in COMMANDS.items():
        for each in (command, *getattr(command, "commands", {}).values()):
            epilog = re.sub(r"\\\n\s*", "", each.epilog or "")  # a line that goes on in the next one
            for line in re.findall(r"^(?:Example: )?(?:\w+=\S+ )?(loopyperf .*)$", epilog, re.MULTILINE):
                yield name, line


EXAMPLES = sorted({line for _, line in examples()})


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the examples speak of."""
    folder = tmp_path_factory.mktemp("desk")
    for name in ("matmul.py", "tiles.py"):
        shutil.copy(TUTORIAL / name, folder)
    write_kernel_files(folder / "package" / "measurement_kernels")
    write_kernel_files(folder / "package" / "test_kernels", "long vectors")
    with at_the_desk(folder):
        for words in ("calibrate --samples --archive archive.jsonl", "calibrate --samples --archive gpu.jsonl"):
            assert typed(f"loopyperf {words}").exit_code == 0
        assert typed("loopyperf train gpu.jsonl").exit_code == 0
    return folder


@contextmanager
def at_the_desk(folder: Path) -> Iterator[None]:
    """Be where the examples find what they speak of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", [*sys.path])
        patch.setenv("LOOPYPERF_DATA", "own data")
        patch.setenv("COLUMNS", str(WIDTH))
        patch.setattr(platformdirs, "user_cache_dir", lambda name: "caches")
        patch.setattr(kernel_files, "PACKAGE", folder / "package")
        patch.setattr(backends, "BACKENDS", {**backends.BACKENDS, "opencl": ("tests.parts_backend", "device")})
        patch.setattr(microbenchmark, "run_microbenchmarks", lambda *_, **__: described_by(RECORDED))
        yield
        for name in ("matmul", "tiles"):
            sys.modules.pop(name, None)


def typed(line: str, *more: str) -> Result:
    return run(*shlex.split(line)[1:], *more)


@pytest.fixture(scope="module")
def answer(desk: Path) -> Callable[[str], Result]:
    """Return what runs a line, once."""

    @cache
    def found(line: str) -> Result:
        with at_the_desk(desk):
            return typed(line)

    return found


def test_every_command_has_an_example() -> None:
    assert sorted({name for name, _ in examples()}) == sorted(COMMANDS)


def test_an_example_has_an_answer(subtests: pytest.Subtests, answer: Callable[[str], Result]) -> None:
    for line in EXAMPLES:
        with subtests.test(line=line):
            found = answer(line)
            assert (found.exit_code, found.exception) == (0, None), found.output
            assert found.stdout


def test_an_answer_is_no_wider_than_the_terminal_and_nothing_of_it_is_cut(
    subtests: pytest.Subtests, answer: Callable[[str], Result]
) -> None:
    for line in EXAMPLES:
        with subtests.test(line=line):
            printed = answer(line.replace(" --json", "")).stdout
            assert max(map(len, printed.splitlines())) <= WIDTH
            assert "…" not in printed
            assert "..." not in " ".join(printed.split()).replace("(model=... selects another)", "")


def test_an_answer_is_json_if_that_is_asked_for(subtests: pytest.Subtests, answer: Callable[[str], Result]) -> None:
    for line in EXAMPLES:
        with subtests.test(line=line):
            asked = line if line.endswith(" --json") else f"{line} --json"
            assert json.loads(answer(asked).stdout)


def test_every_command_that_may_take_long_is_listed_with_what_it_shows() -> None:
    assert {line.split()[0] for line in STAGES} == COMMANDS.keys() - AT_ONCE


@pytest.mark.parametrize("line", STAGES)
def test_progress_is_shown_on_a_terminal(line: str, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(progress, "standard_error", lambda: Console(file=shown, force_terminal=True, width=WIDTH))
    with at_the_desk(desk):
        assert typed(f"loopyperf {line}").exit_code == 0
    stages = "|".join({stage for each in STAGES.values() for stage in each})
    assert list(dict.fromkeys(re.findall(stages, shown.getvalue()))) == STAGES[line]


@pytest.mark.parametrize("name", ["", *sorted(COMMANDS)])
def test_help_fits_the_terminal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    parts = getattr(COMMANDS[name], "commands", {}) if name else {}
    commands = [[name] if name else [], *([name, part] for part in parts)]
    for words in commands:
        lines = typed(f"loopyperf {shlex.join(words)} --help").stdout.splitlines()
        assert [line for line in lines if len(line) > WIDTH] == []


def test_the_list_of_commands_cuts_no_summary_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    for line in ("loopyperf --help", "loopyperf devices --help"):
        assert "..." not in typed(line).stdout.replace("[ARGS]...", "")
