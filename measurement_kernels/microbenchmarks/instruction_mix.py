"""β multiply-adds and one special function in a dependent chain, repeatedly, on a full core.

Lemeire, section 4.2 (after Volkov): the time of a round as a function of β shows whether one pipeline executes both
kinds (β·λ₁ + λ₂ cycles) or two (the maximum of β·λ₁ and λ₂), and whether the core issues fewer instructions per cycle
than its pipelines accept (at least (β + 1)/IL). The special function is 1/√x, with the instructions that the compiler
adds.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits

from ._rounds import (
    configuration,
    halving,
    in_all_groups,
    in_steps,
    numbers_in_group,
    occupied,
    rounds,
    written_out,
)

NAME = "instruction mix"

BETAS = (1, 2, 4, 6, 8, 12, 16, 24)
STATEMENTS = 64
"""approximate number of statements in a round"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each β, with the maximum number of warps on a core."""
    *_, (lanes, groups) = occupied(limits)
    return [
        configuration(
            f"beta {beta}, group {lanes}",
            partial(instruction_mix, beta, lanes),
            (rounds({"groups": groups[-1], "lanes": lanes, "beta": beta, "steps": repeats(beta)}),),
            halving,
            partial(last_values, beta),
        )
        for beta in BETAS
    ]


def repeats(beta: int) -> int:
    """Return how often a round contains the sequence of β + 1 instructions."""
    return STATEMENTS // (beta + 1)


def instruction_mix(beta: int, lanes: int) -> lp.TranslationUnit:
    """Return the mix for groups of *lanes* work-items."""
    sequence = "x = x*p + q\n" * beta + "x = rsqrt(x)"
    return written_out(in_steps("instruction_mix", lanes, sequence, f"0 <= s < {repeats(beta)}"))


def last_values(beta: int, arguments: Arguments) -> dict[str, Array]:
    """Return out, computed step by step."""
    out = np.asarray(arguments["out"])
    x = 0.5 + numbers_in_group(out)
    for _ in range(int(arguments["rounds"]) * repeats(beta)):
        for _ in range(beta):
            x = x * 0.5 + 1
        x = 1 / np.sqrt(x)
    return in_all_groups(x, out)
