"""Resource use by source line: it adds up to the utilization, which follows from bytes and instructions."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.vocabulary import ISSUE, START
from loopyperf.explain.review import LaunchReview
from tests.explain.pages.report_kernels import two_launches
from tests.kernels import doubled
from tests.slow_kernels import PLANTED

V100 = "nvidia-v100"
pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")


def reviews(knl: lp.TranslationUnit, **sizes: int) -> tuple[LaunchReview, ...]:
    (on,) = lpp.explain(knl, device=V100, models=["pipeline"], findings=False, **sizes).devices
    return on.diagnosis.launches


def stencil() -> lp.TranslationUnit:
    """Return sums of five neighbors; groups at the boundary do less work."""
    knl = lp.make_kernel(
        "{[i, j]: 1 <= i, j < n - 1}",
        "out[i, j] = a[i, j] + a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1]",
        assumptions="n >= 18",
        name="stencil",
        lang_version=(2018, 2),
    )
    knl = lp.add_dtypes(knl, {"a": np.float64})
    knl = lp.split_iname(knl, "i", 16, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", 16, outer_tag="g.0", inner_tag="l.0")


def test_shares_of_lines_add_up_to_the_utilization():
    kernels = [(build(), sizes) for build, sizes in PLANTED.values()]
    for knl, sizes in (*kernels, (two_launches(), {"n": 2**20}), (stencil(), {"n": 1026})):
        for review in reviews(knl, **sizes):
            shares = dict.fromkeys(review.utilization, 0.0)
            for each in review.work:
                shares[each.resource] += each.share
            assert shares == pytest.approx(
                {**review.utilization, START: 0.0} if START in shares else review.utilization
            )


def test_instructions_match_the_profiler_counter():
    (review,) = reviews(doubled(group=64), n=2**20)
    counted = lpp.counters(doubled(group=64), n=2**20, device=V100)
    issued = sum(each.instructions for each in review.work if each.resource == ISSUE)
    assert issued == pytest.approx(counted["smsp__inst_executed.sum"])
    # 2^20 elements, 32 per warp: a load and a store of each.
    accesses = {each.access: each.instructions for each in review.work if each.access and each.resource == ISSUE}
    assert accesses == {"load a": 2**15, "store b": 2**15}


def test_dram_utilization_matches_its_bytes_where_groups_differ():
    (review,) = reviews(stencil(), n=4098)
    bandwidth = lpp.roofline(stencil(), n=4098, device=V100).bandwidths["DRAM"]
    # The last groups of the core that ends last are at the boundary and do less work than the mean.
    busy = review.traffic.moved["DRAM"] / bandwidth
    assert review.utilization["DRAM"] * review.seconds == pytest.approx(busy, rel=0.01)
