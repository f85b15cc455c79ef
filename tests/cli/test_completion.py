"""Tests of shell completion, enabled as the command reference describes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopyperf.cli.command_table import program
from loopyperf.cli.completion import defined_in
from tests.documents import ROOT, SITE, blocks

PAGE = SITE / "reference" / "commands.md"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which ``loopyperf`` runs this package."""
    script = tmp_path / "loopyperf"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m loopyperf "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def documented(name: str) -> str:
    """Return the line of the reference that enables completion in the shell *name*."""
    (line,) = [block.text.strip() for block in blocks(PAGE) if f"{name}_source" in block.text]
    return line


def bash_completions(words: str, shell: dict[str, str]) -> list[str]:
    """Return bash's completions of the last of *words*, preceded by the options passed to ``compopt``."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    commands = (
        f'compopt() {{ echo compopt "$@"; }}\n{documented("bash")}\n'
        f"COMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}\n"
        '_loopyperf_completion loopyperf\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run([bash, "-c", commands], env=shell, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("loopyperf est", ["estimate"]),
        (f"loopyperf estimate {ROOT}/docs/tutorial/matmul.py : ti", ["tiled"]),
        ("loopyperf estimate mat", ["compopt -o default", ""]),
        ("loopyperf calibrate --kernels my", ["compopt -o dirnames", ""]),
    ],
)
def test_bash_completes_words(words: str, completed: list[str], shell: dict[str, str]) -> None:
    assert bash_completions(words, shell) == completed


def completions(words: str) -> list[str]:
    """Return what the program prints for bash: ``plain`` and a completion of the last word, or a type of path."""
    number = str(len(words.split()) - 1)
    environment = {"_LOOPYPERF_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": number}
    done = CliRunner().invoke(program, [], prog_name="loopyperf", env=environment)
    assert done.exception is None
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("loopyperf estimate matmul.py:tiled --mod", ["--model"]),
        ("loopyperf estimate matmul.py:tiled --model mwp", ["mwp-cwp", "mwp-cwp-corrected"]),
        ("loopyperf devices sh", ["show"]),
        ("loopyperf devices show nvidia-a1", ["nvidia-a100", "nvidia-a100-40"]),
        ("loopyperf trace --device nvidia-a1", ["nvidia-a100", "nvidia-a100-40"]),
        ("loopyperf coverage --device amd", ["amd-r9-fury"]),
        ("loopyperf calibrate --backend c", ["cuda"]),
        ("loopyperf estimate matmul.py:tiled --backend o", ["opencl"]),
        ("loopyperf train archive.jsonl --base s", ["sampled"]),
        ("loopyperf calibrate --backend =", ["cuda", "opencl"]),
        ("loopyperf train archive.jsonl --base = s", ["sampled"]),
        ("loopyperf train archive.jsonl --base=s", ["sampled"]),
        ("loopyperf --verb", ["--verbose"]),
        ("loopyperf devices --j", ["--json"]),
    ],
)
def test_names_and_options_are_completed(words: str, completed: list[str]) -> None:
    assert completions(words) == [f"plain,{name}" for name in completed]


def test_file_arguments_are_completed_by_the_shell(subtests: pytest.Subtests) -> None:
    for words in [
        "loopyperf estimate mat",
        "loopyperf estimate --set n = 64 mat",
        "loopyperf estimate matmul.py:tiled --fit mat",
        "loopyperf estimate matmul.py:tiled --fit = mat",
        "loopyperf report matmul.py:tiled --fit mat",
        "loopyperf rank tiles.py:variants --fit mat",
        "loopyperf coverage --fit mat",
        "loopyperf validate --from-archive mat",
        "loopyperf train mat",
        "loopyperf trace matmul.py:tiled -o mat",
        "loopyperf devices show mat",
        "loopyperf estimate matmul.py:tiled --device mat",
    ]:
        with subtests.test(words=words):
            assert completions(words) == ["file,mat"]


def test_folder_arguments_are_completed_by_the_shell() -> None:
    assert completions("loopyperf calibrate --kernels my") == ["dir,my"]


def test_completion_ignores_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "file"))
    assert completions("loopyperf coverage --device amd") == []
    assert completions("loopyperf estimate matmul.py:tiled --device amd") == ["file,amd"]


SOURCE = """
import nothing_of_that_name

def tiled(): pass
def tiled_more(): pass
def _tile(): pass
class Tile: pass
variants = {"tiled": tiled}
tiled = tiled
tiles: int = 16
raise SystemExit
"""
DEFINED = ["tiled", "tiled_more", "variants", "tiles"]


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        # with and without a colon as a word break, as in bash's default COMP_WORDBREAKS
        ("loopyperf estimate matmul.py", [f"matmul.py:{name}" for name in DEFINED]),
        ("loopyperf estimate matmul.py :", DEFINED),
        ("loopyperf rank matmul.py : v", ["variants"]),
        ("loopyperf explain matmul.py:tiled_", ["matmul.py:tiled_more"]),
        ("loopyperf explain matmul.py : _", []),
        ("loopyperf trace broken.py : t", []),
        ("loopyperf trace nowhere.py : t", []),
        ("loopyperf trace ~no-body/matmul.py : t", []),
        ("loopyperf trace ~/matmul.py : tiled_", ["tiled_more"]),
        ("loopyperf trace one:two.py : tiled_", ["tiled_more"]),
        ("loopyperf trace matmul.py : tiled --eve", ["--events"]),
        ("loopyperf trace --set n = 64 matmul.py : tiled_", ["tiled_more"]),
    ],
)
def test_names_in_a_kernel_file_are_completed_without_executing_it(
    words: str, completed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("matmul.py", "one:two.py"):
        Path(name).write_text(SOURCE, encoding="utf-8")
    Path("broken.py").write_text("def tiled(:\n", encoding="utf-8")
    assert completions(words) == [f"plain,{name}" for name in completed]


@pytest.mark.filterwarnings("error")
def test_completion_suppresses_syntax_warnings_of_kernel_files(tmp_path: Path) -> None:
    file = tmp_path / "matmul.py"
    file.write_text('def tiled(): return "\\d"\n', encoding="utf-8")
    assert defined_in(file) == ["tiled"]


@pytest.mark.parametrize(
    ("name", "registers"), [("zsh", "compdef _loopyperf_completion"), ("fish", "complete --no-files")]
)
def test_zsh_and_fish_get_their_own_scripts(name: str, registers: str, shell: dict[str, str]) -> None:
    assert f"_LOOPYPERF_COMPLETE={name}_source loopyperf" in documented(name)
    done = subprocess.run(
        ["loopyperf"],
        env={**shell, "_LOOPYPERF_COMPLETE": f"{name}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert registers in done.stdout
    assert done.stderr == ""
