"""Aspects that models declare: the table of the documentation, and whether results depend on them."""

import re
from dataclasses import replace
from pathlib import Path

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.description import Device
from loopyperf.device.parts import Scheduling, SharedPipeline
from loopyperf.models.catalog import DEVICE_MODELS as OF_DEVICE
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.models.workload import ASPECTS, Aspect, Lambdas, TwoPipelines, Workload
from loopyperf.stages.timing import timed_program
from tests import sample_and_all
from tests.kernels import floats, make_kernel
from tests.models.analytic_models import MODELS as RUNS

DOCUMENT = Path(__file__).parents[2] / "docs" / "models.md"


def plain(
    independent: float = 0, ilp: float = 1, computing: float = 18, memory: float = 440, barriers: float = 0,
    group: int = 2, limit: float = 10,
) -> tuple[Workload, TwoPipelines]:  # fmt: skip
    workload = Workload(40, 10, independent_compute=independent, ilp=ilp, barriers=barriers, warps_per_group=group)
    return workload, TwoPipelines(Lambdas(1, computing), Lambdas(4, memory), issue_limit=limit)


# Changes of one aspect each. Barriers are part of the latency of a graph, which plain numbers do not include.
CHANGES: dict[Aspect, tuple[tuple[Workload, TwoPipelines], tuple[Workload, TwoPipelines]]] = {
    "ILP": (plain(), plain(independent=20, ilp=2)),
    "latency of computation": (plain(), plain(computing=30)),
    "latency of memory": (plain(), plain(memory=700)),
    "barriers": (plain(), plain(barriers=5)),
    "work-groups": (plain(barriers=5), plain(barriers=5, group=4)),
    "issue limit": (plain(), plain(limit=0.2)),
}
V100 = lpp.load_device("nvidia-v100")
NOT_IN_PLAIN_NUMBERS = {("volkov", "barriers")}


def test_models_depend_only_on_the_aspects_they_declare(subtests: pytest.Subtests):
    for aspect in CHANGES:
        for name in RUNS:
            with subtests.test(aspect=aspect, name=name):
                occupancy = np.array([1.0, 2, 4, 8, 16, 64])
                before, after = (RUNS[name](*demand, occupancy) for demand in CHANGES[aspect])
                seen = aspect in OF_DEVICE[name].sees and (name, aspect) not in NOT_IN_PLAIN_NUMBERS
                assert bool((before != after).any()) == seen


def test_documented_table_of_aspects_matches_the_models():
    rows = [
        "| | " + " | ".join(OF_DEVICE) + " |",
        *(
            f"| {aspect} | " + " | ".join("yes" if aspect in model.sees else "" for model in OF_DEVICE.values()) + " |"
            for aspect in ASPECTS
        ),
    ]
    text = DOCUMENT.read_text(encoding="utf-8")
    assert [row for row in rows if row not in text] == []


def test_documentation_has_aspects_and_equations_of_every_model():
    text = DOCUMENT.read_text(encoding="utf-8")
    section = text.partition("\n## What they see\n")[2].partition("\n## ")[0]
    assert [name for name in lpp.MODELS if not re.search(rf"\| {name} \||^- `{name}`", section, re.MULTILINE)] == []
    linked = re.findall(r"^\| (`.*`) \|.*\| \[`\w+\.py`\]\(.*\.md.*\) \|$", text, re.MULTILINE)
    assert sorted(name for row in linked for name in row.strip("`").split("`, `")) == sorted(OF_DEVICE)


def sums(*steps: str) -> lp.TranslationUnit:
    """A load, *steps* and a store for each work-item."""
    knl = make_kernel(
        "{[i]: 0 <= i < 65536}", "\n".join(["for i", "<> x = a[i]", *steps, "end"]), floats("a,b", 65536), name="sums"
    )
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_dependences_change_pipeline_times_but_not_counts():
    units = (
        sums("<> s = x + 2", "<> t = s + 3", "<> u = t + 4", "b[i] = u + x"),
        sums("<> s = x + 2", "<> t = x + 3", "<> u = s + t", "b[i] = u + 4"),
    )
    chain, pair = ({name: count() for name, count in lpp.count(each).properties().items()} for each in units)
    assert chain == pair
    chain, pair = (busy_seconds(timed_program(lpp.Case(each, {}), device=V100)) for each in units)
    assert {name for name in chain if chain[name] != pair[name]} == {"latency"}
    assert chain["latency"] > pair["latency"]


# {{{ aspects of kernels: more than two pipelines, several warp classes, a scheduler


def seconds(name: str, knl: lp.TranslationUnit, device: Device = V100) -> float:
    return lpp.estimate(knl, device=device, model=name).seconds


def work(condition: str) -> lp.TranslationUnit:
    """Computation on two pipelines, with more iterations for the elements that satisfy *condition*."""
    knl = make_kernel(
        ["{[i]: 0 <= i < 65536}", "{[k]: 0 <= k < 64}", "{[h]: 0 <= h < 64}"],
        f"""
        <> x = a[i]
        <> y = sum(k, sqrt(x + k) + x*k)
        b[i] = y {{id=all}}
        if {condition}
            b[i] = y + sum(h, x/(h + 1)) {{id=some, dep=all}}
        end
        """,
        floats("a,b", 65536),
        name="work",
    )
    return lp.split_iname(knl, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_models_that_declare_it_distinguish_more_than_two_pipelines(subtests: pytest.Subtests):
    for name in OF_DEVICE:
        with subtests.test(name=name):
            # The sum is the same, but on one pipeline: a model with two pipelines predicts the same time.
            shared = (("sfu", SharedPipeline("alu", "made up, for this test")),)
            knl = work("i < 0")
            is_seen = seconds(name, knl, replace(V100, pipelines=shared)) != pytest.approx(seconds(name, knl), rel=1e-9)
            assert is_seen == ("more than two subsystems" in OF_DEVICE[name].sees)


@sample_and_all(3)
def test_models_that_declare_it_depend_on_divergent_warps(subtests: pytest.Subtests, step: int):
    for name in list(OF_DEVICE)[::step]:
        with subtests.test(name=name):
            # Every third group, so that each partition of a core has warps of both classes.
            none, some, every = (seconds(name, work(f"i % 192 < {share}")) for share in (0, 64, 192))
            assert (none < some < every) == ("divergent warps" in OF_DEVICE[name].sees)


def test_models_that_declare_it_depend_on_the_scheduler(subtests: pytest.Subtests):
    for name in OF_DEVICE:
        with subtests.test(name=name):
            # GPUMech has a model for each policy and ignores that of the device.
            knl, other = work("i < 0"), Scheduling("round-robin", "made up, for this test")
            if name.startswith("gpumech"):
                found = {seconds(each, knl) for each in ("gpumech-rr", "gpumech-gto")}
            else:
                found = {seconds(name, knl, replace(V100, scheduling=each)) for each in (V100.scheduling, other)}
            assert (len(found) > 1) == ("scheduler" in OF_DEVICE[name].sees)


# }}}
