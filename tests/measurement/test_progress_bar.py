"""Tests of the progress bar for Python functions: its counts, and its output in a notebook."""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call

import pytest

import loopyperf as lpp
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.campaign import Progress
from tests.kernels import doubled

pytest.importorskip("tqdm")
V100: dict[str, Any] = {"device": "nvidia-v100", "model": "roofline", "n": 4096}


def test_bar_counts_all_variants_of_a_ranking(capsys: pytest.CaptureFixture[str]) -> None:
    variants = {str(group): doubled(group=group) for group in (16, 32, 64)}
    with lpp.ProgressBar("ranking") as bar:
        lpp.rank(variants, progress=bar, **V100)
    shown = capsys.readouterr()
    assert "ranking: 100%" in shown.err
    assert "3/3" in shown.err
    assert shown.out == ""


def test_search_reports_its_progress() -> None:
    pytest.importorskip("optuna")
    for optimizer in ("exhaustive", "random"):
        counted = Mock()
        lpp.search(doubled_by, {"group": (16, 32, 64)}, optimizer=optimizer, progress=counted, **V100)
        assert counted.call_args_list == [call(1, 3), call(2, 3), call(3, 3)]


def doubled_by(group: int) -> Any:
    return doubled(group=group)


def test_stages_of_a_campaign_have_separate_counts(capsys: pytest.CaptureFixture[str]) -> None:
    with lpp.ProgressBar() as bar:
        bar(Progress(3, 40, "barriers", "group 64"))
        bar(Progress(40, 40, "barriers", "group 64"))
        bar(Progress(0, 0, "", "", "fitting"))
    shown = capsys.readouterr().err
    assert "measuring barriers:" in shown
    assert "40/40" in shown
    assert "fitting: : 0it" in shown.split("40/40")[-1]


def test_error_without_tqdm_has_an_install_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(LoopyperfError, match=r"pip install 'loopyperf\[notebooks\]'"):
        lpp.ProgressBar()


CELL = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parents[1])!r}, {str(Path(__file__).parents[2])!r}]
import loopyperf as lpp
from tests.kernels import doubled
with lpp.ProgressBar("ranking") as bar:
    lpp.rank({{"one": doubled()}}, n=64, device="nvidia-v100", model="roofline", progress=bar)
"""


def test_notebook_shows_the_bar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=120).execute(cleanup_kc=True)
    outputs = notebook.cells[0].outputs
    # Without widgets the output is text; a widget's text is its last state.
    assert "ranking" in str(outputs)
    assert "1/1" in str(outputs)
