"""The layers of docs/architecture.md, limits for functions and file names, and the cost of importing.

``[tool.importlinter]`` in pyproject.toml lists the layers, lowest last; ruff checks imports in functions and printing.
"""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loopyperf"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" | ") for layer in reversed(CONTRACTS[0]["layers"])]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SOURCES = sorted(
    path
    for folder in ("loopyperf", "measurement_kernels", "test_kernels", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "tools"}


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the number of lines of *function* without its signature and docstring."""
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1 if body else 0


def long_functions(path: Path) -> list[str]:
    limit = 60 if path.is_relative_to(ROOT / "tests") else 40
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [f"{path}: {each.name}() has {n} lines" for each in functions if (n := lines_of_body(each)) > limit]


def test_only_polyhedral_uses_isl_polynomials():
    uses = re.compile(r"\.(QPolynomial|PwQPolynomial|card)\b")
    paths = (path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(PACKAGE / "polyhedral"))
    assert [path for path in paths if uses.search(path.read_text(encoding="utf-8"))] == []


def test_functions_have_at_most_40_lines_and_tests_60():
    assert [found for path in SOURCES for found in long_functions(path)] == []


def test_no_file_has_a_vague_name():
    assert [path for path in SOURCES if VAGUE_NAMES & set(path.stem.split("_"))] == []


# {{{ cost of importing

LOG_IMPORTS = """
import builtins, sys

seen, plain_import = [], builtins.__import__

def watched(name, globals=None, *rest):
    if globals and str(globals.get("__name__")).partition(".")[0] == "loopyperf":
        seen.append(name.partition(".")[0])
    return plain_import(name, globals, *rest)

builtins.__import__ = watched
import loopyperf
{statement}
print(*seen)
"""


def imported_by_us(statement: str) -> set[str]:
    """Return the top-level packages that loopyperf's own modules import for *statement*."""
    code = LOG_IMPORTS.replace("{statement}", statement)
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_loopyperf_loads_nothing_heavy():
    assert {"loopy", "numpy", "islpy", "scipy", "pyopencl"} & imported_by_us("") == set()


def test_simulating_needs_neither_loopy_nor_islpy():
    assert {"loopy", "islpy"} & imported_by_us("import loopyperf.pipeline") == set()


def test_estimating_needs_neither_scipy_nor_pyopencl():
    imported = imported_by_us("loopyperf.estimate, loopyperf.count, loopyperf.load_fit, loopyperf.devices")
    assert "loopy" in imported
    assert {"scipy", "pyopencl"} & imported == set()


ESTIMATE = """
import sys
import loopyperf as lpp
from tests.kernels import doubled

lpp.estimate(doubled(), n=1024, device="nvidia-titan-v", model="pipeline")
print(*(name for name in sys.modules if name.startswith("loopyperf.")))
"""


def test_estimating_loads_no_module_that_measures_or_fits_or_belongs_to_another_model() -> None:
    run = subprocess.run([sys.executable, "-c", ESTIMATE], cwd=ROOT, capture_output=True, text=True, check=True)
    modules = {name.removeprefix("loopyperf.") for name in run.stdout.split()}
    assert "pipeline.simulator" in modules
    assert {
        name for name in modules if name.startswith(("measurement", "calibration")) or "literature" in name
    } == set()
    assert len(modules) <= 135, "an estimate needs few modules; import what only some models need on first use"


# }}}
