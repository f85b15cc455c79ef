"""Variants with cached counts are ranked without Loopy's passes, and the limits on their groups are still checked."""

from functools import partial

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.kernel.kernel import Group
from loopyperf.search import task
from loopyperf.stages import cache as recent
from tests.kernels import doubled
from tests.minimal_fit import FREE

PASSES = ("preprocess_program", "linearize", "infer_unknown_types")
VARIANTS = {f"groups of {group}": partial(doubled, group=group) for group in (16, 32, 64)}


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
        recent.clear_memory()
        for name in PASSES:
            monkeypatch.setattr(lp, name, lambda *_, **__: pytest.fail("a pass of Loopy's"))

    return forbid


@pytest.mark.parametrize("slug", ["made-up-1", "nvidia-titan-v"], ids=["an unknown device", "a described device"])
def test_fit_of_counts_ranks_cached_variants_without_loopy_passes(slug, make_fit, folder, no_passes):
    fit = make_fit(weights={**FREE, "f32 mul": 1e-9, "work-groups": 1e-9}, slug=slug)
    variants = VARIANTS | {"by trees": summed_by_groups}
    first = lpp.rank(variants, n=4096, fit=fit)
    no_passes()
    again = lpp.rank(variants, n=4096, fit=fit)
    assert not again.failures
    assert again.estimates == first.estimates


def test_uncached_variants_need_loopy_passes(make_fit, folder, no_passes):
    """Shows that the test above can fail."""
    no_passes()
    with pytest.raises(pytest.fail.Exception, match="a pass of Loopy's"):
        lpp.rank(VARIANTS, n=4096, fit=make_fit())


def test_cached_groups_include_local_memory_that_loopy_adds(make_fit, folder, no_passes, monkeypatch):
    expected = Group(work_items=64, local_memory=64 * 4)
    assert lpp.count(summed_by_groups()).kernel.group == expected
    no_passes()
    assert lpp.count(summed_by_groups()).kernel.group == expected
    seen: list[Group] = []
    monkeypatch.setattr(task, "check_fits", lambda group, device: seen.append(group))
    lpp.rank({"by trees": summed_by_groups()}, n=4096, fit=make_fit(weights=FREE, slug="nvidia-titan-v"))
    assert seen == [Group(work_items=64, local_memory=0), expected]
