"""Every script of benchmarks/ can be started: what it asks of the library, and of the other scripts, is there."""

from importlib import import_module
from pathlib import Path

import pytest

FOR_PYTEST = {"conftest", "test_speed"}
SCRIPTS = sorted({path.stem for path in (Path(__file__).parents[2] / "benchmarks").glob("*.py")} - FOR_PYTEST)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_imported_and_says_what_it_is_for(name: str):
    assert (import_module(name).__doc__ or "").strip()


def test_there_are_scripts():
    assert {"gpu_hour", "ranking", "titan_v_fit"} <= set(SCRIPTS)
