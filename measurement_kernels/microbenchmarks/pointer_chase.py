"""One work-item follows links through global memory, in a random order that visits every cache line: i ← next[i].

Its time per load is the latency of the memory level that holds the visited bytes; as a function of the bytes it has a
plateau for each level. Links are a cache line apart and their order is random, which prevents prefetching. Each run
continues where the previous one stopped, so that the first runs visit all data that may fit a cache (:data:`VISITED`).
The times include about one instruction for the address of an element, and TLB misses.
"""

from itertools import chain, takewhile

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import configuration, integers, rounds, written_out

NAME = "pointer chase"

LINE = 128
"""bytes between links if the driver reports no cache line, or on GPUs a shorter one: they fetch neighboring lines"""
SMALLEST, LARGEST = 2**12, 2**28
"""minimum and maximum bytes of the array"""
STEPS = 16
"""loads per round"""
LEAST = 2**10
"""minimum loads per run; up to :data:`VISITED` for arrays with more lines"""
VISITED = 2**16
WORD = 4
"""bytes of a link"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the only configuration, with a size schedule for each number of bytes."""
    line = max(limits.cache_line or LINE, LINE if limits.warp_size > 1 else 1)
    steps = chain.from_iterable((SMALLEST << step, (SMALLEST << step) * 3 // 2) for step in range(32))
    ladders = [ladder(size, line) for size in takewhile(lambda size: size <= min(LARGEST, limits.global_memory), steps)]
    return [configuration("one work-item", pointer_chase, tuple(ladders), arguments, followed)]


def ladder(nbytes: int, line: int) -> tuple[Sizes, ...]:
    """Return the rounds at one number of bytes, starting with a quarter of those that visit each line once."""
    loads = min(max(LEAST, nbytes // line // 4), VISITED)
    return rounds({"n": nbytes // WORD, "line": line, "steps": STEPS}, least=-(-loads // STEPS))


def pointer_chase() -> lp.TranslationUnit:
    """Return the pointer chase."""
    unit = lp.make_kernel(
        f"{{[g, l, r, s]: 0 <= g < 1 and 0 <= l < 1 and 0 <= r < rounds and 0 <= s < {STEPS}}}",
        """
        for g, l
            <int32> at = place[g]
            for r, s
                at = next[at]
            end
            place[g] = at
        end
        """,
        [
            lp.GlobalArg("next", np.int32, shape="n"),
            lp.GlobalArg("place", np.int32, shape=(1,)),
            lp.ValueArg("n, rounds", np.int32),
        ],
        name="pointer_chase",
        seq_dependencies=True,
        assumptions="rounds >= 1",
        lang_version=(2018, 2),
    )
    return written_out(unit)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return links that visit each line once in a random order, and the first position."""
    apart = sizes["line"] // WORD
    order = rng.permutation(sizes["n"] // apart).astype(np.int32) * np.int32(apart)
    links = np.zeros(sizes["n"], np.int32)
    links[order] = np.roll(order, -1)
    return {"next": links, "place": order[:1].copy(), **integers("n, rounds", sizes)}


def followed(arguments: Arguments) -> dict[str, Array]:
    """Return the position where one run ends."""
    links = np.asarray(arguments["next"]).tolist()
    at = int(np.asarray(arguments["place"])[0])
    for _ in range(STEPS * int(arguments["rounds"])):
        at = links[at]
    return {"place": np.array([at], np.int32)}
