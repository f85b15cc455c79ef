"""What people are shown of the pipeline that executes accesses of local memory, and what files of fits call it."""

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.device_library import a_processor
from loopyperf.models.pipeline_shares import pipeline_shares
from loopyperf.models.timing import InstructionTimes
from loopyperf.models.workload import shown
from loopyperf.stages.stages import staged

V100 = lpp.load_device("nvidia-v100")


def column_sums() -> lp.TranslationUnit:
    """All groups read the columns of a small matrix: bound by the cache of the core."""
    arrays = [lp.GlobalArg("a", np.float32, shape="32, 64"), lp.GlobalArg("out", np.float32, shape="32*n"), ...]
    unit = lp.make_kernel(
        "{[g, l, k]: 0 <= g < n and 0 <= l < 32 and 0 <= k < 64}",
        "out[32*g + l] = sum(k, a[l, k])",
        arrays,
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def test_one_pipeline_is_for_local_memory_and_the_cache_that_it_is_part_of() -> None:
    timing = InstructionTimes(V100)
    assert timing.pipeline_of("local") == timing.pipeline_of("L1") == "load/store"


@pytest.mark.parametrize("slug", ["amd-mi210"])
def test_local_memory_of_its_own_is_called_what_it_is(slug: str) -> None:
    device = lpp.load_device(slug)
    assert not any(level.holds_local_memory for level in device.memory)
    assert InstructionTimes(device).pipeline_of("local") == "local memory"


@pytest.mark.parametrize("model", ["pipeline", "roofline", "volkov"])
def test_a_kernel_without_local_memory_is_not_said_to_be_bound_by_it(model: str) -> None:
    found = lpp.estimate(column_sums(), n=2**14, device=V100, model=model)
    assert "local" not in found.breakdown.by_property()
    assert "load/store" in found.breakdown.by_property()


def test_files_of_fits_keep_their_columns_and_answers_show_names() -> None:
    kernel = staged(lpp.kernel_profile(column_sums(), n=2**14), V100).timed
    assert "local: global" in pipeline_shares(kernel)
    fit = lpp.fit([(column_sums(), {"n": n}, 1e-9 * n) for n in (2**12, 2**13, 2**14)], device="nvidia-v100")
    assert "local: global" in fit.weights
    properties = lpp.estimate(column_sums(), n=2**14, fit=fit).breakdown.by_property()
    assert ("load/store: global" in properties, "local: global" in properties) == (True, False)


def test_files_of_fits_of_processors_keep_their_columns() -> None:
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
    named = [name for name in pipeline_shares(staged(graphs, processor).timed) if name.startswith("lo")]
    assert named
    assert all(name.partition(":")[0] == "local" for name in named)


def test_other_columns_are_called_alike() -> None:
    assert [shown(name) for name in ("local: private", "L2", "latency")] == ["load/store: private", "L2", "latency"]
