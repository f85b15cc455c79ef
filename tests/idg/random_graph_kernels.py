"""Random kernels for tests of graphs: their number, their seed, and the kernels that Loopy accepts.

To test other kernels, and more of them::

    LOOPYPERF_RANDOM_GRAPHS=500 LOOPYPERF_RANDOM_SEED=$(date +%s) \\
        .venv/bin/python -m pytest tests/idg/construction/test_random_graphs.py tests/memory/test_stride_classes.py
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
    """Return *test* for many random kernels, which are the same in each run."""
    chosen = settings(
        max_examples=KERNELS,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    return seed(SEED)(chosen(given(random_kernels())(test)))


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
