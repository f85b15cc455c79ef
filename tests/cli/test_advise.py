"""Tests of ``loopyperf advise``: the printed and the written recipes give the promised times."""

import json
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.cli.kernel_source import load_program
from loopyperf.errors import LoopyperfError
from tests.cli.runner import run
from tests.planted_kernels import PLANTED

V100 = "nvidia-v100"
FILE = "from tests.slow_kernels import {name} as build\nkernel = build()\n"
SIZES = ["--set", "n=512"]


@pytest.mark.parametrize(("name", "target"), [("build", "fixed.py"), ("kernel", "elsewhere/fixed.py")])
def test_emitted_module_returns_the_kernel_with_the_promised_time(tmp_path: Path, name: str, target: str):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"of_{name}.py").write_text(FILE.format(name="product"), encoding="utf-8")
    source, written = f"{tmp_path}/of_{name}.py:{name}", tmp_path / target
    answer = run("advise", source, *SIZES, "--device", V100, "--emit", str(written), "--json").stdout
    promised = json.loads(answer)["findings"][0]
    predicted = lpp.estimate(load_program(f"{written}:fixed"), n=512, device=V100, model="pipeline")
    assert predicted.seconds == promised["seconds"]
    assert promised["change"] in written.read_text(encoding="utf-8")


def test_combined_changes_help_more_than_each_alone():
    build, sizes = PLANTED["product"]
    advice = lpp.advise(build(), device=V100, combine=True, parameters=sizes)
    times = [each.seconds or 0.0 for each in advice.combined]
    assert 2 <= len(times) <= 4
    assert times == sorted(times, reverse=True)
    assert times[0] == advice.findings[0].seconds
    changed = lpp.estimate(advice.recipe.apply(build()), device=V100, model="pipeline", parameters=sizes)
    assert changed.seconds == times[-1]
    assert advice.recipe.source in str(advice)


def test_nothing_is_written_without_a_change(tmp_path: Path):
    build, sizes = PLANTED["reduction"]
    advice = lpp.advise(build(), device=V100, parameters=sizes)
    with pytest.raises(LoopyperfError, match="no change that Loopy can make"):
        advice.emit(tmp_path / "fixed.py", "kernels.py:build")
    assert not list(tmp_path.iterdir())
