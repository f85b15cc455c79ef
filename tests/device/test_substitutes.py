"""Substitutes for missing device parameters: their sources and how they are scaled."""

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from loopyperf.device.description import LATENCY_FIELDS, AnyPart, Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED, a_processor
from loopyperf.device.lambdas import bytes_per_cycle, global_levels, level_latency
from loopyperf.device.parts import Substitute
from loopyperf.device.substitutes import MADE_OF, completed, relatives

DEVICES = {path.stem: load_description(path) for path in sorted(BUNDLED.glob("*.toml"))}
V100 = DEVICES["nvidia-v100"]
BASIC = (
    *((kind, dtype) for dtype in ("f16", "f32", "f64") for kind in ("add", "mul", "fma")),
    *((kind, dtype) for dtype in ("i32", "i64") for kind in ("add", "mul", "shift", "compare", "logic")),
    *(("compare", "f32"), ("compare", "f64"), ("special", "f32"), ("convert", "f32"), ("barrier", "")),
)

MINIMAL = """
schema = 1
name = "Mine"
vendor = "VENDOR"
architecture = "ARCHITECTURE"
TARGET
cores = { value = 40, unit = "cores", source = "me, today" }
clock = { value = 1.5, unit = "GHz", source = "me, today" }
[throughput]
f32 = { value = 128, unit = "results/cycle", source = "me, today" }
[memory.DRAM]
per = "device"
bandwidth = { value = 500, unit = "GB/s", source = "me, today" }
"""
"""the parameters that are never substituted"""


def part_with_only(part: AnyPart, is_kept: Callable[[str], bool]) -> AnyPart:
    """Return *part* with only the parameters whose full name satisfies *is_kept*."""
    names = (name for name, _ in part.known() if not is_kept(".".join(filter(None, (part.place, name)))))
    return replace(part, **dict.fromkeys(names))


def with_only(device: Device, is_kept: Callable[[str], bool]) -> Device:
    """Return *device* with only the parameters whose full name satisfies *is_kept*."""
    return replace(
        part_with_only(device, is_kept),
        limits=part_with_only(device.limits, is_kept),
        throughput=part_with_only(device.throughput, is_kept),
        memory=tuple(part_with_only(each, is_kept) for each in device.memory),
        instructions=tuple(
            each for each in (part_with_only(each, is_kept) for each in device.instructions) if each.statements
        ),
    )


def minimal_device(folder: Path, vendor: str, architecture: str, target: str = "") -> Device:
    given = f'target = "{target}"' if target else ""
    text = MINIMAL.replace("VENDOR", vendor).replace("ARCHITECTURE", architecture).replace("TARGET", given)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return load_description(folder / "mine.toml")


def assumed(device: Device) -> dict[str, Substitute]:
    """Return what is assumed of *device*, by the full names of the numbers."""
    parts = [(part, number) for part in completed(device).parts for number in part.known()]
    named = ((".".join(filter(None, (part.place, name))), quantity) for part, (name, quantity) in parts)
    return {name: quantity for name, quantity in named if isinstance(quantity, Substitute)}


def check_complete(device: Device) -> None:
    whole = completed(device)
    for kind, dtype in BASIC:
        assert whole.issue_latency(kind, dtype) > 0, (device.slug, kind, dtype)
        assert whole.completion_latency(kind, dtype) > 0, (device.slug, kind, dtype)
    for level in (*global_levels(whole), *(each for each in whole.memory if each.name == "local")):
        timed = level.name == "local" and whole.resting_on("completion", "load local", "b32")
        assert timed or level_latency(whole, level.name) > 0, (device.slug, level.name)
        assert timed or bytes_per_cycle(whole, level) > 0, (device.slug, level.name)
    partitioned = "warp_unit" if device.register_allocation == "group" else "partitions"
    whole.limits.check_known(("warps", "groups", "registers", "register_unit", "local_memory", partitioned))


def test_basic_parameters_of_every_device_are_complete():
    for device in DEVICES.values():
        check_complete(device)


