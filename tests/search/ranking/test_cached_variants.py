"""Variants with cached counts are ranked without Loopy's passes, and the limits on their groups are still checked."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.kernel.kernel import Group
from loopyperf.search import task
from loopyperf.stages.cache import CACHE
from tests.minimal_fit import FREE

PASSES = ("preprocess_program", "linearize", "infer_unknown_types")


def summed_by_groups(lanes: int = 64) -> lp.TranslationUnit:
    """out[i] = Σⱼ a[i,j] by trees: Loopy adds a local array for the partial sums."""
    knl = lp.make_kernel(
        f"{{[i, j]: 0 <= i < n and 0 <= j < {lanes}}}",
        "out[i] = sum(j, a[i, j])",
        [lp.GlobalArg("a", np.float32, shape=("n", lanes)), lp.GlobalArg("out", np.float32, shape="n"), ...],
        name="summed_by_groups",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, {"i": "g.0", "j": "l.0"})


@pytest.fixture
def no_passes(monkeypatch):
    """Return a function that clears the memory cache and makes each of Loopy's passes fail from then on."""

    def forbid() -> None:
        CACHE.clear()
        for name in PASSES:
            monkeypatch.setattr(lp, name, lambda *_, **__: pytest.fail("a pass of Loopy's"))

    return forbid


def test_cached_groups_include_local_memory_that_loopy_adds(make_fit, folder, no_passes, monkeypatch):
    expected = Group(work_items=64, local_memory=64 * 4)
    assert lpp.count(summed_by_groups()).kernel.group == expected
    no_passes()
    assert lpp.count(summed_by_groups()).kernel.group == expected
    seen: list[Group] = []
    monkeypatch.setattr(task, "check_fits", lambda group, device: seen.append(group))
    lpp.rank({"by trees": summed_by_groups()}, n=4096, fit=make_fit(weights=FREE, slug="nvidia-titan-v"))
    assert seen == [Group(work_items=64, local_memory=0), expected]
