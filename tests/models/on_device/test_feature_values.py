"""Features of kernels whose numbers are counted by hand: a stream of float32 in groups of 64 on a V100."""

from math import log, log1p

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.residual_regression import Features
from loopyperf.models.static_features import busy_features
from loopyperf.predict.corrected import SeenKernel

N, GROUP = 2**22, 64
V100 = lpp.load_device("nvidia-v100")


def features(program: lp.TranslationUnit, device: lpp.Device | None = V100) -> Features:
    return SeenKernel(program, {"n": N}, device).features


@pytest.fixture(scope="module")
def stream() -> Features:
    return features(strided(1))


def strided(stride: int) -> lp.TranslationUnit:
    """b[i] = 3*a[stride*i]."""
    return written(f"3*a[{stride}*i]", stride)


def written(value: str, length: int) -> lp.TranslationUnit:
    """b[i] = *value*, of an array a that is so many times as long as b."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"b[i] = {value}",
        [
            lp.GlobalArg("a", np.float32, shape=f"{length}*n"),
            lp.GlobalArg("b", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="written",
        assumptions=f"n >= {GROUP} and n mod {GROUP} = 0",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", GROUP, outer_tag="g.0", inner_tag="l.0")


def test_groups_and_what_one_of_them_does(stream: Features):
    assert stream.told["groups"] == pytest.approx(log1p(N // GROUP))
    assert stream.told["warps of a group"] == pytest.approx(log1p(2))
    assert stream.told["work-items of a group"] == pytest.approx(log1p(GROUP))
    assert (stream.told["local memory"], stream.told["kinds of warps"]) == (0, pytest.approx(log(2)))
    for name in ("global load 32-bit stride 1", "global store 32-bit stride 1", "f32 mul"):
        assert stream.amounts[f"{name} in a group"] == pytest.approx(log1p(GROUP))


@pytest.mark.parametrize(
    ("stride", "load_sectors", "load_lines"),
    [(1, 4, 1), (2, 8, 2), (8, 32, 8), (32, 32, 32)],
)
def test_what_a_request_asks_of_memory(stride: int, load_sectors: int, load_lines: int):
    found = features(strided(stride)).told
    # A store of neighbouring elements beside each load: 4 sectors, 1 line.
    assert found["sectors of a request"] == pytest.approx(log1p((load_sectors + 4) / 2))
    assert found["lines of a request"] == pytest.approx(log1p((load_lines + 1) / 2))
    assert found["sectors over fewest"] == pytest.approx(log1p((load_sectors / 4 + 1) / 2))


def test_intensities_are_of_what_a_warp_executes(stream: Features):
    number = np.expm1(stream.told["instructions"])
    assert stream.told["compute intensity"] == pytest.approx(log1p((number - 2) / 2))
    # One multiplication for a load and a store.
    assert stream.told["floating-point intensity"] == pytest.approx(log1p(1 / 2))
    shares = {name: value for name, value in stream.amounts.items() if name.startswith("share of ")}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["share of f32 mul"] == pytest.approx(1 / number)
    assert shares["share of global load"] == shares["share of global store"] == pytest.approx(1 / number)


def test_loads_that_do_not_wait_for_each_other_are_parallel():
    alone, together = (
        features(written(" + ".join(f"a[i + {place}*n]" for place in range(terms)), terms)).told for terms in (1, 4)
    )
    # A load, then a store; four loads at once, then a store.
    assert alone["MLP"] == pytest.approx(log(1))
    assert together["MLP"] == pytest.approx(log((4 + 1) / 2))


def test_what_resides_on_a_core(stream: Features):
    # 65,536 groups on 80 cores are 820 on some; 32 groups of two warps fit on a core of 64.
    assert stream.told["occupancy"] == pytest.approx(1)
    assert stream.told["warps at once"] == pytest.approx(log1p(64))
    assert stream.told["groups at once"] == pytest.approx(log1p(32))
    assert stream.told["runs"] == pytest.approx(log1p(820 / 32))
    assert stream.told["last run"] == pytest.approx(820 / 32 - 25)
    assert stream.told["share of cores"] == pytest.approx(65536 / (80 * 820))
    assert (stream.told["registers spilled"], stream.told["bank conflicts"]) == (0, 0)


def test_what_comes_from_dram_passes_all_levels(stream: Features):
    assert stream.told["moved from DRAM"] == pytest.approx(1)
    assert stream.told["moved from L2"] == pytest.approx(1)
    # Groups that do so little are over as soon as they begin.
    assert stream.amounts["start over the busiest"] == pytest.approx(1)
    assert 0 < stream.amounts["L2 over the busiest"] < stream.amounts["DRAM over the busiest"] < 1


def test_pipelines_are_told_over_the_busiest():
    found = busy_features({"alu": 2e-6, "DRAM": 8e-6, "latency": 4e-6, "launches": 1.0})
    assert found.told == {
        "launches": pytest.approx(log(2)),
        "busiest pipeline": pytest.approx(log1p(8000)),
        "second pipeline": pytest.approx(0.5),
        "latency over the rest": pytest.approx(log1p(0.5)),
    }
    assert found.amounts == {
        "alu over the busiest": pytest.approx(0.25),
        "DRAM over the busiest": pytest.approx(1),
        "latency over the busiest": pytest.approx(0.5),
    }
    assert busy_features({"launches": 1.0}) == Features({})


def test_without_a_device_graphs_and_counts_are_told():
    found = features(strided(1), None)
    assert found.told["sectors of a request"] == pytest.approx(log1p(4))
    assert "occupancy" not in found.told
