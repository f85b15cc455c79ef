"""Groups of unequal work: distributed to cores in dispatch order, and more work takes no less time.

Arrays are aligned, and no two groups access the same elements. Otherwise, a group could find data in a cache that
another one has fetched, and be faster for it.
"""

import heapq
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.pipeline import simulator
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.polyhedral.expressions import Same
from loopyperf.stages.timing import timed_program
from tests import sample_and_all

DEVICE = replace(lpp.load_device("nvidia-titan-v"), launch_overhead=0.0)
CORES = 80
LAWFUL = (
    "roofline",
    "volkov",
    "transit",
    "mwp-cwp-corrected",
    "wfg-corrected",
    "gpumech-rr-corrected",
    "pipeline",
)
SLACK = 0.005
MAY_FALL = {"transit": 1, "mwp-cwp-corrected": 2, "wfg-corrected": 3, "pipeline": 5}
"""model -> number of two hundred kernels for which it may take less time with more work (docs/errata.md)"""


def timed(kernel: lp.TranslationUnit, **sizes: int) -> TimedProgram:
    return timed_program(lpp.Case(kernel, sizes), device=DEVICE)


def seconds(kernel: lp.TranslationUnit, model: str, **sizes: int) -> float:
    return float(DEVICE_MODELS[model].time(timed(kernel, **sizes)).seconds)


def grouped(domain: str, loops: str, instruction: str) -> lp.TranslationUnit:
    """Return a kernel with groups g and work-items i."""
    kernel = lp.make_kernel([domain, loops], instruction, name="groups", lang_version=(2018, 2))
    return lp.tag_inames(lp.add_dtypes(kernel, {"a": np.float32}), {"g": "g.0", "i": "l.0"})


HEAVY = grouped("{[g,i]: 0<=g<n and 0<=i<256}", "{[j]: 0<=j<2000}", "b[g,i] = sum(j, a[g,i]*j + 0.5f) {if=g==0}")
TRIANGLE = grouped("{[g,i]: 0<=g<n and 0<=i<256}", "{[j]: 0<=j<100*(g+1)}", "b[g,i] = sum(j, a[g,i]*j + 0.5f)")
SQUARE = grouped("{[g,i]: 0<=g<n and 0<=i<256}", "{[j]: 0<=j<m}", "b[g,i] = sum(j, a[g,i]*j + 0.5f)")


def partly_filled() -> lp.TranslationUnit:
    kernel = lp.make_kernel(
        ["{[i]: 0<=i<n}", "{[j]: 0<=j<2000}"], "b[i] = sum(j, a[i]*j + 0.5f)", lang_version=(2018, 2)
    )
    return lp.split_iname(lp.add_dtypes(kernel, {"a": np.float32}), "i", 1024, outer_tag="g.0", inner_tag="l.0")


@sample_and_all(3)
def test_heavy_group_beside_idle_ones_takes_as_long_as_alone(subtests: pytest.Subtests, step: int) -> None:
    for model in list(DEVICE_MODELS)[::step]:
        with subtests.test(model=model):
            alone = seconds(HEAVY, model, n=2)  # one of the two groups is idle
            for groups in (79, 80, 81, 1000, 10_000):
                assert seconds(HEAVY, model, n=groups) == pytest.approx(alone, rel=0.01)


@sample_and_all(3)
def test_one_more_element_does_not_reduce_the_time(subtests: pytest.Subtests, step: int) -> None:
    for model in list(DEVICE_MODELS)[::step]:
        with subtests.test(model=model):
            kernel = partly_filled()
            assert seconds(kernel, model, n=1025) >= (1 - SLACK) * seconds(kernel, model, n=1024)


@pytest.mark.slow
def test_triangle_takes_as_long_as_the_last_core_in_dispatch_order() -> None:
    each = [seconds(SQUARE, "roofline", n=1, m=100 * (group + 1)) for group in range(300)]
    for groups in (5, 80, 81, 200, 300):
        cores = [0.0] * CORES
        for duration in each[:groups]:
            heapq.heapreplace(cores, cores[0] + duration)
        assert seconds(TRIANGLE, "roofline", n=groups) == pytest.approx(max(cores), rel=0.01)


@pytest.mark.parametrize("model", ["volkov", "pipeline"])
def test_triangle_with_a_core_per_group_takes_its_heaviest_group(model: str) -> None:
    heaviest = seconds(SQUARE, model, n=1, m=100 * 60)
    assert seconds(TRIANGLE, model, n=60) == pytest.approx(heaviest, rel=0.02)


def test_triangle_takes_no_less_time_if_no_warp_has_a_program_of_its_own() -> None:
    # At n = 1023, one warp lacks a lane and is a class alone; at 1024, all warps are one class with mean executions.
    kernel = lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<=i}", "b[i] = sum(j, a[j])", assumptions="n >= 1", lang_version=(2018, 2)
    )
    kernel = lp.split_iname(lp.add_dtypes(kernel, {"a": np.float32}), "i", 64, outer_tag="g.0", inner_tag="l.0")
    fewer, more = (seconds(kernel, "pipeline", n=n) for n in (1023, 1024))
    assert fewer <= more < 1.03 * fewer


BAND = grouped("{[g,i]: 0<=g<n and 0<=i<256}", "{[j]: 0<=j<n and g-1<=j<=g+1}", "b[g,i] = sum(j, a[g,i] + 0.5f)")


