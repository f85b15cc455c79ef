"""How fast counting and evaluating are, as ratios to Loopy's and islpy's ways within one run: seconds say nothing.

Both sides are taken as the best of several turns, by turns, so that a busy machine slows both. Measured on one core:
counting a loaded kernel 3.4 to 4.4 times as fast, loading it as well 2.5 times; evaluating at one size 17 times, in a
batch 55 times as fast as one by one. What is asserted leaves a factor of about two to other machines.
"""

import time
from collections.abc import Callable
from typing import Any

import loopy as lp
import numpy as np
import pytest
from small_schedules import prefetched_tiles

from loopyperf.kernel import Kernel, load_kernel
from loopyperf.properties.counted_kernel import count_properties
from loopyperf.properties.vector import PropertyVector

TURNS = 7


def seconds(action: Callable[[Any], object], argument: Any) -> float:
    """Return how long *action* takes."""
    start = time.perf_counter()
    action(argument)
    return time.perf_counter() - start


def ratio(slow: Callable[[Any], object], fast: Callable[[Any], object], fresh: Callable[[], Any]) -> float:
    """Return how many times *fast* is as fast as *slow*, each turn on something *fresh*."""
    turns = [(seconds(slow, fresh()), seconds(fast, fresh())) for _ in range(TURNS)]
    return min(turn[0] for turn in turns) / min(turn[1] for turn in turns)


@pytest.fixture(scope="module")
def linearized() -> lp.TranslationUnit:
    """A tiled matrix multiplication, scheduled: both sides need that, and it takes Loopy longer than either."""
    return lp.linearize(lp.preprocess_program(prefetched_tiles()))


@pytest.fixture(scope="module")
def properties(linearized: lp.TranslationUnit) -> PropertyVector:
    """Its properties."""
    return count_properties(load_kernel(linearized)).properties()


def loopys_maps(unit: lp.TranslationUnit) -> None:
    """Count operations, accesses and barriers."""
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


@pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")
def test_counting_is_faster_than_loopys_three_maps(linearized: lp.TranslationUnit) -> None:
    def fresh() -> lp.TranslationUnit:
        return linearized.with_kernel(linearized.default_entrypoint.copy())  # Loopy remembers projections by kernel

    def loaded() -> tuple[lp.TranslationUnit, Kernel]:
        return fresh(), load_kernel(fresh())

    def count(kernel: Kernel) -> None:
        """Count, compile, and evaluate once."""
        count_properties(kernel).properties().evaluate(n=16)

    assert ratio(lambda both: loopys_maps(both[0]), lambda both: count(both[1]), loaded) > 2
    assert ratio(loopys_maps, lambda unit: count(load_kernel(unit)), fresh) > 1.3


def test_evaluating_is_faster_than_islpys(properties: PropertyVector) -> None:
    polynomials = [properties[name].polynomial for name in properties if not name.startswith("global min")]

    def compiled(sizes: dict[str, int]) -> None:
        for _ in range(100):
            properties.evaluate(**sizes)

    def interpreted(sizes: dict[str, int]) -> None:
        for _ in range(100):
            for polynomial in polynomials:
                polynomial.eval_with_dict(sizes)

    assert ratio(interpreted, compiled, lambda: {"n": 1024}) > 5


def test_a_batch_is_faster_than_size_by_size(properties: PropertyVector) -> None:
    def one_by_one(sizes: np.ndarray) -> None:
        for size in sizes.tolist():
            properties.evaluate(n=size)

    def together(sizes: np.ndarray) -> None:
        properties.evaluate(n=sizes)

    assert ratio(one_by_one, together, lambda: 4 * np.arange(1, 10_001)) > 10
