"""Tests of shell completion, enabled as the command reference describes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopyperf.cli.command_table import program
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
        ("loopyperf estimate mat", ["compopt -o default", ""]),
        ("loopyperf calibrate --kernels my", ["compopt -o default", ""]),
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
        ("loopyperf calibrate --backend c", ["cuda"]),
        ("loopyperf estimate matmul.py:tiled --backend o", ["opencl"]),
        ("loopyperf train archive.jsonl --base s", ["sampled"]),
        ("loopyperf calibrate --backend =", ["cuda", "opencl"]),
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
        "loopyperf estimate matmul.py:tiled --fit mat",
        "loopyperf report matmul.py:tiled --fit mat",
        "loopyperf rank tiles.py:variants --fit mat",
        "loopyperf validate --from-archive mat",
        "loopyperf train mat",
        "loopyperf trace matmul.py:tiled -o mat",
        "loopyperf devices show mat",
        "loopyperf estimate matmul.py:tiled --device mat",
    ]:
        with subtests.test(words=words):
            assert completions(words) == ["file,mat"]


def test_completion_ignores_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "file"))
    assert completions("loopyperf estimate matmul.py:tiled --device amd") == ["file,amd"]
