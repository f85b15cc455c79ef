"""Tests of kernels given as ``FILE.py:FUNCTION``: finding, importing and checking them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.runner import run

KERNELS = str(Path(__file__).parents[1] / "kernels.py")
ON_FURY = ("--device", "amd-r9-fury")


@pytest.fixture(autouse=True)
def fresh_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove the modules that a test imports."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in {name for name in set(sys.modules) - before if "same" in name}:
        del sys.modules[name]


def test_kernel_file_is_imported_once():
    again = ("estimate", f"{KERNELS}:doubled", *ON_FURY, "--set", "n=1024")
    assert run(*again).exit_code == 0
    before = sys.modules["kernels"].doubled
    assert run(*again).exit_code == 0
    assert sys.modules["kernels"].doubled is before


def test_kernel_file_imports_modules_in_its_folder(tmp_path: Path):
    (tmp_path / "same_beside.py").write_text(Path(KERNELS).read_text(encoding="utf-8"), encoding="utf-8")
    file = tmp_path / "same_importing.py"
    file.write_text("from same_beside import doubled\n", encoding="utf-8")
    assert run("estimate", f"{file}:doubled", *ON_FURY, "--set", "n=1024").exit_code == 0


def test_files_of_one_name_in_several_folders_are_distinct(tmp_path: Path):
    source = Path(KERNELS).read_text()
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "same.py").write_text(source.replace('name="doubled"', f'name="{name}"'))
        result = run("estimate", f"{folder / 'same.py'}:doubled", *ON_FURY, "--set", "n=1024", "--json")
        assert json.loads(result.stdout)["kernel"] == name


def test_invalid_kernel_is_reported_before_an_unknown_device(tmp_path: Path):
    file = tmp_path / "same_wrong.py"
    file.write_text("NONE = None\n\ndef nothing():\n    pass\n\ndef number():\n    return 3\n", encoding="utf-8")
    for command, name in (("estimate", "nothing"), ("explain", "NONE"), ("compare", "number")):
        refused = run(command, f"{file}:{name}", "--set", "n=1024", "--device", "nobodys-device")
        what = "int" if name == "number" else "None (missing return statement?)"
        words = f"{file}:{name} must be a Loopy kernel, as loopy.make_kernel(...) returns it; got {what}"
        assert (refused.exit_code, refused.stderr) == (1, f"Error: {words}\n")


def test_error_for_an_unknown_name_lists_the_names_in_the_file(tmp_path: Path):
    file = tmp_path / "same_names.py"
    file.write_text(
        "import json\nfrom functools import partial\nfrom kernels import doubled\n\nsize = 16\nknl = doubled()\n"
        "def wide(): return doubled(group=64)\nby_name = {'wide': wide}\npairs = [('wide', wide)]\n"
        "narrow = partial(doubled, group=8)\n_hidden = {}\n",
        encoding="utf-8",
    )
    assert run("rank", f"{file}:nope", "--set", "n=64").stderr == (
        f"Error: {file} has no 'nope'; it defines: knl, wide, by_name, pairs, narrow\n"
    )
    (tmp_path / "same_nothing.py").write_text("size = 16\n", encoding="utf-8")
    refused = run("estimate", f"{tmp_path / 'same_nothing.py'}:nope", "--set", "n=64").stderr
    assert refused.endswith("has no 'nope'; it defines: no kernels, functions or variants\n")


def test_function_with_required_arguments_is_refused(tmp_path: Path):
    file = tmp_path / "same_needing.py"
    file.write_text("def needs(n, m=1, *rest, wide, **more): pass\n", encoding="utf-8")
    for command in ("estimate", "rank"):
        assert run(command, f"{file}:needs", "--set", "n=64").stderr == (
            f"Error: {file}:needs() needs arguments: n, wide; give --arg n=VALUE, or default values\n"
        )


def test_arguments_are_passed_to_the_builder():
    question = (f"{KERNELS}:doubled", *ON_FURY, "--set", "n=1k")
    seconds = [
        json.loads(run("estimate", *question, "--arg", f"group={group}", "--json").stdout)["seconds"]
        for group in (32, 64)
    ]
    ranked = json.loads(run("rank", *question, "--arg", "group=32,64", "--json").stdout)["estimates"]
    assert [ranked[f"group={group}"]["seconds"] for group in (32, 64)] == seconds
    assert seconds[0] != seconds[1]
    refused = run("explain", *question, "--arg", "group=32,64")
    assert refused.stderr == "Error: group must have one value here; `loopyperf rank` compares several\n"


def test_error_of_a_builder_has_its_own_line(tmp_path: Path):
    file = tmp_path / "same_failing.py"
    file.write_text("import json\n\ndef fails():\n    return json.loads('{')\n", encoding="utf-8")
    assert run("estimate", f"{file}:fails").stderr.startswith(f"Error: {file}:4: fails() failed with JSONDecodeError: ")


# {{{ output of kernel files

PRINTING = """
from functools import partial

from tests.kernels import doubled

print("imported")


def built(group=64):
    print(f"built {group}")
    return doubled(group=group)


variants = {f"groups of {group}": partial(built, group) for group in (32, 64)}
"""


@pytest.fixture
def printing(tmp_path: Path) -> Path:
    """Return a file that prints when it is imported and when its functions are called."""
    file = tmp_path / "same_printing.py"
    file.write_text(PRINTING, encoding="utf-8")
    return file


def test_output_of_a_kernel_file_goes_to_stderr(printing: Path):
    result = run("estimate", f"{printing}:built", "--set", "n=1024", *ON_FURY, "--json")
    assert (result.exit_code, result.stderr.splitlines()[:2]) == (0, ["imported", "built 64"])
    assert "built" not in json.dumps(json.loads(result.stdout))


@pytest.mark.parametrize("bounds", [(), ("--bounds", "throughput", "--top", 1)])
def test_output_of_variants_built_during_ranking_goes_to_stderr(bounds: tuple[object, ...], printing: Path):
    arguments = ("--set", "n=1024", "--device", "nvidia-v100", "--model", "roofline", *bounds)
    result = run("rank", f"{printing}:variants", *arguments, "--json")
    assert json.loads(result.stdout)["estimates"].keys() <= {"groups of 32", "groups of 64"}
    assert result.stderr.splitlines()[0] == "imported"
    assert set(result.stderr.splitlines()[1:]) == {"built 32", "built 64"}


def test_output_of_worker_processes_goes_to_stderr(printing: Path):
    arguments = ("rank", f"{printing}:variants", "--set", "n=1024", *ON_FURY, "--workers", "2", "--json")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(KERNELS).parent), str(Path(KERNELS).parents[1])]),
    }
    result = subprocess.run(
        [sys.executable, "-m", "loopyperf", *arguments], env=environment, capture_output=True, text=True
    )
    assert sorted(json.loads(result.stdout)["estimates"]) == ["groups of 32", "groups of 64"]
    # Both processes write to one pipe, so their lines may be interleaved.
    assert (result.stderr.count("imported"), result.stderr.count("built")) == (1, 2)


# }}}
