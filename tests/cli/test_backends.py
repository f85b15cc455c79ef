"""Tests of ``--backend cuda`` for the commands that measure."""

import re
import sys

import pytest

from tests.cli.runner import run

MEASURING = ("calibrate", "microbenchmark", "validate")


@pytest.mark.parametrize("command", MEASURING)
def test_error_without_cupy_says_what_to_install(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused = run(command, "--backend", "cuda")
    assert refused.exit_code == 1
    assert re.fullmatch(
        r"Error: backend 'cuda' needs CuPy, .*: pip install 'loopyperf\[cuda\]', or .*\n", refused.stderr
    )


@pytest.mark.parametrize("command", MEASURING)
def test_help_names_the_backends(command: str) -> None:
    assert "opencl or cuda" in run(command, "--help").stdout
