"""The layers of CONTRIBUTING.md and the house style, read off the source by its syntax trees.

A module imports only from its own or an earlier layer. Every test here runs a finder that returns offences over the
whole tree; that the finders find anything is tested at the end.
"""

import ast
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "loopyperf"
LAYERS = (
    {
        "errors",
        "units",
        "assumptions",
        "hypertext",
        "sheet",
        "user_data",
        "files",
    },
    {"polyhedral"},
    {"kernel", "device"},
    {"counts"},
    {"properties"},
    {"idg"},
    {"memory"},
    {"compiler"},
    {"pipeline"},
    {"models"},
    {"measurement"},
    {"calibration"},
    {"predict"},
    {"oracle"},
    {"plots", "reports", "testing"},
    {"cli"},
    {"__main__"},
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
OF_THE_PACKAGE = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")
"""``__init__`` is the public face: it names everything and is in no layer"""
OF_THE_TREE = sorted(
    path
    for folder in ("loopyperf", "measurement_kernels", "test_kernels", "tests", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
)
NOT_AN_IDEA = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "tools"}

Offences = Callable[[ast.Module, str], Iterator[str]]
"""finds offences in a module, given its tree and its dotted name"""


def offences(find: Offences, paths: list[Path]) -> list[str]:
    """Return what *find* finds in the files, each offence with the file it is in."""
    return [
        f"{path.relative_to(ROOT)}: {offence}"
        for path in paths
        for offence in find(ast.parse(path.read_text(encoding="utf-8")), dotted_name(path))
    ]


def dotted_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


# {{{ finders


def imported_from_us(tree: ast.AST, module: str) -> Iterator[str]:
    """Yield the dotted name of every loopyperf module that *tree* imports from, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "loopyperf")
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = module.split(".")[: -node.level]
            yield from (".".join([*base, *filter(None, [node.module]), alias.name]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "loopyperf":
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of_later_layers(tree: ast.Module, module: str) -> Iterator[str]:
    own = module.split(".")[1]
    for imported in imported_from_us(tree, module):
        layer = imported.split(".")[1] if "." in imported else "the public face"
        if LEVEL.get(layer, len(LAYERS)) > LEVEL[own]:
            yield f"{own} imports {imported}"


def isl_polynomials(tree: ast.Module, module: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in {"QPolynomial", "PwQPolynomial", "card"}:
            yield f"line {node.lineno} uses {node.attr}"


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def imports_inside_functions(tree: ast.Module, module: str) -> Iterator[str]:
    for function in functions(tree):
        yield from (f"{function.name}() imports {name}" for name in imported_from_us(function, module))


def prints(tree: ast.Module, module: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield f"line {node.lineno} prints"


def terminal_libraries(tree: ast.Module, module: str) -> Iterator[str]:
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        yield from (f"imports {name}" for name in names if name.split(".")[0] in {"click", "rich", "argparse"})


def long_functions(tree: ast.Module, module: str) -> Iterator[str]:
    most = 60 if module.startswith("tests.") else 40
    for function in functions(tree):
        length = lines_of_body(function)
        if length > most:
            yield f"{function.name}() has {length} lines"


def lines_of_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of *function* without those of its signature and its docstring."""
    body = function.body if ast.get_docstring(function) is None else function.body[1:]
    return (body[-1].end_lineno or body[-1].lineno) - body[0].lineno + 1 if body else 0


# }}}


def test_every_module_belongs_to_a_layer():
    layers = {dotted_name(path).split(".")[1] for path in OF_THE_PACKAGE}
    assert layers <= set(LEVEL)
    assert {"errors", "kernel", "counts", "models", "oracle", "cli"} <= layers


def test_a_module_imports_only_from_its_own_or_earlier_layers():
    assert offences(imports_of_later_layers, OF_THE_PACKAGE) == []


def test_no_import_of_loopyperf_stands_inside_a_function():
    assert offences(imports_inside_functions, OF_THE_TREE) == []


def test_printing_belongs_to_the_command_line():
    rest = [path for path in OF_THE_PACKAGE if "cli" not in path.relative_to(PACKAGE).parts]
    assert offences(prints, rest) + offences(terminal_libraries, rest) == []


def test_isl_polynomials_belong_to_polyhedral():
    rest = [path for path in OF_THE_PACKAGE if "polyhedral" not in path.relative_to(PACKAGE).parts]
    assert offences(isl_polynomials, rest) == []


def test_bodies_of_functions_have_at_most_40_lines_and_of_tests_60():
    assert offences(long_functions, OF_THE_TREE) == []


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


OFFENDING = """
import loopyperf.cli.program
from loopyperf.predict import estimate
from ..calibration.fits import Fit
import click

def f():
    from loopyperf.errors import LoopyperfError
    print("done")
    isl.Set("{ [] }").card()
"""


@pytest.mark.parametrize(
    ("find", "found"),
    [
        (
            imports_of_later_layers,
            [
                "models imports loopyperf.cli.program",
                "models imports loopyperf.predict.estimate",
                "models imports loopyperf.calibration.fits.Fit",
            ],
        ),
        (imports_inside_functions, ["f() imports loopyperf.errors.LoopyperfError"]),
        (prints, ["line 9 prints"]),
        (terminal_libraries, ["imports click"]),
        (isl_polynomials, ["line 10 uses card"]),
    ],
)
def test_the_finders_find(find: Offences, found: list[str]):
    assert found == list(find(ast.parse(OFFENDING), "loopyperf.models.linear"))


@pytest.mark.parametrize(("module", "most"), [("loopyperf.units", 40), ("tests.test_layers", 60)])
def test_the_finder_of_long_functions_counts_lines_of_bodies(module: str, most: int):
    begin = 'def f(\n    a,\n):\n    """Return nothing.\n\n    Raise nothing.\n    """\n'
    assert list(long_functions(ast.parse(begin + "    x = 1\n" * most), module)) == []
    longer = ast.parse(begin + "    x = 1\n" * (most + 1))
    assert list(long_functions(longer, module)) == [f"f() has {most + 1} lines"]
    assert list(long_functions(ast.parse(begin), module)) == []
