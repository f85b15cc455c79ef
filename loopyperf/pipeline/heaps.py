"""Several binary heaps in one flat list, from which an item in the middle can be taken too.

Queue *q* lies in ``heap[q*capacity:]``; ``sizes`` tells how long each is, ``at`` where in its queue an item is. The item
with the least key is first; of two with the same key, the one with the lower number.
"""

from loopyperf.pipeline.flat import Cells


def push(heap: Cells, sizes: Cells, at: Cells, keys: Cells, capacity: int, queue: int, item: int) -> None:
    """Put *item* into *queue*."""
    hole = sizes[queue]
    sizes[queue] = hole + 1
    rise(heap, at, keys, queue * capacity, hole, item)


def remove(heap: Cells, sizes: Cells, at: Cells, keys: Cells, capacity: int, queue: int, item: int) -> None:
    """Take *item* out of *queue*, wherever in it it is."""
    base, size, hole = queue * capacity, sizes[queue] - 1, at[item]
    sizes[queue] = size
    last = heap[base + size]
    if last == item:
        return
    if hole > 0 and is_before(keys, last, heap[base + (hole - 1) // 2]):
        rise(heap, at, keys, base, hole, last)
    else:
        sink(heap, at, keys, base, size, hole, last)


def rise(heap: Cells, at: Cells, keys: Cells, base: int, hole: int, item: int) -> None:
    """Put *item* where *hole* is, or above it."""
    while hole > 0:
        above = (hole - 1) // 2
        other = heap[base + above]
        if not is_before(keys, item, other):
            break
        heap[base + hole] = other
        at[other] = hole
        hole = above
    heap[base + hole] = item
    at[item] = hole


def sink(heap: Cells, at: Cells, keys: Cells, base: int, size: int, hole: int, item: int) -> None:
    """Put *item* where *hole* is, or below it."""
    below = 2 * hole + 1
    while below < size:
        if below + 1 < size and is_before(keys, heap[base + below + 1], heap[base + below]):
            below += 1
        other = heap[base + below]
        if not is_before(keys, other, item):
            break
        heap[base + hole] = other
        at[other] = hole
        hole = below
        below = 2 * hole + 1
    heap[base + hole] = item
    at[item] = hole


def is_before(keys: Cells, one: int, other: int) -> bool:
    """Return whether *one* is to be taken before *other*."""
    return keys[one] < keys[other] or (keys[one] == keys[other] and one < other)