def test_given_parameters_are_kept_and_come_first():
    for device in DEVICES.values():
        whole = completed(device)
        assert completed(whole) == whole
        by_place = {part.place: part.sources for part in whole.parts}
        for part in device.parts:
            assert by_place[part.place][: len(part.sources)] == part.sources
        for kind, dtype in BASIC:
            for field in LATENCY_FIELDS:
                given = device.resting_on(field, kind, dtype)
                if given:
                    assert whole.resting_on(field, kind, dtype) == given


def test_missing_parameter_is_taken_from_the_same_catalog_device():
    """Deleting lines from a copied device file changes nothing, unless they are specific to the product."""
    kept = {"cores", "clock", "throughput.f32", "memory.DRAM.bandwidth", "memory.DRAM.sustained_bandwidth"}
    of_v100 = completed(with_only(V100, lambda name: name in kept or name.endswith(("size", "per"))))
    for kind in (("add", "f64"), ("special", "f32"), ("add", "i32"), ("convert", "f32"), ("mul", "f32")):
        assert of_v100.completion_latency(*kind) == completed(V100).completion_latency(*kind)
        assert of_v100.issue_latency(*kind) == pytest.approx(completed(V100).issue_latency(*kind))
    for level in V100.memory:
        assert level_latency(of_v100, level.name) == level_latency(V100, level.name)
        assert bytes_per_cycle(of_v100, of_v100.level(level.name)) == pytest.approx(bytes_per_cycle(V100, level))


def test_some_substitutes_come_from_the_same_device():
    whole = completed(DEVICES["nvidia-tesla-c2050"])
    assert whole.completion_latency("shift", "i32") == whole.completion_latency("mul", "f32") == 18
    assert whole.completion_latency("convert", "f32") == whole.completion_latency("special", "f32") == 40
    v100 = completed(V100)
    assert v100.completion_latency("barrier") == v100.level("local").latency
    for name, (times, other) in MADE_OF.items():
        alone = v100.issue_latency(*other.split())
        assert v100.issue_latency(*name.split()) == times * alone


def test_relatives_share_vendor_line_and_generation():
    nearest = {
        slug: next(other.slug for other in relatives(device) if other.slug != slug) for slug, device in DEVICES.items()
    }
    # the same chip, or a chip of the same capability
    assert {nearest["nvidia-titan-v"], nearest["nvidia-v100"]} == {"nvidia-titan-v", "nvidia-v100"}
    assert nearest["nvidia-rtx-3090"].startswith(("nvidia-a40", "nvidia-rtx-a"))
    assert {nearest["nvidia-tesla-c2050"], nearest["nvidia-tesla-c2070"]} <= {
        "nvidia-tesla-c2050",
        "nvidia-tesla-c2070",
    }
    assert nearest["amd-r9-fury"] == "amd-r9-380"
    # 8.9 is closer to 9.0 than to 8.6, but only 8.6 is in the same product line
    consumer = next(other for other in relatives(DEVICES["nvidia-rtx-4090"]) if other.target != "8.9")
    assert consumer.target == "8.6"
    # equal warp size (64) takes precedence over a similar name
    assert all(other.warp_size == 64 for other, _ in zip(relatives(DEVICES["amd-mi210"]), range(4), strict=False))


def test_throughput_ratio_is_that_of_the_family(tmp_path: Path):
    """The rate of f64 is 1/64 of that of f32 on capability 8.6, and 1/2 on 8.0; successors of 8.9 use its ratio."""
    rates = {
        target: completed(minimal_device(tmp_path, "NVIDIA", "any", target)).throughput.f64 / 128
        for target in ("7.5", "8.0", "8.6", "8.9", "9.0", "12.0")
    }
    assert rates == {"7.5": 1 / 32, "8.0": 1 / 2, "8.6": 1 / 64, "8.9": 1 / 64, "9.0": 1 / 2, "12.0": 1 / 64}


def test_substitute_for_l2_bandwidth_scales_with_device_memory():
    own, relative = DEVICES["nvidia-rtx-3090"], DEVICES["nvidia-a40"]
    bare = with_only(own, lambda name: not re.match(r"memory\.L2\..*bandwidth", name))
    ratio = [
        bytes_per_cycle(each, each.level("L2")) * each.cores * each.clock / each.level("DRAM").bandwidth
        for each in (completed(bare), relative)
    ]
    assert ratio[0] == pytest.approx(ratio[1])


