"""Atomic updates: published times, orders of variants, and profiler counters derived by hand."""

from collections.abc import Mapping
from typing import Any

import loopy as lp
import numpy as np
import pytest
from loopy.types import AtomicNumpyType

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.idg.program import Opcode

GPU = "nvidia-rtx-3090"
CUDA = lp.CudaTarget()
OPENCL = lp.PyOpenCLTarget()


def grouped(statement: str, *arguments: Any, target: Any = CUDA, group: int = 256) -> lp.TranslationUnit:
    """Return a kernel that executes *statement* for each of n work-items ``i``."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        statement,
        [*arguments, lp.ValueArg("n", np.int32)],
        assumptions=f"n >= {group} and n mod {group} = 0",
        target=target,
        silenced_warnings=["write_race*"],
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def summed(dtype: Any = np.float32, target: Any = CUDA, index: str = "0", shape: str = "1") -> lp.TranslationUnit:
    """Return a sum of x by one atomic update per work-item."""
    return grouped(
        f"out[{index}] = out[{index}] + x[i] {{atomic}}",
        lp.GlobalArg("x", dtype, shape="n"),
        lp.GlobalArg("out", dtype, shape=shape, for_atomic=True),
        target=target,
    )


def histogram(bins: int, target: Any = CUDA) -> lp.TranslationUnit:
    """Return a histogram by atomic updates of global memory."""
    return grouped(
        "out[k[i]] = out[k[i]] + 1 {atomic}",
        lp.GlobalArg("k", np.int32, shape="n"),
        lp.GlobalArg("out", np.int32, shape=str(bins), for_atomic=True),
        target=target,
    )


def privatized(bins: int, target: Any = CUDA) -> lp.TranslationUnit:
    """Return a histogram by atomic updates of local memory, which each group adds to global memory."""
    knl = lp.make_kernel(
        f"{{[g, i, b, c]: 0 <= g < n//256 and 0 <= i < 256 and 0 <= b, c < {bins}}}",
        """
        for g
            own[b] = 0  {id=clear, atomic}
            ... lbarrier  {id=cleared, dep=clear}
            own[k[256*g + i]] = own[k[256*g + i]] + 1  {id=count, atomic, dep=cleared}
            ... lbarrier  {id=counted, dep=count}
            out[c] = out[c] + own[c]  {atomic, dep=counted}
        end
        """,
        [
            lp.GlobalArg("k", np.int32, shape="n"),
            lp.GlobalArg("out", np.int32, shape=str(bins), for_atomic=True),
            lp.TemporaryVariable(
                "own", AtomicNumpyType(np.dtype(np.int32)), (bins,), address_space=lp.AddressSpace.LOCAL
            ),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 256 and n mod 256 = 0",
        target=target,
        silenced_warnings=["write_race*"],
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, "g:g.0, i:l.0, b:l.0, c:l.0")


def tree() -> lp.TranslationUnit:
    """Return partial sums of 640 groups."""
    knl = lp.make_kernel(
        "{[b, t, q]: 0 <= b < 640 and 0 <= t < 256 and 0 <= q < n//163840}",
        "out[b] = sum(t, sum(q, x[163840*q + 256*b + t]))",
        [lp.GlobalArg("x", np.float32, shape="n"), lp.GlobalArg("out", np.float32, shape="640"), ...],
        assumptions="n >= 163840 and n mod 163840 = 0",
        target=CUDA,
        lang_version=(2018, 2),
    )
    return lp.tag_inames(knl, "b:g.0, t:l.0")


def seconds(
    program: lp.TranslationUnit, n: int, device: str = GPU, typical: Mapping[str, Any] | None = None, **more: Any
) -> float:
    """Return the run time by the pipeline model."""
    return float(lpp.estimate(program, device=device, model="pipeline", typical=typical, n=n, **more))


def pi() -> lp.TranslationUnit:
    """Return RAJAPerf's Basic_PI_ATOMIC."""
    return grouped(
        """
        <> x = (i + 0.5)*dx
        out[0] = out[0] + dx/(1 + x*x)  {atomic}
        """,
        lp.ValueArg("dx", np.float64),
        lp.GlobalArg("out", np.float64, shape="1", for_atomic=True),
    )


def test_times_agree_with_published_ones(subtests: pytest.Subtests) -> None:
    one_bin = {"distinct(out)": 1}
    for name, predicted, published in [
        ("PI_ATOMIC on a V100 (RAJAPerf)", seconds(pi(), 2**23, "nvidia-v100"), 17.4e-3),
        ("a sum of floats (RTX 3070)", seconds(summed(), 163_840), 601e-6),
        ("a larger sum of floats (RTX 3070)", seconds(summed(), 2**23), 30.5e-3),
        ("a histogram of zeros (RTX 3070 Ti)", seconds(histogram(512), 2**24, typical=one_bin), 9.117e-3),
        # Billions of random bytes (yencal/gpu-histogram-optimization). The rate is that of another architecture.
        ("256 bins of random data (H100)", seconds(histogram(256), 2**30, "nvidia-h100"), 276.14e-3),
    ]:
        with subtests.test(name):
            assert 1 / 1.3 < predicted / published < 1.3


