"""Tests.

Loopy caches results in files that name functions by module, so tests have a cache of their own.
"""

import os
from pathlib import Path

import pytest

os.environ.setdefault("XDG_CACHE_HOME", str(Path(__file__).parents[1] / "build" / "cache"))


def sample_and_all(step: int) -> pytest.MarkDecorator:
    """Parametrize a test by *step*: the quick test uses every *step*-th case, the slow one all cases."""
    steps = [pytest.param(step, id="sample"), pytest.param(1, id="all", marks=pytest.mark.slow)]
    return pytest.mark.parametrize("step", steps)
