"""Sums over an array that all cores read together: the bandwidth of each memory level.

The array is divided into chunks of 32 loads for each work-item of a group. In a round each group reads one chunk, and
the groups together read consecutive chunks, starting over after the last one. A cache must hold the whole array, and
does so after one sweep if it fits. The loads of a round are added to eight sums, which keeps many in flight.
"""

from functools import partial
from itertools import takewhile

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

from ._rounds import configuration, in_groups, integers, rounds

NAME = "streaming"

LOADS, SUMS = 32, 8
"""loads of a work-item per round, and the number of sums"""
WARPS, GROUPS = 4, 8
"""warps per group; groups on each core"""
SMALLEST, LARGEST = 2**14, 2**29
"""minimum and maximum bytes of the array"""
WORD = 4
"""bytes of an element"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the sums, with a size schedule for each number of bytes."""
    lanes = WARPS * limits.warp_size
    return [configuration(f"stride 1, group {lanes}", partial(streaming, lanes), ladders(limits), arguments, sums)]


def ladders(limits: DeviceLimits) -> tuple[tuple[Sizes, ...], ...]:
    """Return the rounds for each number of chunks, starting with those that sweep the array once."""
    lanes, groups = WARPS * limits.warp_size, GROUPS * limits.cores
    chunk = LOADS * lanes * WORD
    largest = min(LARGEST, limits.global_memory)
    counts = takewhile(lambda chunks: chunks * chunk <= largest, doubling(max(1, SMALLEST // chunk), 1, largest))
    fixed = {"stride": 1, "groups": groups, "lanes": lanes, "steps": LOADS}
    return tuple(rounds({**fixed, "chunks": chunks}, least=-(-chunks // groups)) for chunks in list(counts)[::2])


def streaming(lanes: int) -> lp.TranslationUnit:
    """Return the sums for groups of *lanes* work-items."""
    sums = [f"x{number}" for number in range(SUMS)]
    loads = [f"{sums[load % SUMS]} = {sums[load % SUMS]} + a[chunk, {load}, l]" for load in range(LOADS)]
    unit = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds}}",
        "\n".join(
            [
                "for g, l",
                *(f"<float32> {name} = 0" for name in sums),
                "for r",
                "<int32> chunk = (g + groups*r) % chunks",
                *loads,
                "end",
                f"out[g, l] = {' + '.join(sums)}",
                "end",
            ]
        ),
        [
            lp.GlobalArg("a", np.float32, shape=f"chunks, {LOADS}, {lanes}"),
            lp.GlobalArg("out", np.float32, shape=f"groups, {lanes}"),
            lp.ValueArg("groups, rounds, chunks", np.int32),
        ],
        name="streaming",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return in_groups(unit)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return an array in which each chunk contains its number everywhere, and zeros for out."""
    numbers = np.arange(sizes["chunks"], dtype=np.float32)[:, None, None]
    shape = (sizes["chunks"], LOADS, sizes["lanes"])
    return {
        "a": np.ascontiguousarray(np.broadcast_to(numbers, shape)),
        "out": np.zeros((sizes["groups"], sizes["lanes"]), np.float32),
        **integers("groups, rounds, chunks", sizes),
    }


def sums(arguments: Arguments) -> dict[str, Array]:
    """Return out: 32 times the sum of the numbers of a group's chunks."""
    groups, rounds, chunks = (int(arguments[name]) for name in ("groups", "rounds", "chunks"))
    read = (np.arange(groups)[:, None] + groups * np.arange(rounds)) % chunks
    lanes = np.asarray(arguments["out"]).shape[1]
    return {"out": np.repeat(LOADS * read.sum(axis=1, keepdims=True), lanes, axis=1).astype(np.float32)}
