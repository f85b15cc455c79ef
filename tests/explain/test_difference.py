"""Tests of differences: their parts add up, and their sentences name the planted cause."""

import json
import re
from functools import cache
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import LoopyperfError, ParameterError, UnknownDeviceError
from tests.explain.pages.report_kernels import two_launches
from tests.kernels import doubled
from tests.slow_kernels import PLANTED

V100 = "nvidia-v100"
pytestmark = pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning")


@cache
def mended(name: str) -> lpp.Difference:
    """Return the difference from a slow kernel to its fixed version."""
    build, sizes = PLANTED[name]
    return lpp.diff(build(), build(mended=True), device=V100, **sizes)


@cache
def spoiled(name: str) -> lpp.Difference:
    """Return the difference from the fixed version to the slow kernel."""
    build, sizes = PLANTED[name]
    return lpp.diff(build(mended=True), build(), device=V100, **sizes)


def numbers(pairs: tuple[Any, ...]) -> dict[str, tuple[float, float]]:
    return {each.name: (each.before, each.after) for each in pairs}


def test_kernel_does_not_differ_from_itself():
    for name, (build, sizes) in PLANTED.items():
        same = lpp.diff(build(), build(), device=V100, **sizes)
        assert (same.why, same.ratio, same.before) == ("no difference", 1.0, same.after)
        assert same.report_text().tables == [], name
        assert all(each.change == 0 for each in same.lines)


def test_lines_add_up_to_the_difference():
    for name in PLANTED:
        found = mended(name)
        for side in ("before", "after"):
            seconds = sum(getattr(each, side) or 0.0 for each in found.lines)
            # Lines add up rows in another order: they differ by a few units in the last place.
            assert seconds == pytest.approx(getattr(found, side), rel=1e-12), name
        assert sum(each.change for each in found.lines) == pytest.approx(found.after - found.before, rel=1e-9)


def test_times_and_utilization_equal_those_of_explanations():
    build, sizes = PLANTED["product"]
    found = mended("product")
    for place, is_mended in enumerate((False, True)):
        knl = build(mended=is_mended)
        (on,) = lpp.explain(knl, device=V100, models=["pipeline"], findings=False, **sizes).devices
        assert found.compared[place].seconds == float(on.estimate)
        (review,) = on.diagnosis.launches
        shares = {on.diagnosis.words.resource(name): share for name, share in review.utilization.items()}
        busy = {each.name: (each.before, each.after)[place] for each in found.resources}
        assert busy == {name: share * review.seconds for name, share in shares.items()}
        assert {each.name: each.shares[place] for each in found.resources} == pytest.approx(shares)


def test_why_names_sectors_if_accesses_become_coalesced():
    # The 32 lanes of a warp store a column of float32 in 32 sectors, and a row of 128 B in 4 sectors. The sectors of a
    # that they load stay in L1 for the other columns, so that L2 is busy with the stores.
    assert mended("copy").why.endswith("4 instead of 32 sectors per store of out; now bound by DRAM")
    assert "L2 busy for" in mended("copy").why
    assert spoiled("copy").why.endswith("32 instead of 4 sectors per store of out")
    assert numbers(mended("copy").counters)["sectors per load of a"] == (32, 4)


def test_why_names_wavefronts_if_a_tile_is_padded():
    # With rows of 16 words, the 16 words of a column are in two banks, 8 in each; with rows of 17, in 16 banks.
    assert mended("product").why.startswith("3.7 times as fast: load/store (shared memory, L1) busy for")
    assert mended("product").why.endswith("1 instead of 8 wavefronts per load of b_fetch")
    assert spoiled("product").why.startswith("3.7 times as long: ")
    assert spoiled("product").why.endswith("8 instead of 1 wavefronts per load of b_fetch")
    assert numbers(mended("product").counters)["wavefronts per load of b_fetch"] == (8, 1)


