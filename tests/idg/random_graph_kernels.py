"""Random kernels for tests of graphs: their number, their seed, and the kernels that Loopy accepts.

To test other kernels, and more of them::

    LOOPYPERF_RANDOM_GRAPHS=500 LOOPYPERF_RANDOM_SEED=$(date +%s) \\
        .venv/bin/python -m pytest tests/idg/construction/test_random_graphs.py tests/memory/test_stride_classes.py
"""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, reject, seed, settings

from loopyperf.errors import KernelError
from loopyperf.kernel import Kernel, load_kernel
from tests.random_kernels import RandomKernel, random_kernels

KERNELS = int(os.environ.get("LOOPYPERF_RANDOM_GRAPHS", 30))
SEED = int(os.environ.get("LOOPYPERF_RANDOM_SEED", 1))

BATCH = 10
"""number of kernels of a seed; only the first batch is quick"""

Test = Callable[[RandomKernel], None]


def for_random_kernels(test: Test) -> Callable[[int], None]:
    """Return *test* for batches of random kernels, which are the same in each run."""
    chosen = settings(
        max_examples=BATCH,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )

    def on_batch(first: int) -> None:
        seed(first)(chosen(given(random_kernels())(test)))()

    first, *others = range(SEED, SEED + -(-KERNELS // BATCH))
    batches = [first, *(pytest.param(each, marks=pytest.mark.slow) for each in others)]
    return pytest.mark.parametrize("first", batches)(on_batch)


def loaded(description: RandomKernel) -> Kernel:
    """Return the kernel of *description*; skip one that Loopy rejects, or that has data-dependent conditions."""
    if description.share is not None:
        reject()
    try:
        unit = description.build()
    except Exception:  # transformations raise exceptions of isl, pymbolic and Python
        return reject()
    try:
        return load_kernel(unit)
    except KernelError:
        return reject()