def test_order_of_variants_is_that_of_measurements() -> None:
    for n in (163_840, 163_840 * 51):
        ranking = lpp.rank({"atomic": summed, "tree": tree}, n=n, device=GPU, model="pipeline")
        assert ranking.order == ("tree", "atomic")
        assert any(note.startswith("atomic: atomic updates of out") for note in ranking.notes)
    for target in (CUDA, OPENCL):
        by_place = {"global": histogram(16, target), "local": privatized(16, target)}
        assert lpp.rank(by_place, n=2**22, device=GPU, model="pipeline").best == "local"


def test_updates_of_distinct_elements_are_not_slower_than_stores() -> None:
    added, stored = (
        summed(index="i", shape="n"),
        grouped("out[i] = out[i] + x[i]", lp.GlobalArg("x, out", np.float32, shape="n")),
    )
    assert seconds(added, 2**24) == pytest.approx(seconds(stored, 2**24), rel=0.1)


def test_time_grows_with_updates_of_one_element(subtests: pytest.Subtests) -> None:
    for target in (CUDA, OPENCL):
        few, many = (seconds(summed(target=target), n) for n in (2**16, 2**18))
        assert many / few == pytest.approx(4, rel=0.05)
    # A compare-exchange succeeds at most once per round trip to L2, of 250 cycles.
    assert seconds(summed(target=OPENCL), 2**16) >= 2**16 * 250 / 1.695e9
    # The 512 bins are in four slices: each executes a k-th of the updates if they are of k elements.
    for distinct in (1, 2, 4):
        with subtests.test(distinct=distinct):
            found = seconds(histogram(512), 2**22, typical={"distinct(out)": distinct})
            assert found == pytest.approx(2**22 / distinct / 1.695e9, rel=0.05)


def test_one_update_per_warp_of_integers_at_a_uniform_element() -> None:
    floats, integers = (seconds(summed(dtype), 2**22) for dtype in (np.float32, np.int32))
    assert floats / integers > 32  # one lane instead of 32, and a faster update


def test_unknown_collisions_make_the_time_a_lower_bound() -> None:
    unknown, known = (
        lpp.estimate(histogram(16), n=2**20, device=GPU, model="pipeline", typical=typical)
        for typical in (None, {"distinct(out)": 4})
    )
    assert unknown.time_in_words.startswith("at least ")
    assert any("typical={'distinct(out)': ...} sets their number" in note for note in unknown.notes)
    assert not known.left_out
    assert float(known) > float(unknown)
    for wrong in (0, 1.5):
        with pytest.raises(ParameterError, match=r"typical\['distinct\(out\)'\] must be a number of elements"):
            lpp.estimate(histogram(16), n=2**20, device=GPU, model="pipeline", typical={"distinct(out)": wrong})


def test_counters_of_reductions(subtests: pytest.Subtests) -> None:
    n = 163_840
    found = lpp.counters(summed(), n=n, device=GPU)
    for op, expected in (("ld", n // 32), ("st", 0), ("red", n // 32), ("atom", 0)):
        with subtests.test(op):
            assert found[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] == expected
    assert found["l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum"] == n // 32
    loop = lpp.counters(summed(target=OPENCL), n=n, device=GPU)
    assert loop["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"] == n // 32
    combined = lpp.counters(summed(np.int32), n=n, device=GPU)
    assert combined["l1tex__t_requests_pipe_lsu_mem_global_op_red.sum"] == n // 32


def test_reductions_read_and_write_dram() -> None:
    n = 2**24
    found = lpp.counters(summed(index="i", shape="n"), n=n, device=GPU)
    assert found["dram__sectors_read.sum"] == pytest.approx(2 * n / 8)
    left = 0.5 * 6 * 2**20 / 32  # sectors in L2 that are written back after the launch
    assert found["dram__sectors_write.sum"] == pytest.approx(n / 8 - left)


def test_reduction_replaces_load_and_addition() -> None:
    (launch,) = lpp.machine_program(summed(), n=2**16, device=GPU).launches
    kinds = [each.kind for each in launch.representative.graph.instructions]
    assert (kinds.count(Opcode.LOAD), kinds.count(Opcode.STORE), kinds.count(Opcode.ADD)) == (1, 1, 0)
