"""Chains of dependent loads from local memory, without and with bank conflicts: i ← tile[i].

Each lane follows links that are 32 words apart, so that it stays on its bank; lane l of warp w starts at word degree·l
+ w, so that no two warps of a group load the same word. With degree 1 each lane of a warp has its own bank, with degree
2 two lanes share one, with degree 32 all do. A single warp shows the completion latency and how it increases (Λ + D·λ
with D additional accesses of a bank, Lemeire, section 6.3), a full core the issue latency, (1 + D)·λ. The times include
about one instruction for the address of an element.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import configuration, in_all_groups, integers, numbers_in_group, occupied, rounds, written_out

NAME = "local memory"

BANKS = 32
"""banks of NVIDIA's and AMD's local memory, one word wide"""
WORDS = 2048
"""words of the tile: 64 lanes 32 words apart"""
STEPS = 32
"""loads per round"""
DEGREES = (1, 2, 4, 8, 16, 32)


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return groups of one and of several warps: without conflicts in all grids, with conflicts in one of them."""
    found: list[Configuration] = []
    for lanes, groups in occupied(limits):
        plain = [{"groups": number, "degree": 1} for number in groups]
        at = groups[0] if lanes == limits.warp_size else groups[-1]
        conflicting = [{"groups": at, "degree": degree} for degree in DEGREES[1:] if limits.warp_size > 1]
        found.append(
            configuration(
                f"group {lanes}",
                partial(local_loads, lanes, limits.warp_size),
                tuple(rounds({**fixed, "lanes": lanes, "steps": STEPS}) for fixed in (*plain, *conflicting)),
                arguments,
                partial(last_words, limits.warp_size),
            )
        )
    return found


def local_loads(lanes: int, warp_size: int) -> lp.TranslationUnit:
    """Return the chain for groups of *lanes* work-items."""
    unit = lp.make_kernel(
        f"{{[g, l, w, r, s]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= w < {WORDS // lanes} and 0 <= r < rounds "
        f"and 0 <= s < {STEPS}}}",
        f"""
        for g, l
            for w
                tile[{lanes}*w + l] = links[{lanes}*w + l]
            end
            ... lbarrier {{mem_kind=local}}
            <int32> at = degree*(l % {warp_size}) + l // {warp_size}
            for r, s
                at = tile[at]
            end
            out[g, l] = at
        end
        """,
        [
            lp.TemporaryVariable("tile", np.int32, shape=(WORDS,), address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("links", np.int32, shape=(WORDS,)),
            lp.GlobalArg("out", np.int32, shape=f"groups, {lanes}"),
            lp.ValueArg("groups, rounds, degree", np.int32),
        ],
        name="local_loads",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return written_out(unit)


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the links, each to the word 32 positions later, modulo the length of the tile."""
    return {
        "links": (np.arange(WORDS, dtype=np.int32) + BANKS) % WORDS,
        "out": np.zeros((sizes["groups"], sizes["lanes"]), np.int32),
        **integers("groups, rounds, degree", sizes),
    }


def last_words(warp_size: int, arguments: Arguments) -> dict[str, Array]:
    """Return out: the initial word plus 32 for each load, modulo the length of the tile."""
    out = np.asarray(arguments["out"])
    lane, warp = numbers_in_group(out) % warp_size, numbers_in_group(out) // warp_size
    first = int(arguments["degree"]) * lane + warp
    last = (first + BANKS * STEPS * int(arguments["rounds"])) % WORDS
    return in_all_groups(last, out)
