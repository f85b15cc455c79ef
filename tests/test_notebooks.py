"""Each notebook runs from the first to the last cell within the time limit, and shows what it showed when stored."""

import os
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat", reason="notebooks are run by the extra notebooks")
nbclient = pytest.importorskip("nbclient", reason="notebooks are run by the extra notebooks")
kernelspec = pytest.importorskip("jupyter_client.kernelspec")
manager = pytest.importorskip("jupyter_client.manager")

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SECONDS = 120
"""time limit of each notebook, which is how long a reader waits (wall clock)"""
NEEDS = {"02_counting": (), "03_calibrate": ("pyopencl",), "05_search": ("optuna", "matplotlib")}
"""required packages of the extras, if not only matplotlib"""
PLOTS = ("matplotlib",)
SLOW = {"03_calibrate", "05_search", "06_papers_figures"}
"""notebooks that only slow tests and `make notebooks` execute"""

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


class OwnKernel(kernelspec.KernelSpecManager):
    """Provides one kernel, this interpreter, regardless of the kernels in the user's home."""

    def get_kernel_spec(self, kernel_name: str) -> Any:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return kernelspec.KernelSpec(argv=argv, display_name=kernel_name, language="python")


@pytest.fixture
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep all files of Jupyter and IPython out of the user's home."""
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("POCL_MAX_PTHREAD_COUNT", "1")


def executed(path: Path) -> Any:
    """Return the notebook with its outputs; a cell that fails or exceeds the time limit raises.

    Loopy's order of loads depends on the order of strings in sets, so the notebook is executed with one seed of hashes,
    and without Loopy's cache, which may hold another order.
    """
    notebook = nbformat.read(path, as_version=4)
    own = manager.AsyncKernelManager(kernel_name="python3", kernel_spec_manager=OwnKernel())
    where = {"metadata": {"path": path.parent}}
    client = nbclient.NotebookClient(notebook, km=own, timeout=SECONDS, record_timing=False, resources=where)
    # We created the manager, but its process must end with the notebook.
    client.execute(cleanup_kc=True, env=os.environ | {"PYTHONHASHSEED": "0", "LOOPY_NO_CACHE": "1"})
    assert not own.has_kernel
    return notebook


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def text_of(output: Any) -> str:
    return output.get("data", output).get("text/plain") or output.get("text", "")


def texts(found: list[Any]) -> list[str]:
    """Return the texts of outputs that are not blank; on a busy machine, a line may come apart from its end."""
    return [text for text in (text_of(each).strip() for each in found) if text]


def test_notebooks_are_numbered_consecutively() -> None:
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{number:02}" for number in range(1, len(NOTEBOOKS) + 1)]
    assert len(NOTEBOOKS) >= 6


@every_notebook
def test_a_notebook_is_valid_and_stored_with_its_outputs(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert str(ROOT) not in path.read_text(encoding="utf-8")
    assert set(notebook.metadata) == {"kernelspec", "language_info"}


@every_notebook
def test_notebook_starts_with_its_title_and_has_enough_prose(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert cells[0].source.startswith("# ")
    prose = sum(cell.cell_type == "markdown" for cell in cells)
    assert prose >= len(cells) / 3


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in NOTEBOOKS],
    ids=lambda path: path.stem,
)
@pytest.mark.usefixtures("surroundings")
def test_a_notebook_runs(path: Path) -> None:
    needed = NEEDS.get(path.stem, PLOTS)
    for package in needed:
        pytest.importorskip(package)
    stored = outputs(nbformat.read(path, as_version=4))
    start = monotonic()
    found = outputs(executed(path))
    assert monotonic() - start < SECONDS
    assert [each for each in found if each.output_type == "error"] == []
    shown = {kind for each in found if "data" in each for kind in each.data}
    assert ("image/svg+xml" in shown) == ("matplotlib" in needed)
    assert "text/html" in shown or "image/svg+xml" in shown
    assert [each.text for each in found if each.get("name") == "stderr"] == []
    if path.stem not in SLOW:
        assert texts(found) == texts(stored)
