"""Every script of benchmarks/ can be imported and does not use the result cache."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from loopyperf.stages.cache import cache_folder

ROOT = Path(__file__).parents[2]
FOR_PYTEST = {"conftest", "test_speed"}
SCRIPTS = sorted({path.stem for path in (ROOT / "benchmarks").glob("*.py")} - FOR_PYTEST)


def test_scripts_can_be_imported_and_have_a_docstring(subtests: pytest.Subtests):
    for name in SCRIPTS:
        with subtests.test(name=name):
            assert (import_module(name).__doc__ or "").strip()


def test_there_are_scripts():
    assert {"gpu_hour", "ranking", "titan_v_fit"} <= set(SCRIPTS)


SWITCHES = """
import os, sys
from importlib import import_module
for name in sys.argv[1:]:
    os.environ.pop("LOOPYPERF_CACHE", None)
    for known in [each for each in sys.modules if each.partition(".")[0] in ("parts", *sys.argv[1:])]:
        del sys.modules[known]
    import_module(name)
    print(name, os.environ.get("LOOPYPERF_CACHE"), "loopyperf" in sys.modules)
"""


def test_scripts_do_not_use_the_result_cache(tmp_path: Path):
    environment = {"PYTHONPATH": f"{ROOT / 'benchmarks'}:{ROOT}", "PATH": "", "HOME": str(tmp_path)}
    # Two scripts use only measurements or the simulator, whose results are not cached; one times commands with a cache.
    scripts = sorted({*SCRIPTS} - {"counted_kernels", "simulator_speed", "command_latency"})
    command = [sys.executable, "-c", SWITCHES, *scripts]
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == [f"{name} 0 True" for name in scripts]


def test_make_and_tests_do_not_use_the_result_cache():
    assert "export LOOPYPERF_CACHE = 0\n" in (ROOT / "Makefile").read_text()
    assert cache_folder() is None
