"""Rounds of arithmetic in registers, on one value or on several independent values: out[i] = Σᵥ xᵥ.

Each work-item of a group of 256 executes ``rounds`` rounds with several steps on each of its values
(``_steps_of_arithmetic.py``), and stores their sum. With one value, each step depends on the previous one, which
measures latency. With eight, a core can have eight in flight, and a compiler may combine them into one vector
instruction, which measures throughput.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

from ._steps_of_arithmetic import GROUP, Arithmetic, in_all_groups

ROUNDS = 16
LARGEST = 2**16
"""maximum number of groups"""


def configuration(arithmetic: Arithmetic, values: int, steps: int) -> Configuration:
    """Return rounds of *steps* steps on each of *values* values, for increasing grid sizes."""
    sizes = tuple({"groups": n, "rounds": ROUNDS} for n in doubling(at_least=1, multiple_of=1, at_most=LARGEST))
    return Configuration(
        label=f"{arithmetic.name}, group {GROUP}",
        build=partial(rounds_of_arithmetic, arithmetic, values, steps),
        sizes=sizes,
        arguments=partial(arguments, arithmetic),
        reference=partial(sums, arithmetic, values, steps),
        steps=3,
        stride=2,
    )


def fits(limits: DeviceLimits) -> bool:
    """Return whether the device supports the group size."""
    return limits.group_size >= GROUP


def rounds_of_arithmetic(arithmetic: Arithmetic, values: int, steps: int) -> lp.TranslationUnit:
    """Return the kernel for groups of 256 work-items."""
    total = " + ".join(f"x{value}" for value in range(values))
    unit = lp.make_kernel(
        f"{{[g, l, r]: 0 <= g < groups and 0 <= l < {GROUP} and 0 <= r < rounds}}",
        "\n".join(
            [
                "for g, l",
                *arithmetic.declarations(values),
                "for r",
                *arithmetic.statements(values, steps),
                "end",
                f"out[g, l] = {total}",
                "end",
            ]
        ),
        [
            lp.GlobalArg("out", arithmetic.dtype, shape=f"groups, {GROUP}"),
            *arithmetic.data(),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="rounds_of_arithmetic",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def arguments(arithmetic: Arithmetic, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the scalars and zeros for out; nothing is random."""
    return {
        "out": np.zeros((sizes["groups"], GROUP), arithmetic.dtype),
        **arithmetic.scalars(),
        **{name: np.int32(sizes[name]) for name in ("groups", "rounds")},
    }


def sums(arithmetic: Arithmetic, values: int, steps: int, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    out: Array = np.asarray(arguments["out"])
    last = arithmetic.after(arithmetic.firsts(values), int(arguments["rounds"]) * steps)
    return {"out": in_all_groups(np.sum(last, axis=0), out).reshape(out.shape)}
