"""Names of the pipeline for accesses of local memory, in output and in files of fits."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.device_library import a_processor
from loopyperf.models.pipeline_shares import pipeline_shares
from loopyperf.models.timing import InstructionTimes
from loopyperf.models.workload import shown
from tests.profiles import timed_on

V100 = lpp.load_device("nvidia-v100")


def column_sums() -> lp.TranslationUnit:
    """Return sums over a small matrix whose columns all groups read: bound by the cache of the core."""
    arrays = [lp.GlobalArg("a", np.float32, shape="32, 64"), lp.GlobalArg("out", np.float32, shape="32*n"), ...]
    unit = lp.make_kernel(
        "{[g, l, k]: 0 <= g < n and 0 <= l < 32 and 0 <= k < 64}",
        "out[32*g + l] = sum(k, a[l, k])",
        arrays,
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def test_local_memory_and_l1_share_one_pipeline() -> None:
    timing = InstructionTimes(V100)
    assert timing.pipeline_of("local") == timing.pipeline_of("L1") == "load/store"


@pytest.mark.parametrize("slug", ["amd-mi210"])
def test_separate_local_memory_is_a_pipeline_of_its_own(slug: str) -> None:
    device = lpp.load_device(slug)
    assert not any(level.holds_local_memory for level in device.memory)
    assert InstructionTimes(device).pipeline_of("local") == "local memory"


@pytest.mark.parametrize("model", ["pipeline", "roofline", "volkov"])
def test_kernel_without_local_memory_is_not_bound_by_it(model: str) -> None:
    found = lpp.estimate(column_sums(), n=2**14, device=V100, model=model)
    assert "local" not in found.breakdown.by_property()
    assert "load/store" in found.breakdown.by_property()


def test_fits_keep_column_names_and_estimates_show_pipeline_names() -> None:
    kernel = timed_on(lpp.kernel_profile(column_sums(), n=2**14), V100)
    assert "local: global" in pipeline_shares(kernel)
    fit = lpp.fit([(column_sums(), {"n": n}, 1e-9 * n) for n in (2**12, 2**13, 2**14)], device="nvidia-v100")
    assert "local: global" in fit.weights
    properties = lpp.estimate(column_sums(), n=2**14, fit=fit).breakdown.by_property()
    assert ("load/store: global" in properties, "local: global" in properties) == (True, False)


def test_fits_of_cpus_keep_column_names() -> None:
    table = lp.TemporaryVariable("t", np.float32, shape=(32,), address_space=lp.AddressSpace.LOCAL)
    unit = lp.make_kernel(
        "{[g, l]: 0 <= g < n and 0 <= l < 32}",
        "t[l] = 2*a[g, l] {id=fill}\n... lbarrier {id=all, dep=fill}\nb[g, l] = t[31 - l] {dep=all}",
        [lp.GlobalArg("a, b", np.float32, shape="n, 32"), table, ...],
        lang_version=(2018, 2),
        assumptions="n >= 1",
    )
    unit = lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})
    processor = a_processor()
    assert InstructionTimes(processor).pipeline_of("local") == "local memory"
    graphs = lpp.kernel_profile(unit, n=2**14, warp_size=processor.warp_size)
    named = [name for name in pipeline_shares(timed_on(graphs, processor)) if name.startswith("lo")]
    assert named
    assert all(name.partition(":")[0] == "local" for name in named)


def test_shown_names_of_other_columns() -> None:
    assert [shown(name) for name in ("local: private", "L2", "latency")] == ["load/store: private", "L2", "latency"]
