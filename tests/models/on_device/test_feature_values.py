"""Features of kernels with values counted by hand: a stream of float32 in groups of 64 on a V100."""

from math import log, log1p

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.models.residual_regression import Features, busy_features
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
    """b[i] = *value*; array a has *length* times as many elements as b."""
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


def test_number_of_groups_and_work_per_group(stream: Features):
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
def test_sectors_and_lines_per_request(stride: int, load_sectors: int, load_lines: int):
    found = features(strided(stride)).told
    # Each load comes with a store of neighboring elements: 4 sectors, 1 line.
    assert found["sectors of a request"] == pytest.approx(log1p((load_sectors + 4) / 2))
    assert found["lines of a request"] == pytest.approx(log1p((load_lines + 1) / 2))
    assert found["sectors over fewest"] == pytest.approx(log1p((load_sectors / 4 + 1) / 2))


def test_intensities_count_the_instructions_of_a_warp(stream: Features):
    number = np.expm1(stream.told["instructions"])
    assert stream.told["compute intensity"] == pytest.approx(log1p((number - 2) / 2))
    # One multiplication for a load and a store.
    assert stream.told["floating-point intensity"] == pytest.approx(log1p(1 / 2))
    shares = {name: value for name, value in stream.amounts.items() if name.startswith("share of ")}
    assert sum(shares.values()) == pytest.approx(1)
    assert shares["share of f32 mul"] == pytest.approx(1 / number)
    assert shares["share of global load"] == shares["share of global store"] == pytest.approx(1 / number)


def test_independent_loads_are_parallel():
    alone, together = (
        features(written(" + ".join(f"a[i + {place}*n]" for place in range(terms)), terms)).told for terms in (1, 4)
    )
    # A load, then a store; four loads at once, then a store.
    assert alone["MLP"] == pytest.approx(log(1))
    assert together["MLP"] == pytest.approx(log((4 + 1) / 2))


def test_occupancy_and_rounds_of_groups(stream: Features):
    # 65,536 groups on 80 cores are up to 820 on a core; 32 groups of two warps fit on a core of 64 warps.
    assert stream.told["occupancy"] == pytest.approx(1)
    assert stream.told["warps at once"] == pytest.approx(log1p(64))
    assert stream.told["groups at once"] == pytest.approx(log1p(32))
    assert stream.told["runs"] == pytest.approx(log1p(820 / 32))
    assert stream.told["last run"] == pytest.approx(820 / 32 - 25)
    assert stream.told["share of cores"] == pytest.approx(65536 / (80 * 820))
    assert (stream.told["registers spilled"], stream.told["bank conflicts"]) == (0, 0)


def test_dram_traffic_passes_all_levels(stream: Features):
    assert stream.told["moved from DRAM"] == pytest.approx(1)
    assert stream.told["moved from L2"] == pytest.approx(1)
    # Groups with so little work take longest to start.
    assert stream.amounts["start over the busiest"] == pytest.approx(1)
    assert 0 < stream.amounts["L2 over the busiest"] < stream.amounts["DRAM over the busiest"] < 1


def test_pipeline_features_are_relative_to_the_busiest():
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


def test_features_without_a_device_come_from_graphs_and_counts():
    found = features(strided(1), None)
    assert found.told["sectors of a request"] == pytest.approx(log1p(4))
    assert "occupancy" not in found.told
