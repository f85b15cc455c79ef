"""Sixteen steps of arithmetic on each element of a vector: out[i] = x₁₆ with x₀ = a[i], by kind and type.

Straight-line code without a loop, as in most kernels that map a function over an array: a processor's compiler can only
vectorize over work-items. There is a load and a store for 16 steps, enough of both that one does not hide the
other completely.

Counts per work-item: 16 steps, a load and a store of stride 1. ``_steps_of_arithmetic.py`` has the steps.
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

from ._steps_of_arithmetic import FIRST, FLOATS, GROUP, Arithmetic

NAME = "arithmetic on vectors"

STEPS = 16
LARGEST = 2**18
"""maximum number of groups"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each kind and type in groups of 256, if the device supports them."""
    sizes = tuple({"groups": n} for n in doubling(at_least=4, multiple_of=1, at_most=LARGEST))
    return [
        Configuration(
            label=f"{arithmetic.name}, group {GROUP}",
            build=partial(arithmetic_on_vectors, arithmetic),
            sizes=sizes,
            arguments=partial(arguments, arithmetic),
            reference=partial(last_values, arithmetic),
            steps=3,
            stride=3,
        )
        for arithmetic in FLOATS
        if limits.group_size >= GROUP
    ]


def arithmetic_on_vectors(arithmetic: Arithmetic) -> lp.TranslationUnit:
    """Return the kernel for groups of 256 work-items."""
    unit = lp.make_kernel(
        f"{{[g, l]: 0 <= g < groups and 0 <= l < {GROUP}}}",
        "\n".join(
            [
                "for g, l",
                f"<{np.dtype(arithmetic.dtype).name}> x0 = a[g, l]",
                *arithmetic.statements(1, STEPS),
                "out[g, l] = x0",
                "end",
            ]
        ),
        [
            lp.GlobalArg("a, out", arithmetic.dtype, shape=f"groups, {GROUP}"),
            *(lp.ValueArg(name, arithmetic.dtype) for name in arithmetic.kind.scalars),
            lp.ValueArg("groups", np.int32),
        ],
        name="arithmetic_on_vectors",
        seq_dependencies=True,
        assumptions="groups >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "l": "l.0"})


def arguments(arithmetic: Arithmetic, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return the scalars, random elements from FIRST to 1/2, and zeros for out."""
    shape = (sizes["groups"], GROUP)
    scalars = arithmetic.scalars()
    return {
        "a": rng.uniform(FIRST, 0.5, shape).astype(arithmetic.dtype),
        "out": np.zeros(shape, arithmetic.dtype),
        **{name: scalars[name] for name in arithmetic.kind.scalars},
        "groups": np.int32(sizes["groups"]),
    }


def last_values(arithmetic: Arithmetic, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    return {"out": arithmetic.after(np.asarray(arguments["a"]), STEPS)}