@pytest.mark.parametrize("model", ["roofline", "pipeline", "mwp-cwp"])
def test_equal_programs_of_warp_classes_are_evaluated_once(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = timed(BAND, n=8)
    (launch,) = kernel.launches
    every = launch.programs.values()
    assert len(every) > len({each.graph.executed for each in every}), "a group near either end has as many passes"
    assert len({Same(each) for each in every}) == len({each.graph.executed for each in every})
    separate = replace(
        kernel, launches=(replace(launch, programs={n: replace(p) for n, p in launch.programs.items()}),)
    )
    run, runs = simulator.run, list[bool]()
    monkeypatch.setattr(simulator, "run", lambda *arguments, **options: runs.append(True) or run(*arguments, **options))
    merged, simulated = float(DEVICE_MODELS[model].time(kernel).seconds), len(runs)
    assert merged == pytest.approx(float(DEVICE_MODELS[model].time(separate).seconds), rel=1e-12)
    assert 2 * simulated < len(runs), "and none is simulated twice"


def test_many_groups_take_as_long_as_the_mean_group() -> None:
    half = grouped("{[g,i]: 0<=g<n and 0<=i<256}", "{[j]: 0<=j<m}", "b[g,i] = sum(j, a[g,i]*j + 0.5f) {if=g % 2 == 0}")
    for model in ("roofline", "volkov", "transit", "pipeline"):
        expected = seconds(SQUARE, model, n=400 * CORES, m=2000) / 2
        assert seconds(half, model, n=400 * CORES, m=2000) == pytest.approx(expected, rel=0.03)


# {{{ more work takes no less time


@dataclass(frozen=True)
class Drawn:
    """A random kernel with groups of unequal work."""

    groups: int
    warps: int
    """warps of a group"""
    iterations: int
    further: int
    """additional iterations of each group over the previous one"""
    left: int
    """idle warps of the last group"""
    active: int
    """active groups of every four"""
    instruction: str

    @property
    def kernel(self) -> lp.TranslationUnit:
        trips = f"{self.iterations} + {self.further}*g"
        condition = f" {{if=g % 4 < {self.active}}}" if self.active < 4 else ""
        domain = f"{{[g,i]: 0<=g<groups and 0<=i<{32 * self.warps} and {32 * self.warps}*g + i < lanes}}"
        return grouped(domain, f"{{[j]: 0<=j<{trips}}}", self.instruction + condition)

    @property
    def sizes(self) -> dict[str, int]:
        return {"groups": self.groups, "lanes": 32 * (self.groups * self.warps - self.left)}

    def with_more(self, random: Random) -> "Drawn":
        """Return it with more groups or more work."""
        more = [
            lambda: replace(self, groups=self.groups + random.choice([1, 1, 2, 40]), left=0),
            lambda: replace(self, groups=self.groups + 1),
            lambda: replace(self, iterations=self.iterations + random.choice([1, 8, 100])),
            lambda: replace(self, further=self.further + 1) if self.further else replace(self, iterations=500),
            lambda: replace(self, left=random.randrange(self.left)) if self.left else replace(self, iterations=500),
            lambda: replace(self, active=min(3, self.active + 1)) if self.active < 4 else replace(self, iterations=500),
        ]
        return random.choice(more)()


def drawn(random: Random) -> Drawn:
    warps = random.choice([1, 2, 4, 8, 16])
    shape = random.choice(["left", "further", "active", "left and active"])
    return Drawn(
        groups=random.choice([1, 2, 5, 40, 79, 80, 81, 100, 159, 160, 161, 320, 640, 641, 1000]),
        warps=warps,
        iterations=random.choice([1, 4, 20, 100, 400]),
        further=random.choice([1, 2, 8]) if "further" in shape else 0,
        left=random.randrange(warps) if "left" in shape else 0,
        active=random.choice([1, 2, 3]) if "active" in shape else 4,
        instruction=random.choice(
            [
                "b[g,i] = sum(j, a[g,i]*j + 0.5f)",
                "b[g,i] = sum(j, a[g,j,i])",
                "b[g,i] = sum(j, a[g,j,i]*a[g,j,i] + 1.5f*a[g,j,i])",
                "b[g,i] = sum(j, sin(a[g,j,i]))",
            ]
        ),
    )


def times(kernel: TimedProgram) -> Mapping[str, float]:
    """Return the seconds of each model that obeys the law, and of each pipeline in fits."""
    found = {model: float(DEVICE_MODELS[model].time(kernel).seconds) for model in LAWFUL}
    return {**found, **{f"column {name}": each for name, each in busy_seconds(kernel).items()}}


def broken(seed: int) -> dict[str, Any]:
    """Return model -> (kernel, kernel with more work, relative change) for violations by the random kernel *seed*."""
    random = Random(seed)
    before = drawn(random)
    after = before.with_more(random)
    here, more = (times(timed(each.kernel, **each.sizes)) for each in (before, after))
    changes = {name: more.get(name, 0.0) / each - 1 for name, each in here.items() if each}
    return {name: (before, after, change) for name, change in changes.items() if change < -SLACK}


def test_more_work_takes_no_less_time() -> None:
    for seed in range(12):
        assert not broken(seed)


@pytest.mark.slow
def test_exceptions_to_the_law_of_more_work_are_as_rare_as_documented() -> None:
    falls = Counter(name for seed in range(200) for name in broken(seed) if name in LAWFUL)
    assert all(number <= MAY_FALL.get(name, 0) for name, number in falls.items()), falls


# }}}
