"""Kernels named ``FILE.py:FUNCTION``: which file that is, and that it is imported as any module is."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import kernels
import pytest
from click.testing import CliRunner, Result

from loopyperf.cli.program import program

KERNELS = str(Path(__file__).parents[1] / "kernels.py")
ON_FURY = ("--device", "amd-r9-fury")


@pytest.fixture(autouse=True)
def modules_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget the modules that a test brings."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    yield
    for name in {name for name in set(sys.modules) - before if "same" in name}:
        del sys.modules[name]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(program, [str(argument) for argument in arguments])


def test_a_kernel_file_is_imported_once():
    before = kernels.doubled
    assert run("estimate", f"{KERNELS}:doubled", *ON_FURY, "--set", "n=1024").exit_code == 0
    assert sys.modules["kernels"].doubled is before


def test_files_of_one_name_in_several_folders_are_told_apart(tmp_path: Path):
    source = Path(KERNELS).read_text()
    for name in ("first", "second", "third"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "same.py").write_text(source.replace('name="doubled"', f'name="{name}"'))
        told = run("estimate", f"{folder / 'same.py'}:doubled", *ON_FURY, "--set", "n=1024", "--json")
        assert json.loads(told.stdout)["kernel"] == name
