"""Kernels with one planted problem: the first screen names it, and the printed recipe runs and keeps the promise."""

import warnings
from typing import Any

import numpy as np
import pytest

import loopyperf as lpp
from tests.explain.explanation.on_pocl import assert_same_results, inputs_of, results
from tests.planted_kernels import PLANTED

DEVICES = ("nvidia-v100", "nvidia-a100", "nvidia-h200")
CAUSES = {
    "copy": ("coalesce", "each load of a takes 32 sectors (minimum 4)"),
    "product": ("pad", "8-way bank conflicts of b_fetch"),
    "contraction": ("fewer values", "limited by registers: 120 values per work-item take 255 registers"),
    "reduction": ("reduce once", "limited by barriers: 9 barriers per iteration of k"),
    "tail": ("smaller groups", "limited by the tail effect: 84 groups on"),
    "diverging": ("divergence", "i % 2 splits each warp: 16.6 of 32 lanes are active"),
    "accidentally double": ("single precision", "c (float64) makes"),
    "contended": ("fewer atomics", "32 atomic updates of the same element follow one another"),
    "histogram": ("fewer atomics", "atomic updates of the same elements follow one another"),
    "nested sums": ("reduce once", "limited by barriers: 9 barriers per iteration of k"),
    "chained": (
        "partial sums",
        "bound by the latency of dependent instructions: each step of the reduction over k waits",
    ),
    "redundant": ("redundant work", "nothing depends on i_inner, i_outer: 1,024 work-items compute the same"),
    "transposed": ("transpose", "each store of b takes 32 sectors (minimum 4)"),
    "spilling": ("fewer values", "256 values per work-item take 255 registers, and 57 more spill"),
    "beyond the cache": ("cache blocks", "bound by DRAM bandwidth: DRAM moves 8.59 GB, 1.88 times the compulsory"),
    "short": ("fewer launches", "dominated by launch overhead"),
    "tiled": ("several results", "2 loads from shared memory per multiply-add"),
    "by rows": ("transpose", "each load of a takes 32 sectors (minimum 4)"),
    "swapped": ("wider rows", "each load of a takes 16 sectors (minimum 2)"),
    "angles": ("single precision", "(i / n), 6.2831853 make"),
    "accumulated": ("partial sums", "each step of the reduction over k waits"),
    "records": ("transpose", "each store of out takes 32 sectors (minimum 4)"),
    "planes": ("coalesce", "each load of a takes 32 sectors (minimum 4) and each store of out takes 32 sectors"),
    "filtered": ("local tile", "each group loads the same sectors of a"),
    "tiny groups": ("larger groups", "131,072 groups of 8 work-items fill 25 % of the lanes"),
}
"""by kernel: the kind of the finding that names the cause, and a part of the sentence on the cause"""
BY_HAND = ("reduction", "short")
"""kernels whose problem only their author can solve"""
SMALL = {
    "copy": {"n": 512},
    "product": {"n": 128},
    "contraction": {"n": 256, "m": 5},
    "tail": {"n": 2048, "m": 3},
    "diverging": {"n": 512, "m": 5},
    "accidentally double": {"n": 1024},
    "contended": {"n": 1024},
    "histogram": {"n": 2**15},
    "chained": {"n": 128, "m": 16},
    "redundant": {"n": 64, "m": 128},
    "transposed": {"n": 64},
    "spilling": {"n": 256, "m": 3},
    "beyond the cache": {"n": 512, "m": 16},
    "tiled": {"n": 128},
    "by rows": {"n": 256, "m": 64},
    "swapped": {"n": 128},
    "angles": {"n": 1024},
    "accumulated": {"n": 256, "m": 16},
    "records": {"n": 256},
    "planes": {"n": 32},
    "filtered": {"n": 1024},
    "tiny groups": {"n": 256},
}
"""sizes at which to execute the changed kernels, multiples of all that their changes assume"""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((name, device), marks=[pytest.mark.slow] if device != DEVICES[0] else [], id=f"{name}-{device}")
        for device in DEVICES
        for name in PLANTED
    ],
)
def advised(request):
    name, device = request.param
    build, sizes = PLANTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return name, device, lpp.advise(build(), device=device, parameters=sizes)


def test_first_screen_names_the_planted_problem(advised: Any):
    name, _, advice = advised
    kind, cause = CAUSES[name]
    assert cause in " ".join(advice.report_text().head.split())
    assert kind in [each.kind for each in advice.findings]


def test_printed_recipe_gives_the_promised_time(advised: Any):
    name, device, advice = advised
    build, sizes = PLANTED[name]
    found = next(each for each in advice.findings if each.kind == CAUSES[name][0])
    if name in BY_HAND:
        assert found.seconds is None
        return
    assert found.recipe.source in advice.report_text().text(100)
    names: dict[str, Any] = {}
    exec(found.recipe.source, names)
    changed = names["change"](build())
    estimate = lpp.estimate(changed, device=device, parameters=sizes)
    assert float(estimate) == pytest.approx(found.seconds, rel=1e-9)
    if advice.diagnosis.model != "pipeline":
        return  # a fit may have measured a faster device than is published
    roofline = lpp.estimate(changed, device=device, model="roofline", parameters=sizes)
    assert found.seconds >= roofline.seconds * (1 - 1e-9)


def test_printed_recipe_keeps_the_results(advised: Any):
    name, _, advice = advised
    for each in (each for each in advice.findings if each.recipe.calls):
        unit = PLANTED[name][0]()
        if name == "nested sums":  # Loopy has code for the changed kernel only
            sums = results(each.apply(unit), inputs := inputs_of(each.apply(unit), {"n": 4, "m": 5}))
            np.testing.assert_allclose(sums["out"], inputs["a"].sum(axis=(1, 2)), rtol=1e-4)
            return
        assert_same_results(unit, each.apply(unit), SMALL[name])
