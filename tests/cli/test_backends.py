"""The commands that measure take ``--backend cuda``, and say what is missing where CUDA is."""

import re
import sys

import pytest

from tests.cli.invoked import run

MEASURING = ("calibrate", "microbenchmark", "validate")


@pytest.mark.parametrize("command", MEASURING)
def test_without_cupy_a_command_says_what_to_install(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    refused = run(command, "--backend", "cuda")
    assert refused.exit_code == 1
    assert re.fullmatch(
        r"Error: backend 'cuda' needs CuPy, .*: pip install 'loopyperf\[cuda\]', or .*\n", refused.stderr
    )


@pytest.mark.parametrize("command", MEASURING)
def test_help_names_the_backends(command: str) -> None:
    assert "opencl or cuda" in run(command, "--help").stdout
