"""``loopyperf rank``: the same ranking as in Python, as text or as JSON."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopyperf as lpp
from tests.cli.invoked import run

ASKED = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "roofline")
QUESTION = {"n": 4096, "device": "nvidia-titan-v", "model": "roofline"}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file with variants of a kernel, one of which no device can run."""
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
def test_variants_are_a_mapping_or_what_returns_them(file: Path, name: str):
    printed = run("rank", f"{file}:{name}", *ASKED)
    assert printed.exit_code == 0
    ours = lpp.rank(sys.modules["groups"].variants, **QUESTION)
    assert printed.stdout.split() == str(ours).split()
    assert ours.order == ("groups of 64", "groups of 1")
    assert list(ours.failures) == ["groups of 4096"]


def test_all_of_it_is_in_json(file: Path):
    printed = run("rank", f"{file}:variants", *ASKED, "--json")
    assert json.loads(printed.stdout) == lpp.rank(sys.modules["groups"].variants, **QUESTION).to_dict()


@pytest.mark.parametrize("form", ["", "--json"])
def test_where_no_variant_has_an_estimate_the_status_says_so(file: Path, form: str):
    printed = run("rank", f"{file}:too_large", *ASKED, *filter(None, [form]))
    assert (printed.exit_code, printed.stderr) == (1, "")
    if form:
        assert list(json.loads(printed.stdout)["failures"]) == ["wide", "as wide"]
    else:
        lines = " ".join(printed.stdout.split())
        assert lines.startswith("2 variants (n=4096) on nvidia-titan-v, model roofline: none could be predicted")
        assert lines.count("does not fit on a core") == 1
        assert "no prediction: wide, as wide: a group of 4096 work-items" in lines


def test_processes_say_the_same(file: Path):
    asked = ("rank", f"{file}:variants", *ASKED, "--time-limit", 120)
    assert run(*asked, "--workers", 2).stdout == run(*asked).stdout


def test_bounds_spare_the_model_those_that_cannot_be_fastest(file: Path):
    bounds = ("--bounds", "throughput", "--bounds", "roofline")
    asked = ("--set", "n=4096", "--device", "nvidia-titan-v", "--model", "pipeline", *bounds)
    found = json.loads(run("rank", f"{file}:variants", *asked, "--top", 1, "--json").stdout)
    assert list(found["estimates"]) == ["groups of 64"]
    assert list(found["beaten"]) == ["groups of 1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none", "no variants to rank"),
        ("nothing", "has no 'nothing'; it defines: variants, too_large, none, pairs"),
        ("doubled", "is a single kernel; name a mapping in"),
    ],
)
def test_what_is_no_set_of_variants_is_refused_in_one_line(file: Path, name: str, words: str):
    refused = run("rank", f"{file}:{name}", *ASKED)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert words in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
