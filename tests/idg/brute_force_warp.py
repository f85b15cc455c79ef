"""Brute-force reference for the memory accesses of a warp: bytes, blocks, banks and local ids, without loopyperf."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

Lanes = Mapping[int, int]
"""the byte address of each active lane, by number"""


def blocks(lanes: Lanes, element: int, block: int) -> int:
    """Return the number of aligned blocks of *block* bytes that contain a byte that some lane accesses."""
    return len({byte // block for byte in bytes_of(lanes, element)})


def bytes_of(lanes: Lanes, element: int) -> set[int]:
    """Return the addresses of all bytes that the lanes access."""
    return {address + place for address in lanes.values() for place in range(element)}


def wavefronts(lanes: Lanes, element: int, is_load: bool) -> list[int]:
    """Return the wavefronts of each part of the warp that is processed separately; *element* is 1 to 16 bytes."""
    together = {8: 16, 16: 8}.get(element, 32)
    if is_load and element > 4 and shared_in_pairs(lanes):
        together *= 2
    found: list[int] = []
    for first in range(0, 64, together):
        part = [lanes[lane] for lane in range(first, first + together) if lane in lanes]
        words_of_bank: dict[int, set[int]] = defaultdict(set)
        for address in part:
            for byte in range(address, address + element):
                words_of_bank[byte // 4 % 32].add(byte // 4)
        if part:
            found.append(max(map(len, words_of_bank.values())))
    return found


def shared_in_pairs(lanes: Lanes) -> bool:
    """Return whether lanes 0 and 1, 2 and 3, ... (or 0 and 2, 1 and 3, 4 and 6, ...) agree where both are active."""
    first = [(lane, lane + 1) for lane in range(0, 64, 2)]
    second = [(lane, lane + 2) for start in range(0, 64, 4) for lane in (start, start + 1)]
    return any(
        all(lanes[one] == lanes[other] for one, other in pairs if one in lanes and other in lanes)
        for pairs in (first, second)
    )


def local_ids(number: int, size: int, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the local ids of each lane of a warp that is a work-item, by enumerating the whole group."""
    items: list[tuple[int, ...]] = [()]
    for extent in reversed(shape):
        items = [(*rest, place) for rest in items for place in range(extent)]
    for item in items[number * size : (number + 1) * size]:
        yield tuple(reversed(item))
