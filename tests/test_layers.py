"""The rooms of docs/architecture.md and what importing costs.

``[tool.importlinter]`` in pyproject.toml lists the rooms, lowest last; ruff checks imports in functions and printing.
"""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loopyperf"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
LAYERS = [layer.split(" | ") for layer in reversed(CONTRACTS[0]["layers"])]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
OF_THE_TREE = sorted(
    path
    for folder in ("loopyperf", "measurement_kernels", "test_kernels", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
NOT_AN_IDEA = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "tools"}


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of *function* without those of its signature and its docstring."""
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1 if body else 0


def long_functions(path: Path) -> list[str]:
    most = 60 if path.is_relative_to(ROOT / "tests") else 40
    functions = (
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return [f"{path}: {each.name}() has {n} lines" for each in functions if (n := lines_of_body(each)) > most]


def test_rooms_import_only_rooms_below_them():
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_isl_polynomials_belong_to_polyhedral():
    names = {"QPolynomial", "PwQPolynomial", "card"}
    assert [
        f"{path}:{node.lineno} uses {node.attr}"
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(PACKAGE / "polyhedral")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    ] == []


def test_bodies_of_functions_have_at_most_40_lines_and_of_tests_60():
    assert [found for path in OF_THE_TREE for found in long_functions(path)] == []


def test_every_file_is_named_after_an_idea():
    assert [path for path in OF_THE_TREE if NOT_AN_IDEA & set(path.stem.split("_"))] == []


# {{{ what importing costs

WATCHED = """
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
    """Return the top-level packages that modules of loopyperf import for *statement*; what loopy imports is its own."""
    code = WATCHED.replace("{statement}", statement)
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_importing_loopyperf_loads_nothing_heavy():
    assert {"loopy", "numpy", "islpy", "scipy", "pyopencl"} & imported_by_us("") == set()


def test_estimating_needs_neither_scipy_nor_pyopencl():
    imported = imported_by_us("loopyperf.estimate, loopyperf.count, loopyperf.load_fit, loopyperf.devices")
    assert "loopy" in imported
    assert {"scipy", "pyopencl"} & imported == set()


# }}}
