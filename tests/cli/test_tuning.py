"""The commands ``tune``, ``measure`` and ``check``."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.runner import run

KERNELS = """
import loopy as lp
import numpy as np


def doubled(group=64, order="C"):
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "b[i] = 2*a[i]",
        [lp.GlobalArg("a,b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
"""
ON = ("--set", "n=64k", "--device", "nvidia-v100", "--model", "roofline")


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    (tmp_path / "kernels.py").write_text(KERNELS)
    return f"{tmp_path / 'kernels.py'}:doubled"


def test_tuning_without_a_backend_is_a_search(kernel: str):
    printed = run("tune", kernel, "--choose", "group=32,64,128", "--restrict", "group < 128", *ON)
    assert "2 points by prediction (n=65536) on nvidia-v100, model roofline: group=64 takes" in printed.stdout
    found = json.loads(run("tune", kernel, "--choose", "group=32,64", *ON, "--format", "json").stdout)
    assert found["choice"] == {"group": 64}
    assert run("tune", kernel, "--choose", "group=32,64", *ON, "--quiet").stdout == "group=64\n"


def test_tuning_measures_and_is_resumed(kernel: str, tmp_path: Path):
    pytest.importorskip("pyopencl")
    asked = ("tune", kernel, "--choose", "group=32,64", *ON, "--backend", "opencl", "--state", tmp_path / "state.jsonl")
    printed = run(*asked)
    assert "runs  predicted" in printed.stdout
    again = run(*asked)
    assert "measurement" in again.stdout.splitlines()[0]
    other = run("tune", kernel, "--choose", "group=32,128", *ON, *asked[-4:])
    assert "is the state of another space" in other.stderr


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--choose", "group=32", "--on", "cpu"), "give --backend too"),
        (("--choose", "group="), "choices must be Python literals or words, separated by commas, got 'group='"),
        (("--choose", "group=32", "--state", "state.jsonl"), "nothing is measured without backend="),
        (("--choose", "groups=32"), "cannot be called with the names of the space"),
        (("--choose", "group=32", "--restrict", "tile > 3"), "names 'tile'"),
    ],
)
def test_wrong_tuning_is_one_line(kernel: str, arguments: tuple[str, ...], error: str):
    printed = run("tune", kernel, *arguments, *ON)
    assert error in printed.stderr
    assert printed.exit_code in (1, 2)


def test_measured_time_is_beside_the_predicted_one(kernel: str):
    pytest.importorskip("pyopencl")
    found = json.loads(run("measure", kernel, *ON, "--format", "json").stdout)
    assert found["ratio"] == pytest.approx(found["predicted"] / found["seconds"])
    assert found["seconds"] <= found["median"]
    assert found["runs"] > 0


def test_check_fails_above_a_limit(kernel: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    asked = ("check", kernel, *ON)
    assert run(*asked, "--max", "1s").stdout.startswith("ok: loopy_kernel(n=65536) on nvidia-v100")
    junit = tmp_path / "junit.xml"
    failed = run(*asked, "--max", "1ns", "--junit", junit)
    assert failed.exit_code == 1
    assert failed.stdout.startswith("too slow: ")
    assert failed.stdout.count("\n") == 1
    assert f"::error file={kernel.rpartition(':')[0]}::" in failed.stderr
    suite = ElementTree.parse(junit).getroot()
    assert suite.get("failures") == "1"
    assert suite.find("testcase/failure") is not None


def test_check_compares_with_a_baseline(kernel: str, tmp_path: Path):
    baseline = tmp_path / "old.json"
    document = json.loads(run("estimate", kernel, *ON, "--format", "json").stdout)
    baseline.write_text(json.dumps(document))
    asked = ("check", kernel, *ON, "--baseline", baseline)
    assert "5 % above" in run(*asked).stdout
    baseline.write_text(json.dumps({**document, "seconds": document["seconds"] / 1.2}))
    assert run(*asked).exit_code == 1
    assert run(*asked, "--fail-if-slower", "25%").exit_code == 0
    baseline.write_text(json.dumps({**document, "device": "nvidia-h200"}))
    assert "device is 'nvidia-h200', not 'nvidia-v100'" in run(*asked).stderr
    assert "give --max or --baseline" in run("check", kernel, *ON).stderr
    assert "e.g. 50us" in run("check", kernel, *ON, "--max", "50").stderr
