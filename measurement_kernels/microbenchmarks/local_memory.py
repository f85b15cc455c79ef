"""Chains of dependent loads from local memory, without and with bank conflicts: i ← tile[i].

Each lane follows links that are 32 words apart, so that it stays on its bank; lane l of warp w begins at word
degree·l + w, so that no two warps of a group load the same. With degree 1 the lanes of a warp have a bank each, with
degree 2 two of them share one, with degree 32 all do. A warp on its own tells the completion latency and how it grows
(Λ + D·λ with D further accesses of a bank, Lemeire, section 6.3), a full core the issue latency, (1 + D)·λ. The address
of an element costs an instruction or so, which is in the times.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._rounds import configuration, in_all_groups, integers, numbers_in_group, occupied, rounds, written_out

NAME = "local memory"

BANKS = 32
"""of NVIDIA's and AMD's local memory, a word wide"""
WORDS = 2048
"""of the tile: 64 lanes 32 words apart"""
STEPS = 32
"""loads of a round"""
DEGREES = (1, 2, 4, 8, 16, 32)


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return groups of one and of several warps: without conflicts in all grids, with them in the first or last."""
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
    """Return the chain, in groups of *lanes* work-items."""
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
    """Return the links, each to the word 32 further on, the last ones to the first."""
    return {
        "links": (np.arange(WORDS, dtype=np.int32) + BANKS) % WORDS,
        "out": np.zeros((sizes["groups"], sizes["lanes"]), np.int32),
        **integers("groups, rounds, degree", sizes),
    }


def last_words(warp_size: int, arguments: Arguments) -> dict[str, Array]:
    """Return out: the first word and 32 for each load, modulo the length of the tile."""
    out = np.asarray(arguments["out"])
    lane, warp = numbers_in_group(out) % warp_size, numbers_in_group(out) // warp_size
    first = int(arguments["degree"]) * lane + warp
    last = (first + BANKS * STEPS * int(arguments["rounds"])) % WORDS
    return in_all_groups(last, out)
