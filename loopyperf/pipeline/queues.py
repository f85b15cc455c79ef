"""Queues in the memory of a core: items in the order of a key, linked both ways, so that any can be taken out at once.

An item comes in from the end whose key is nearer to its own: what becomes ready mostly does so after all others, or
before most. Of two with the same key the lower number is first. Queue *q* is a ring that closes in an item of its own,
``m[QUEUES] + q``; *keys* is where in the memory the key of item 0 is.
"""

from loopyperf.pipeline.memory import NEXT, PREVIOUS, QUEUES, Memory


def first_in(m: Memory, queue: int) -> int:
    """Return the first item of *queue*, its own if it is empty."""
    return m[m[NEXT] + m[QUEUES] + queue]


def is_empty(m: Memory, queue: int) -> bool:
    """Return whether nothing is in *queue*."""
    return m[m[NEXT] + m[QUEUES] + queue] == m[QUEUES] + queue


def push(m: Memory, keys: int, queue: int, item: int) -> None:
    """Put *item* into *queue*."""
    own = m[QUEUES] + queue
    before, after = m[m[PREVIOUS] + own], own
    if before != own:
        first = m[m[NEXT] + own]
        if m[keys + before] - m[keys + item] <= m[keys + item] - m[keys + first]:
            while before != own and is_before(m, keys, item, before):
                before, after = m[m[PREVIOUS] + before], before
        else:
            before, after = own, first
            while after != own and is_before(m, keys, after, item):
                before, after = after, m[m[NEXT] + after]
    m[m[NEXT] + before] = item
    m[m[PREVIOUS] + after] = item
    m[m[NEXT] + item] = after
    m[m[PREVIOUS] + item] = before


def remove(m: Memory, item: int) -> None:
    """Take *item* out of the queue that it is in."""
    before, after = m[m[PREVIOUS] + item], m[m[NEXT] + item]
    m[m[NEXT] + before] = after
    m[m[PREVIOUS] + after] = before


def is_before(m: Memory, keys: int, one: int, other: int) -> bool:
    """Return whether *one* is to be taken before *other*."""
    return m[keys + one] < m[keys + other] or (m[keys + one] == m[keys + other] and one < other)
