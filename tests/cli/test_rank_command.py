"""Tests of ``loopyperf rank``: the ranking of ``lpp.rank``, as text and as JSON."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopyperf as lpp
from tests.cli.runner import run

OPTIONS = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "roofline")
KEYWORDS = {"n": 4096, "device": "nvidia-titan-v", "model": "roofline"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a file with variants of a kernel, one of which no device can run."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    path = tmp_path / "groups.py"
    path.write_text(
        "from functools import partial\n\nfrom kernels import doubled\n\n"
        "variants = {f'groups of {group}': partial(doubled, group=group) for group in (1, 64, 4096)}\n"
        "too_large = {name: partial(doubled, group=4096) for name in ('wide', 'as wide')}\n"
        "none = {}\n\n\ndef pairs():\n    return list(variants.items())\n"
    )
    yield path
    sys.modules.pop("groups", None)


@pytest.mark.parametrize("name", ["variants", "pairs"])
def test_variants_are_a_mapping_or_returned_by_a_function(file: Path, name: str):
    printed = run("rank", f"{file}:{name}", *OPTIONS)
    assert printed.exit_code == 0
    ours = lpp.rank(sys.modules["groups"].variants, **KEYWORDS)
    assert printed.stdout.split() == str(ours).split()
    assert ours.order == ("groups of 64", "groups of 1")
    assert list(ours.failures) == ["groups of 4096"]


def test_json_equals_the_ranking(file: Path):
    printed = run("rank", f"{file}:variants", *OPTIONS, "--json")
    assert json.loads(printed.stdout) == lpp.rank(sys.modules["groups"].variants, **KEYWORDS).to_dict()


@pytest.mark.parametrize("form", ["", "--json"])
def test_status_is_1_if_no_variant_has_an_estimate(file: Path, form: str):
    printed = run("rank", f"{file}:too_large", *OPTIONS, *filter(None, [form]))
    assert (printed.exit_code, printed.stderr) == (1, "")
    if form:
        assert list(json.loads(printed.stdout)["failures"]) == ["wide", "as wide"]
    else:
        lines = " ".join(printed.stdout.split())
        assert lines.startswith("2 variants (n=4096) on nvidia-titan-v, model roofline: none could be predicted")
        assert lines.count("does not fit on a core") == 1
        assert "no prediction: wide, as wide: a group of 4096 work-items" in lines


def test_worker_processes_give_the_same_ranking(file: Path):
    arguments = ("rank", f"{file}:variants", *OPTIONS, "--time-limit", 120)
    assert run(*arguments, "--workers", 2).stdout == run(*arguments).stdout


def test_bounds_skip_variants_that_cannot_be_fastest(file: Path):
    bounds = ("--bounds", "throughput", "--bounds", "roofline")
    arguments = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "pipeline", *bounds)
    found = json.loads(run("rank", f"{file}:variants", *arguments, "--top", 1, "--json").stdout)
    assert list(found["estimates"]) == ["groups of 64"]
    assert list(found["beaten"]) == ["groups of 1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "no variants to rank"),
        ("doubled", "is a single kernel; give several values of an argument"),
    ],
)
def test_invalid_variants_are_refused_with_one_line(file: Path, name: str, words: str):
    refused = run("rank", f"{file}:{name}", *OPTIONS)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
