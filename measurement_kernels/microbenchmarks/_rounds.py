"""Common parts of the microbenchmarks: schedules of rounds, and grids for a given number of warps on each core.

A microbenchmark repeats a round. The size schedule doubles the rounds, and a campaign times the first number of them
that runs long enough, and twice as many: their difference excludes launch overhead. All information for evaluating the
times is among the sizes, so that an archive is self-contained:

========  ===================================================================================
size      meaning
========  ===================================================================================
rounds    number of repetitions of the round
steps     instructions, loads or barriers under investigation, per round
lanes     work-items per group
groups    groups of the grid, a multiple of the number of cores: the scheduler spreads them evenly
========  ===================================================================================
"""

from collections.abc import Callable, Iterator, Mapping

import loopy as lp
import numpy as np
from numpy.typing import NDArray

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

Values = NDArray[np.float64]

LEAST, MOST = 16, 2**20
"""minimum and maximum number of rounds"""
WARPS: Mapping[int, tuple[int, ...]] = {1: (1, 2, 4, 8), 8: (2, 3, 4)}
"""groups on each core by warps of a group: 1 to 32 warps in total. Every GPU since Fermi supports 8 groups and 32 warps
on a core; with several schedulers, powers of two and multiples of 8 give each the same number"""


def rounds(fixed: Sizes, least: int = LEAST, most: int = MOST) -> tuple[Sizes, ...]:
    """Return the size schedule that doubles the rounds from *least* to *most*, with the *fixed* other sizes."""
    return tuple({**fixed, "rounds": number} for number in doubling(at_least=least, multiple_of=1, at_most=most))


def occupied(limits: DeviceLimits) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the work-items of a group, and the numbers of groups of the grids to measure."""
    for warps, on_each_core in WARPS.items():
        lanes = warps * limits.warp_size
        if lanes <= limits.group_size:
            yield lanes, tuple(limits.cores * number for number in on_each_core)


def configuration(
    label: str,
    build: Callable[[], lp.TranslationUnit],
    ladders: tuple[tuple[Sizes, ...], ...],
    arguments: Callable[[np.random.Generator, Sizes], Arguments],
    reference: Callable[[Arguments], dict[str, Array]],
) -> Configuration:
    """Return the microbenchmark with schedules *ladders*, of each of which two numbers of rounds are timed."""
    first, *further = ladders
    return Configuration(label, build, first, arguments, reference, steps=2, further=tuple(further))


def in_groups(unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *unit* with g as groups and l as work-items."""
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def in_steps(name: str, lanes: int, steps: str, domain: str = "") -> lp.TranslationUnit:
    """Return the kernel that executes rounds of *steps*, instructions on x, which starts as p + l and is stored in out.

    Groups have *lanes* work-items. *domain* is that of the loop over s, if *steps* have a loop within the round.
    """
    inames = "g, l, r, s" if domain else "g, l, r"
    within = f" and {domain}" if domain else ""
    return lp.make_kernel(
        f"{{[{inames}]: 0 <= g < groups and 0 <= l < {lanes} and 0 <= r < rounds{within}}}",
        f"""
        for g, l
            <float32> x = p + l
            for {"r, s" if domain else "r"}
                {steps}
            end
            out[g, l] = x
        end
        """,
        [
            lp.GlobalArg("out", np.float32, shape=f"groups, {lanes}"),
            lp.ValueArg("p, q", np.float32),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name=name,
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )


def integers(names: str, sizes: Sizes) -> Arguments:
    """Return the sizes called *names* as the kernel's arguments."""
    return {name: np.int32(sizes[name]) for name in names.split(", ")}


def halving(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the arguments of steps x = x*p + q: p = 1/2, q = 1, and zeros for out; nothing is random."""
    return {
        "p": np.float32(0.5),
        "q": np.float32(1),
        **integers("groups, rounds", sizes),
        "out": np.zeros((sizes["groups"], sizes["lanes"]), np.float32),
    }


def halved(steps: int, arguments: Arguments) -> dict[str, Array]:
    """Return out after rounds of *steps* steps x = x/2 + 1 that start with x₀ = 1/2 + l: x₀/2ⁿ + 2·(1 − 1/2ⁿ)."""
    out = np.asarray(arguments["out"])
    start = 0.5 + numbers_in_group(out)
    left = 0.5 ** min(1000, steps * int(arguments["rounds"]))
    return in_all_groups(start * left + 2 * (1 - left), out)


def written_out(unit: lp.TranslationUnit) -> lp.TranslationUnit:
    """Return *unit* in groups with the loop over s unrolled, so that a round is straight-line code."""
    return lp.tag_inames(in_groups(unit), {"s": "unr"})


def numbers_in_group(out: Array) -> Values:
    """Return the number of each work-item in its group; *out* has a row for each group."""
    return np.arange(out.shape[1], dtype=np.float64)


def in_all_groups(row: Values, out: Array) -> dict[str, Array]:
    """Return the expected *out*: the same *row* for each group."""
    return {"out": np.tile(row.astype(out.dtype), (out.shape[0], 1))}
