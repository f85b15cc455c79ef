"""Random kernels that have graphs: how many are drawn, from where on, and what Loopy makes of each.

Other kernels, and more of them::

    LOOPYPERF_RANDOM_GRAPHS=500 LOOPYPERF_RANDOM_SEED=$(date +%s) \\
        .venv/bin/python -m pytest tests/idg/test_random_graphs.py tests/idg/test_stride_classes.py
"""

import os
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, reject, seed, settings

from loopyperf.errors import KernelError
from loopyperf.kernel import Kernel, load_kernel
from tests.random_kernels import RandomKernel, random_kernels

KERNELS = int(os.environ.get("LOOPYPERF_RANDOM_GRAPHS", 30))
SEED = int(os.environ.get("LOOPYPERF_RANDOM_SEED", 1))

Test = Callable[[RandomKernel], None]


def for_random_kernels(test: Test) -> Callable[[], None]:
    """Return *test* of many random kernels, the same ones in each run."""
    chosen = settings(
        max_examples=KERNELS,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    return seed(SEED)(chosen(given(random_kernels())(test)))


def loaded(description: RandomKernel) -> Kernel:
    """Return the kernel of *description*; one that Loopy refuses, or that asks for shares, is passed over."""
    if description.share is not None:
        reject()
    try:
        unit = description.build()
    except Exception:  # a transformation lets through what isl, pymbolic and Python itself raise
        return reject()
    try:
        return load_kernel(unit)
    except KernelError:
        return reject()