def test_why_names_residents_and_registers_if_accumulators_are_fewer():
    found = mended("contraction")
    residents = numbers(found.residents)
    (warps, more), (registers, fewer) = residents["resident warps"], residents["registers per work-item"]
    assert more > warps
    assert fewer < registers
    assert (
        f"{more:g} instead of {warps:g} resident warps: {fewer} instead of {registers} registers per work-item"
        in found.why
    )
    assert "wait for memory" in found.why


def test_why_names_barriers_if_the_reduction_runs_once():
    assert "warps wait at barriers for" in mended("reduction").why
    # 8 warps in each of 2048 groups execute 9 barriers, in each of 64 iterations or once.
    assert mended("reduction").why.endswith("147,456 instead of 9.44 M barriers")
    assert spoiled("reduction").why.endswith("9.44 M instead of 147,456 barriers")
    build, sizes = PLANTED["reduction"]
    for device in ("nvidia-a100", "nvidia-h200"):  # their warps wait for memory about as long
        found = lpp.diff(build(), build(mended=True), device=device, **sizes)
        assert found.why.endswith("147,456 instead of 9.44 M barriers")


def test_why_names_the_grid_if_cores_run_out_of_groups():
    # 84 groups of 1,024 on 80 cores: four cores execute two groups, so cores are busy for (84/80)/2 of the time.
    assert "SMs idle for 7 % instead of 48 % of the time" in mended("tail").why
    assert mended("tail").why.endswith("672 instead of 84 groups, 128 instead of 1,024 work-items per group")


def test_two_devices_are_compared():
    build, sizes = PLANTED["copy"]
    found = lpp.diff(build(mended=True), device=[V100, "nvidia-a100"], **sizes)
    assert [each.device for each in found.compared] == [V100, "nvidia-a100"]
    assert found.labels == (V100, "nvidia-a100")
    bandwidths = [
        lpp.roofline(build(mended=True), device=each, **sizes).bandwidths["DRAM"] for each in (V100, "nvidia-a100")
    ]
    assert "DRAM busy for" in found.why
    assert f"{bandwidths[1] / 1e12:.3g} TB/s instead of {bandwidths[0] / 1e9:.3g} GB/s" in found.why
    arithmetic = lpp.diff(PLANTED["tail"][0](mended=True), device=[V100, "nvidia-a100"], **PLANTED["tail"][1])
    assert arithmetic.why.endswith("108 SMs at 1.41 GHz instead of 80 SMs at 1.38 GHz")


def test_devices_of_two_vendors_have_the_terms_of_their_vendors():
    build, sizes = PLANTED["product"]
    found = lpp.diff(build(mended=True), device=[V100, "amd-r9-fury"], **sizes)
    assert "LDS busy for" in found.why
    assert "load/store (shared memory, L1) busy for" in found.why
    assert found.why.endswith("on nvidia-v100")


def test_two_sizes_are_compared():
    build, _ = PLANTED["product"]
    found = lpp.diff(build(), n=(512, 1024), device=V100)
    assert found.labels == ("n=512", "n=1024")
    assert [dict(each.sizes) for each in found.compared] == [{"n": 512}, {"n": 1024}]
    # 8 times as many multiplications, hence loads: 1024³/32 of b_fetch.
    before, after = numbers(found.counters)["loads of b_fetch"]
    assert (before, after) == (512**3 / 32, 1024**3 / 32)
    assert found.why.endswith("33.6 M instead of 4.19 M loads of b_fetch")
    assert float(lpp.estimate(build(), n=512, device=V100, model="pipeline")) == found.before


