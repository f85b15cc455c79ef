"""Binary heaps in the memory of a core, from which an item in the middle can be taken too.

Queue *q* begins at ``m[HEAP] + q * m[WARPS]``; ``SIZES`` tells how long each is, ``AT`` where in its queue an item is.
The item with the least key is first; of two with the same key, the one with the lower number. *keys* is where in the
memory the key of item 0 is.
"""

from loopyperf.pipeline.memory import AT, HEAP, SIZES, WARPS, Memory


def first_in(m: Memory, queue: int) -> int:
    """Return the first item of *queue*, which has some."""
    return m[m[HEAP] + queue * m[WARPS]]


def push(m: Memory, keys: int, queue: int, item: int) -> None:
    """Put *item* into *queue*."""
    size = m[SIZES] + queue
    m[size] += 1
    rise(m, keys, m[HEAP] + queue * m[WARPS], m[size] - 1, item)


def remove(m: Memory, keys: int, queue: int, item: int) -> None:
    """Take *item* out of *queue*, wherever in it it is."""
    base, hole = m[HEAP] + queue * m[WARPS], m[m[AT] + item]
    size = m[m[SIZES] + queue] - 1
    m[m[SIZES] + queue] = size
    last = m[base + size]
    if last == item:
        return
    if hole > 0 and is_before(m, keys, last, m[base + (hole - 1) // 2]):
        rise(m, keys, base, hole, last)
    else:
        sink(m, keys, base, size, hole, last)


def rise(m: Memory, keys: int, base: int, hole: int, item: int) -> None:
    """Put *item* where *hole* is, or above it."""
    while hole > 0:
        above = (hole - 1) // 2
        other = m[base + above]
        if not is_before(m, keys, item, other):
            break
        m[base + hole] = other
        m[m[AT] + other] = hole
        hole = above
    m[base + hole] = item
    m[m[AT] + item] = hole


def sink(m: Memory, keys: int, base: int, size: int, hole: int, item: int) -> None:
    """Put *item* where *hole* is, or below it, in a queue of *size*."""
    below = 2 * hole + 1
    while below < size:
        if below + 1 < size and is_before(m, keys, m[base + below + 1], m[base + below]):
            below += 1
        other = m[base + below]
        if not is_before(m, keys, other, item):
            break
        m[base + hole] = other
        m[m[AT] + other] = hole
        hole = below
        below = 2 * hole + 1
    m[base + hole] = item
    m[m[AT] + item] = hole


def is_before(m: Memory, keys: int, one: int, other: int) -> bool:
    """Return whether *one* is to be taken before *other*."""
    return m[keys + one] < m[keys + other] or (m[keys + one] == m[keys + other] and one < other)