def test_latencies_increase_from_level_to_level():
    for device in DEVICES.values():
        whole = completed(device)
        levels = [level.name for level in global_levels(whole)]
        latencies = [level_latency(whole, name) for name in levels]
        assert latencies == sorted(latencies), device.slug


@pytest.mark.parametrize(
    ("vendor", "architecture", "target", "relative"),
    [
        ("NVIDIA", "Volta", "7.0", ("nvidia-v100", "nvidia-titan-v")),
        ("nvidia", "volta", "", ("nvidia-v100", "nvidia-titan-v")),
        ("NVIDIA", "not seen yet", "", ("nvidia-h100", "nvidia-h200", "nvidia-gh200", "nvidia-h100-pcie")),
        ("AMD", "CDNA 3", "gfx942", ("amd-mi300x", "amd-mi300a")),
        ("AMD", "RDNA 3", "gfx1100", ("amd-rx-6900-xt",)),
        ("Intel", "Xe", "", DEVICES),
        ("Acme", "1", "x", DEVICES),
    ],
)
def test_four_parameters_suffice_for_any_vendor(
    vendor: str, architecture: str, target: str, relative: Iterable[str], tmp_path: Path
):
    device = minimal_device(tmp_path, vendor, architecture, target)
    check_complete(device)
    source = assumed(device)["limits.warps"].source
    assert source.removeprefix("as on ") in relative


def test_caches_are_those_of_the_nearest_relative(tmp_path: Path):
    for target, relative in (("7.0", V100), ("1.2", DEVICES["nvidia-gtx-280"]), ("2.1", DEVICES["nvidia-tesla-c2070"])):
        mine, names = minimal_device(tmp_path, "NVIDIA", "any", target), [each.name for each in relative.memory]
        whole = completed(mine)
        assert [each.name for each in whole.memory] == names
        for level in (each for each in relative.memory if each.name in ("L1", "L2")):
            found = whole.level(level.name)
            assert (found.size, found.holds_local_memory) == (level.size, level.holds_local_memory)
            assert isinstance(found.source("size"), Substitute)
    # A cache without a size gets one; a file with a cache of the device gets no second one.
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8").replace('"2.1"', '"7.0"')
    (tmp_path / "mine.toml").write_text(text + '[memory.L2]\nper = "device"\n', encoding="utf-8")
    whole = completed(load_description(tmp_path / "mine.toml"))
    assert {each.name: each.size for each in whole.memory}["L2"] == V100.level("L2").size
    assert sum(each.name == "L2" for each in whole.memory) == 1


def test_half_precision_keeps_its_ratio_from_capability_5_3_on(tmp_path: Path):
    targets = {"5.2": 1.0, "6.1": 1 / 64, "7.0": 1.0, "8.0": 2.0, "8.9": 1 / 2}
    for target, ratio in targets.items():
        whole = completed(minimal_device(tmp_path, "NVIDIA", "any", target))
        assert whole.issue_latency("fma", "f16") == pytest.approx(whole.issue_latency("fma", "f32") / ratio), target


def test_cache_of_unknown_name_uses_the_level_of_equal_scope(tmp_path: Path):
    device = minimal_device(tmp_path, "NVIDIA", "Volta", "7.0")
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    caches = '[memory.texture]\nper = "core"\n[memory.LLC]\nper = "device"\n[memory.DRAM]'
    (tmp_path / "mine.toml").write_text(text.replace("[memory.DRAM]", caches), encoding="utf-8")
    whole = completed(load_description(tmp_path / "mine.toml"))
    relative = next(relatives(device))
    assert whole.level("texture").latency == relative.level("L1").latency
    assert whole.level("LLC").latency == relative.level("L2").latency


def test_product_specific_parameters_are_not_substituted(tmp_path: Path):
    for name in ("cores", "clock", "throughput.f32", "memory.DRAM.bandwidth"):
        device = with_only(minimal_device(tmp_path, "NVIDIA", "Volta", "7.0"), lambda each, name=name: each != name)
        assert name not in assumed(device)


def test_a_processor_has_no_relatives():
    processor = a_processor()
    sources = [each.source for each in assumed(processor).values()]
    assert [source for source in sources if not re.fullmatch(r"(as|\d+ times) '[^']+'", source)] == []
    assert completed(processor).memory == processor.memory
