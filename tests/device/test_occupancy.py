"""Occupancy, compared with NVIDIA's header, values derived by hand for each architecture, and a brute-force search."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from loopyperf.device.description import Device
from loopyperf.device.device_library import known_descriptions, load_device
from loopyperf.device.occupancy import occupancy, register_steps
from loopyperf.errors import MissingNumberError, OccupancyError, UnknownDeviceError

# {{{ results of cuda_occupancy.h of CUDA 12.9, compiled and run for random groups; cases with a single limit

HEADER = [
    ("nvidia-gtx-680", 512, 24, 23497, 2, "local memory"),
    ("nvidia-gtx-680", 1000, 49, 17369, 1, "registers"),
    ("nvidia-gtx-680", 320, 14, 0, 6, "warps"),
    ("nvidia-gtx-680", 32, 63, 0, 16, "groups"),
    ("nvidia-titan-v", 128, 170, 12959, 2, "registers"),
    ("nvidia-titan-v", 32, 170, 16279, 6, "local memory"),
    ("nvidia-titan-v", 1000, 8, 20053, 2, "warps"),
    ("nvidia-titan-v", 32, 29, 0, 32, "groups"),
    ("nvidia-h200", 48, 122, 22008, 8, "registers"),
    ("nvidia-h200", 64, 31, 6782, 29, "local memory"),
    ("nvidia-h200", 768, 22, 28931, 2, "warps"),
    ("nvidia-h200", 32, 40, 0, 32, "groups"),
    ("nvidia-tesla-k40", 32, 138, 29333, 1, "local memory"),
    ("nvidia-quadro-k620", 32, 194, 0, 8, "registers"),
    ("nvidia-gtx-titan-x", 768, 18, 0, 2, "warps"),
    ("nvidia-gtx-1060", 128, 51, 15686, 6, "local memory"),
    ("nvidia-rtx-2070", 320, 33, 0, 3, "warps"),
    ("nvidia-a100", 64, 127, 1975, 8, "registers"),
    ("nvidia-rtx-3090", 32, 90, 0, 16, "groups"),
    ("nvidia-rtx-4090", 32, 33, 0, 24, "groups"),
]


def test_occupancy_equals_that_of_nvidias_header(subtests: pytest.Subtests):
    for name, work_items, registers, local_memory, groups, bound_by in HEADER:
        with subtests.test(name=name, bound_by=bound_by):
            found = occupancy(load_device(name), work_items, registers, local_memory)
            assert (groups, (bound_by,)) == (found.groups, found.bound_by)


# }}}


# {{{ derived by hand

BY_HAND = {
    # registers of the whole group: 3 warps count as 4; 4 · 32 · 21 = 2688, rounded up to 3072 (unit 512); 16384 / 3072
    "Tesla": ("nvidia-gtx-280", 96, 21, 0, 5, ("registers",)),
    # 8 warps: 8 · 32 · 16 = 4096 registers, 4 KiB, 8 of 32 warps: all three limits allow 4 groups
    "Tesla, all at once": ("nvidia-gtx-280", 256, 16, 4096, 4, ("warps", "registers", "local memory")),
    # 24 · 32 = 768 registers per warp; 2 · ⌊16384 / 768⌋ = 42 warps; 42 / 8
    "Fermi": ("nvidia-gtx-580", 256, 24, 0, 5, ("registers",)),
    # 40 · 32 = 1280 registers per warp; 4 · ⌊16384 / 1280⌋ = 48 warps; 48 / 8
    "Volta": ("nvidia-titan-v", 256, 40, 0, 6, ("registers",)),
    # 84 · 64 = 5376 = 21 · 256 registers per wave; 4 · ⌊16384 / 5376⌋ = 12 waves; 12 / 4. 20000 B, rounded up to
    # 20480; 65536 / 20480 = 3.2
    "GCN": ("amd-r9-fury", 256, 84, 20000, 3, ("registers", "local memory")),
    # groups of one wave need no barrier, so 40 fit; at most 16 groups of several waves fit
    "GCN, one wave": ("amd-r9-fury", 64, 24, 0, 40, ("warps", "groups", "registers")),
    "GCN, two waves": ("amd-r9-fury", 128, 24, 0, 16, ("groups",)),
    # 84 · 64 = 5376 registers, rounded up to 5632 (unit 512); 4 · ⌊32768 / 5632⌋ = 20 waves; 20 / 4
    "CDNA": ("amd-mi210", 256, 84, 0, 5, ("registers",)),
}


def test_occupancy_derived_by_hand(subtests: pytest.Subtests):
    for name, work_items, registers, local, groups, bound_by in BY_HAND.values():
        with subtests.test(name=name, bound_by=bound_by):
            found = occupancy(load_device(name), work_items, registers, local)
            assert (groups, bound_by) == (found.groups, found.bound_by)


def test_examples_of_dao_have_six_and_five_resident_groups():
    """Section 4: six groups of 8 warps are an occupancy of 1.0 of 48 warps; five are 0.833, not ⌊0.833·48/8⌋ = 4."""
    gtx_580 = load_device("nvidia-gtx-580")
    full, less = occupancy(gtx_580, 256, registers=20), occupancy(gtx_580, 256, registers=24)
    assert (full.groups, full.warps, full.share) == (6, 48, 1.0)
    assert (less.groups, less.warps, round(less.share, 3)) == (5, 40, 0.833)


def test_device_may_be_given_by_name():
    assert occupancy("NVIDIA TITAN V", 256) == occupancy(load_device("nvidia-titan-v"), 256)
    with pytest.raises(UnknownDeviceError, match="nvidia-titan-v"):
        occupancy("nvidia-titan-w", 256)


def test_unknown_registers_do_not_limit_occupancy():
    assert occupancy(load_device("nvidia-titan-v"), 256).bound_by == ("warps",)


# }}}


# {{{ groups that do not fit

TOO_LARGE = {
    "work-items": (("nvidia-titan-v", 1025, 16, 0), "1,025 work-items, at most 1,024"),
    "registers of a work-item": (("nvidia-titan-v", 32, 256, 0), "256 registers of a work-item, at most 255"),
    # 32 warps of 128 · 32 = 4096 registers
    "registers of a group": (("nvidia-titan-v", 1024, 128, 0), "131,072 registers of a group, at most 65,536"),
    "local memory": (("nvidia-a100", 64, 32, 163 * 1024 + 5), "166,917 B of local memory, at most 166,912"),
    # 8192 registers per wave: 2 waves in each of 4 parts, but the group has 16
    "registers of AMD": (("amd-r9-fury", 1024, 128, 0), "16 warps of 8192 registers each, at most 8"),
    # 16 warps · 32 · 64 = 32768
    "registers of the group as a whole": (("nvidia-gtx-280", 512, 64, 0), "32,768 registers, at most 16,384"),
}


@pytest.mark.parametrize(("group", "message"), TOO_LARGE.values(), ids=TOO_LARGE)
def test_error_for_too_large_group_names_the_exceeded_limit(group, message):
    name, *needs = group
    with pytest.raises(OccupancyError, match=message) as error:
        occupancy(load_device(name), *needs)
    assert name in str(error.value)


@pytest.mark.parametrize("needs", [(0, 8, 0), (64, -1, 0), (64, 8, -4)])
def test_invalid_group_raises(needs):
    with pytest.raises(OccupancyError, match="at least 1 work-item, and registers and local memory >= 0"):
        occupancy(load_device("nvidia-titan-v"), *needs)


@pytest.mark.parametrize("more", ["", 'registers_per_group = { value = 8, unit = "registers", source = "b" }'])
def test_error_lists_all_missing_limits(more, tmp_path):
    (tmp_path / "bare.toml").write_text(
        'schema = 1\nname = "Bare"\nvendor = "B"\narchitecture = "B"\n'
        'warp_size = { value = 32, unit = "work-items", source = "b" }\n'
        f'[limits]\nwarps = {{ value = 8, unit = "warps", source = "b" }}\n{more}'
    )
    bare = load_device(tmp_path / "bare.toml")
    with pytest.raises(MissingNumberError, match=r"lacks limits\.groups .*; add it in \[limits\] .*: groups = {.*}$"):
        occupancy(bare, 32)
    with pytest.raises(MissingNumberError, match=r"; add them in \[limits\] of") as error:
        occupancy(bare, 32, registers=16, local_memory=512)
    missing = ["groups", "registers", "register_unit", "partitions", "local_memory", "local_memory_unit"]
    assert re.findall(r"limits\.(\w+) \(", str(error.value)) == missing
    assert re.findall(r"(\w+) = {", str(error.value)) == missing


# }}}


# {{{ comparison with brute force

devices = st.sampled_from([known.slug for known in known_descriptions()]).map(load_device)
shares = st.floats(0, 1)


def resident(device: Device, work_items: int, registers: int, local_memory: int) -> int:
    """Return the number of resident groups, 0 if not even one fits."""
    try:
        return occupancy(device, work_items, registers, local_memory).groups
    except OccupancyError:
        return 0


def group_with_shares(device: Device, shares: tuple[float, float, float]) -> tuple[int, int, int]:
    """Return work-items, registers and local memory of a group that uses *shares* of the largest values."""
    limits = device.limits
    largest = limits.work_items_per_group, limits.registers_per_work_item, limits.local_memory_per_group
    work_items, registers, local_memory = (round(share * each) for share, each in zip(shares, largest, strict=True))
    return max(1, work_items), registers, local_memory


@given(devices, st.tuples(shares, shares, shares))
def test_occupancy_equals_brute_force(device, needs):
    """The independent implementation places one warp after another into the emptiest part of the register file."""
    work_items, registers, local_memory = group_with_shares(device, needs)
    found = resident(device, work_items, registers, local_memory)
    assume(found)
    assert found == placed_groups(device, work_items, registers, local_memory)


def placed_groups(device: Device, work_items: int, registers: int, local_memory: int) -> int:
    limits = device.limits
    warps = len(range(0, work_items, device.warp_size))
    slots = limits.groups_of_one_warp or limits.groups if warps == 1 else limits.groups
    reserved = limits.local_memory_reserved or 0
    as_a_whole = device.register_allocation == "group"
    if as_a_whole:
        warps += warps % limits.warp_unit
    free_warps, free_local = limits.warps, limits.local_memory
    parts = [limits.registers] if as_a_whole else [limits.registers // limits.partitions] * limits.partitions
    pieces = [warps * device.warp_size * registers] if as_a_whole else [device.warp_size * registers] * warps
    for group in range(slots):
        free_warps -= warps
        free_local -= rounded_up(local_memory + reserved, limits.local_memory_unit)
        for piece in pieces:
            parts[parts.index(max(parts))] -= rounded_up(piece, limits.register_unit)
        if min(free_warps, free_local, *parts) < 0:
            return group
    return slots


def rounded_up(number: int, unit: int) -> int:
    while number % unit:
        number += 1
    return number


# }}}


def test_register_steps_equal_brute_force(subtests: pytest.Subtests):
    for device in ["nvidia-titan-v", "nvidia-rtx-2080-ti", "nvidia-a100", "amd-mi210"]:
        for work_items, local_memory in [(256, 0), (32, 0), (340, 17_640), (80, 7_680)]:
            with subtests.test(device=device, work_items=work_items, local_memory=local_memory):
                steps = register_steps(load_device(device), work_items, local_memory, 255)

                def groups(registers, device=device, work_items=work_items, local_memory=local_memory):
                    try:
                        return occupancy(device, work_items, registers, local_memory).groups
                    except OccupancyError:
                        return 0

                by_hand = {
                    groups(registers): registers for registers in range(1, 256)
                }  # the most registers for each number of groups
                by_hand.pop(0, None)
                assert [groups(each) for each in steps] == sorted(by_hand, reverse=True)
                assert all(-8 < each - by_hand[groups(each)] <= 0 for each in steps)