def renamed(assigned: str, name: str) -> lp.TranslationUnit:
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"{assigned}[i] = 2*a[i] {{id={name}}}",
        assumptions="n >= 128 and n mod 128 = 0",
        name="twice",
        lang_version=(2018, 2),
    )
    return lp.split_iname(lp.add_dtypes(knl, {"a": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")


def test_lines_are_matched_by_id_and_then_by_assignee():
    for assigned, name, ids in (
        ("b", "one", [["one"]]),
        ("c", "one", [["one"]]),
        ("b", "other", [["one", "other"]]),
        ("c", "other", [["one"], ["other"]]),
    ):
        found = lpp.diff(renamed("b", "one"), renamed(assigned, name), n=2**20, device=V100)
        assert [re.findall("{id=(.*?)}", each.name) for each in found.lines if "{id=" in each.name] == ids


def test_unmatched_line_has_no_time_on_the_other_side():
    found = lpp.diff(renamed("b", "one"), renamed("c", "other"), n=2**20, device=V100)
    one, other = (each for each in found.lines if "{id=" in each.name)
    assert (one.after, other.before) == (None, None)
    assert (one.words[1], other.words[0]) == ("", "")
    assert None not in (one.before, other.after)


def test_launches_are_summed():
    once, twice = (lpp.diff(two_launches(), n=(2**19, each), device=V100) for each in (2**19, 2**20))
    assert once.why == "no difference"
    assert numbers(twice.counters)["loads of b"] == (2 * 2**19 / 32, 2 * 2**20 / 32)
    # Five accesses of 4 B: the first launch loads once, the second twice, and each stores once.
    assert numbers(twice.traffic)["L1"] == (20 * 2**19, 20 * 2**20)


def test_fit_gives_the_times_and_the_simulator_the_resources():
    found = lpp.diff(doubled(), n=(2**18, 2**20), device="amd-r9-fury", model="linear")
    assert found.model == "linear"
    assert found.after == float(lpp.estimate(doubled(), n=2**20, device="amd-r9-fury", model="linear"))
    assert sum(each.after or 0.0 for each in found.lines) == pytest.approx(found.after)
    assert "'linear' predicts only the run time" in found.notes[-1]


def test_invalid_arguments_are_refused():
    knl = doubled()
    for arguments, options, error, words in (
        ((knl,), {"n": 4096, "device": V100}, ParameterError, "nothing to compare; pass a second kernel"),
        ((knl,), {"n": 4096}, ParameterError, "nothing to compare"),
        ((knl, knl), {"n": (1, 2, 3), "device": V100}, ParameterError, "size 'n' must be one value or a pair, got 3"),
        ((knl, knl), {"n": 64, "device": [V100] * 3}, ParameterError, "expected one or two devices, got 3"),
        ((knl, knl), {"n": 64, "device": []}, ParameterError, "expected one or two devices, got 0"),
        ((knl,), {"n": 64, "device": [V100, "nobodys"]}, UnknownDeviceError, "no device called 'nobodys'"),
        ((knl,), {"n": (64, None), "device": V100}, LoopyperfError, "n"),
    ):
        with pytest.raises(error, match=words):
            lpp.diff(*arguments, **options)


def test_size_of_only_one_kernel_is_none_for_the_other():
    build, sizes = PLANTED["contraction"]
    found = lpp.diff(doubled(), build(mended=True), n=sizes["n"], m=(None, sizes["m"]), device=V100)
    assert [dict(each.sizes) for each in found.compared] == [{"n": sizes["n"]}, dict(sizes)]
    assert found.labels == ("doubled", "contraction")


def test_difference_is_json_serializable():
    record = json.loads(json.dumps(mended("product").to_dict()))
    assert (record["before"], record["after"]) == (mended("product").before, mended("product").after)
    assert record["ratio"] == pytest.approx(record["before"] / record["after"])
    assert [each["name"] for each in record["counters"]] == [each.name for each in mended("product").counters]
    assert record["lines"][0]["source"] == mended("product").lines[0].source == "launch of product"


def test_small_differences_are_counted_and_not_shown():
    found = mended("product")
    rows = len(found.lines) + len(found.resources) + sum(map(len, found.quantities.values()))
    tables = {table.headings[0]: table for table in found.report_text().tables}
    more = int(re.search(r"(\d+) rows? more: counters", str(found))[1]) if "more: counters" in str(found) else 0
    folded = rows - sum(len(table.rows) for table in tables.values()) - more
    assert f"{folded} rows with differences below 1 %" in str(found)
    shown = {row[0] for row in tables["source"].rows}
    assert shown == {each.name for each in found.lines if abs(each.change) >= 0.01 * found.before}
