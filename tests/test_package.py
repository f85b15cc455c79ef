"""Contents of an installed loopyperf: the wheel is built, unpacked, and used from another folder."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from loopyperf.measurement.kernel_files import load_kernel_files

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the contents of the wheel; building it downloads hatchling unless that is installed."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *options, "--wheel-dir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True)
    (wheel,) = folder.glob("loopyperf-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run_elsewhere(installed: Path, folder: Path, code: str, *arguments: str) -> str:
    """Return what *code* prints in *folder*, with the installed loopyperf first on the path."""
    environment = {**os.environ, "PYTHONPATH": str(installed), "LOOPYPERF_DATA": str(folder / "own data")}
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def names(folder: Path, pattern: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob(pattern)}


@pytest.mark.parametrize("folder", ["measurement_kernels", "test_kernels", "fits"])
def test_wheel_contains_kernels_and_fits(installed: Path, folder: Path):
    edited = {name for pattern in ("*.py", "*.json", "*.md") for name in names(ROOT / folder, pattern)}
    assert edited
    assert edited == {
        name for pattern in ("*.py", "*.json", "*.md") for name in names(installed / "loopyperf" / folder, pattern)
    }


def test_wheel_contains_every_module_and_its_types(installed: Path):
    modules = names(ROOT / "loopyperf", "*.py")
    assert modules <= names(installed / "loopyperf", "*.py")
    assert {"py.typed", "__init__.pyi"} <= {path.name for path in (installed / "loopyperf").iterdir()}


def test_wheel_contains_the_device_catalog(installed: Path, tmp_path: Path):
    catalog = names(ROOT / "loopyperf" / "device" / "catalog", "*.toml")
    assert len(catalog) > 20
    assert catalog == names(installed / "loopyperf" / "device" / "catalog", "*.toml")
    code = "import loopyperf; print(loopyperf.load_device('nvidia-h200').cores)"
    assert run_elsewhere(installed, tmp_path, code) == "132\n"


def test_wheel_contains_the_templates_of_reports(installed: Path):
    template = names(ROOT / "loopyperf" / "explain" / "template", "*")
    assert {"page.html", "page.css", "page.js"} <= template
    assert template == names(installed / "loopyperf" / "explain" / "template", "*")


def test_wheel_contains_a_compiled_core_for_all_python_versions(installed: Path, tmp_path: Path):
    (wheel,) = installed.parent.glob("loopyperf-*.whl")
    assert re.search(r"-cp311-abi3-\w+\.whl$", wheel.name)
    code = "from loopyperf.pipeline.simulator import compiled_core; print(compiled_core().__file__)"
    assert run_elsewhere(installed, tmp_path, code).startswith(str(installed))


def test_build_without_compiler_fails_and_says_so(tmp_path: Path):
    if not importlib.util.find_spec("hatchling"):
        pytest.skip("only hatchling of this environment sees that there is no compiler")
    folder = tmp_path / "checkout"
    for name in ("loopyperf", "measurement_kernels", "test_kernels", "fits"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "hatch_build.py"):
        shutil.copy(ROOT / name, folder)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    environment = {**os.environ, "CC": "no-such-compiler"}
    run = subprocess.run([*command, str(folder)], capture_output=True, text=True, env=environment)
    assert run.returncode
    assert re.search(r"^ *loopyperf needs a C compiler", run.stderr + run.stdout, re.MULTILINE)
    assert "Traceback" not in run.stderr + run.stdout


def test_wheel_contains_only_the_package(installed: Path):
    assert {path.name.split("-")[0] for path in installed.iterdir()} == {"loopyperf"}


def test_bundled_folders_are_found_inside_the_package(installed: Path, tmp_path: Path):
    code = (
        "from loopyperf.device.device_library import bundled_fits\n"
        "from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files\n"
        "for name in ('measurement_kernels', 'test_kernels'):\n"
        "    print(bundled_folder(name), len(load_kernel_files(bundled_folder(name))))\n"
        "print(bundled_fits())\n"
    )
    package = installed / "loopyperf"
    edited = {name: len(load_kernel_files(ROOT / name)) for name in ("measurement_kernels", "test_kernels")}
    assert run_elsewhere(installed, tmp_path, code).splitlines() == [
        *(f"{package / name} {number}" for name, number in edited.items()),
        f"{package / 'fits'}",
    ]


def test_the_program_lists_the_bundled_fit(installed: Path, tmp_path: Path):
    code = "from loopyperf.cli import main; main()"
    listed = run_elsewhere(installed, tmp_path, code, "devices", "--json")
    assert str(installed / "loopyperf" / "fits" / "amd-r9-fury" / "linear.json") in listed
