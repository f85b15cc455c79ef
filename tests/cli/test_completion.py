"""Completion, as the reference of the commands says that it is switched on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import SITE, blocks

PAGE = SITE / "reference" / "commands.md"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which ``loopyperf`` is this one."""
    script = tmp_path / "loopyperf"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m loopyperf "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}


def documented(name: str) -> str:
    """Return the line by which the page switches completion on in the shell called *name*."""
    (line,) = [block.text.strip() for block in blocks(PAGE) if f"{name}_source" in block.text]
    return line


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("loopyperf est", ["estimate"]),
        ("loopyperf estimate matmul.py:tiled --mod", ["--model"]),
        ("loopyperf estimate matmul.py:tiled --model mwp", ["mwp-cwp", "mwp-cwp-corrected"]),
        ("loopyperf devices sh", ["show"]),
        ("loopyperf trace --device nvidia-a1", ["nvidia-a100", "nvidia-a100-40"]),
    ],
)
def test_bash_completes_what_is_begun(words: str, completed: list[str], shell: dict[str, str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    asked = (
        f"{documented('bash')}\nCOMP_WORDS=({words}); COMP_CWORD={len(words.split()) - 1}\n"
        '_loopyperf_completion loopyperf\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run([bash, "-c", asked], env=shell, capture_output=True, text=True, check=True)
    assert (done.stdout.splitlines(), done.stderr) == (completed, "")


@pytest.mark.parametrize(
    ("name", "registers"), [("zsh", "compdef _loopyperf_completion"), ("fish", "complete --no-files")]
)
def test_other_shells_are_given_a_script_of_theirs(name: str, registers: str, shell: dict[str, str]) -> None:
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
