"""What is assumed of a description that lacks numbers: from where each one is, and in which proportion."""

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

FEWEST = """
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
"""the numbers that are never assumed"""


def cut(part: AnyPart, is_kept: Callable[[str], bool]) -> AnyPart:
    """Return *part* with those of its numbers whose full name is kept."""
    names = (name for name, _ in part.known() if not is_kept(".".join(filter(None, (part.place, name)))))
    return replace(part, **dict.fromkeys(names))


def with_only(device: Device, is_kept: Callable[[str], bool]) -> Device:
    """Return *device* as if its description stated only the numbers that are kept."""
    return replace(
        cut(device, is_kept),
        limits=cut(device.limits, is_kept),
        throughput=cut(device.throughput, is_kept),
        memory=tuple(cut(each, is_kept) for each in device.memory),
        instructions=tuple(each for each in (cut(each, is_kept) for each in device.instructions) if each.statements),
    )


def described(folder: Path, vendor: str, architecture: str, target: str = "") -> Device:
    stated = f'target = "{target}"' if target else ""
    text = FEWEST.replace("VENDOR", vendor).replace("ARCHITECTURE", architecture).replace("TARGET", stated)
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


def test_every_basic_number_of_every_device_is_stated_or_assumed():
    for device in DEVICES.values():
        check_complete(device)


def test_what_is_stated_stays_and_comes_first():
    for device in DEVICES.values():
        whole = completed(device)
        assert completed(whole) == whole
        by_place = {part.place: part.sources for part in whole.parts}
        for part in device.parts:
            assert by_place[part.place][: len(part.sources)] == part.sources
        for kind, dtype in BASIC:
            for field in LATENCY_FIELDS:
                stated = device.resting_on(field, kind, dtype)
                if stated:
                    assert whole.resting_on(field, kind, dtype) == stated


def test_a_description_without_a_number_takes_that_of_the_same_device_in_the_catalog():
    """Whoever copies a description and deletes a line of what is no product's own loses nothing."""
    kept = {"cores", "clock", "throughput.f32", "memory.DRAM.bandwidth", "memory.DRAM.sustained_bandwidth"}
    of_v100 = completed(with_only(V100, lambda name: name in kept or name.endswith(("size", "per"))))
    for kind in (("add", "f64"), ("special", "f32"), ("add", "i32"), ("convert", "f32"), ("mul", "f32")):
        assert of_v100.completion_latency(*kind) == completed(V100).completion_latency(*kind)
        assert of_v100.issue_latency(*kind) == pytest.approx(completed(V100).issue_latency(*kind))
    for level in V100.memory:
        assert level_latency(of_v100, level.name) == level_latency(V100, level.name)
        assert bytes_per_cycle(of_v100, of_v100.level(level.name)) == pytest.approx(bytes_per_cycle(V100, level))


def test_numbers_with_one_reason_come_from_the_device_itself():
    whole = completed(DEVICES["nvidia-tesla-c2050"])
    assert whole.completion_latency("shift", "i32") == whole.completion_latency("mul", "f32") == 18
    assert whole.completion_latency("convert", "f32") == whole.completion_latency("special", "f32") == 40
    v100 = completed(V100)
    assert v100.completion_latency("barrier") == v100.level("local").latency
    for name, (times, other) in MADE_OF.items():
        alone = v100.issue_latency(*other.split())
        assert v100.issue_latency(*name.split()) == times * alone


def test_relatives_are_of_the_vendor_the_line_and_the_generation():
    nearest = {
        slug: next(other.slug for other in relatives(device) if other.slug != slug) for slug, device in DEVICES.items()
    }
    # the same chip, or one of the same capability
    assert {nearest["nvidia-titan-v"], nearest["nvidia-v100"]} == {"nvidia-titan-v", "nvidia-v100"}
    assert nearest["nvidia-rtx-3090"].startswith(("nvidia-a40", "nvidia-rtx-a"))
    assert {nearest["nvidia-tesla-c2050"], nearest["nvidia-tesla-c2070"]} <= {
        "nvidia-tesla-c2050",
        "nvidia-tesla-c2070",
    }
    assert nearest["amd-r9-fury"] == "amd-r9-380"
    # 8.9 is nearer to 9.0 than to 8.6, but only the latter is of its line
    consumer = next(other for other in relatives(DEVICES["nvidia-rtx-4090"]) if other.target != "8.9")
    assert consumer.target == "8.6"
    # wavefronts of 64 work-items come before a nearer name
    assert all(other.warp_size == 64 for other, _ in zip(relatives(DEVICES["amd-mi210"]), range(4), strict=False))


def test_a_ratio_is_that_of_the_family(tmp_path: Path):
    """Double precision is 1/64 of single on capability 8.6, and 1/2 on 8.0; the successors of 8.9 keep its line."""
    rates = {
        target: completed(described(tmp_path, "NVIDIA", "any", target)).throughput.f64 / 128
        for target in ("7.5", "8.0", "8.6", "8.9", "9.0", "12.0")
    }
    assert rates == {"7.5": 1 / 32, "8.0": 1 / 2, "8.6": 1 / 64, "8.9": 1 / 64, "9.0": 1 / 2, "12.0": 1 / 64}


def test_a_shared_cache_keeps_its_ratio_to_device_memory():
    own, relative = DEVICES["nvidia-rtx-3090"], DEVICES["nvidia-a40"]
    bare = with_only(own, lambda name: not re.match(r"memory\.L2\..*bandwidth", name))
    ratio = [
        bytes_per_cycle(each, each.level("L2")) * each.cores * each.clock / each.level("DRAM").bandwidth
        for each in (completed(bare), relative)
    ]
    assert ratio[0] == pytest.approx(ratio[1])


def test_no_cache_is_assumed_to_be_slower_than_the_next():
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
def test_four_numbers_are_enough_whatever_the_vendor(
    vendor: str, architecture: str, target: str, relative: Iterable[str], tmp_path: Path
):
    device = described(tmp_path, vendor, architecture, target)
    check_complete(device)
    source = assumed(device)["limits.warps"].source
    assert source.removeprefix("as on ") in relative


def test_a_cache_by_a_name_of_its_own_is_as_one_that_as_many_cores_share(tmp_path: Path):
    device = described(tmp_path, "NVIDIA", "Volta", "7.0")
    text = (tmp_path / "mine.toml").read_text(encoding="utf-8")
    caches = '[memory.texture]\nper = "core"\n[memory.LLC]\nper = "device"\n[memory.DRAM]'
    (tmp_path / "mine.toml").write_text(text.replace("[memory.DRAM]", caches), encoding="utf-8")
    whole = completed(load_description(tmp_path / "mine.toml"))
    relative = next(relatives(device))
    assert whole.level("texture").latency == relative.level("L1").latency
    assert whole.level("LLC").latency == relative.level("L2").latency


def test_nothing_that_tells_one_product_from_the_next_is_assumed(tmp_path: Path):
    for name in ("cores", "clock", "throughput.f32", "memory.DRAM.bandwidth"):
        device = with_only(described(tmp_path, "NVIDIA", "Volta", "7.0"), lambda each, name=name: each != name)
        assert name not in assumed(device)


def test_a_processor_has_no_relatives():
    processor = a_processor()
    sources = [each.source for each in assumed(processor).values()]
    assert [source for source in sources if not re.fullmatch(r"(as|\d+ times) '[^']+'", source)] == []
    assert completed(processor).memory == processor.memory
