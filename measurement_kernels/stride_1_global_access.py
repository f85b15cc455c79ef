"""Copies of vectors and of sums of vectors: out[i] = a[i]; out[i] = a[i] + b[i] + c[i] + d[i]; out[i] = i, float32.

Stevens and Klöckner, section 4.1, fifth class. A work-item stores one element. Purpose: loads and stores of stride 1
that stream from and to memory, at three ratios of loads to stores (1, 4 and 0), which distinguish the weights of loads,
stores and min(loads, stores).

The schedule doubles the smallest multiple of the group size that is at least 2^10, a power of two where the paper's
2^(p+t) is a multiple of the group size. Nine entries are measured.

Counts: n loads and n stores; 4n loads, 3n additions, n stores; n stores, and a multiplication and an addition for each,
since Loopy's C code computes i in floating point (``lid(0) + gid(0) * 16.0f``).
"""

from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "stride-1 global access"

INPUTS = {"copy": ("a",), "sum of four": ("a", "b", "c", "d"), "index": ()}
"""arrays that each form loads"""

LARGEST = 2**28
"""the paper's largest n: 2^(p+t) with p = 20, t = 8"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the paper's three forms for each 1-D group size, as far as the device supports them."""
    return [configuration(form, group) for form in INPUTS for group in limits.groups_1d()]


def configuration(form: str, group: int) -> Configuration:
    """Return one form in groups of *group* work-items."""
    return Configuration(
        label=f"{form}, group {group}",
        build=partial(copy, form, group),
        sizes=tuple({"n": n} for n in doubling(at_least=2**10, multiple_of=group, at_most=LARGEST)),
        arguments=partial(arguments, form),
        reference=partial(copied, form),
        steps=9,
    )


def copy(form: str, group: int) -> lp.TranslationUnit:
    """Return the kernel of one form for groups of *group* work-items."""
    names = INPUTS[form]
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "out[i] = " + (" + ".join(f"{name}[i]" for name in names) or "i"),
        [lp.GlobalArg(name, np.float32, shape="n") for name in (*names, "out")] + [lp.ValueArg("n", np.int32)],
        name="stride_1_global_access",
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(form: str, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random input vectors and zeros for out."""
    n = sizes["n"]
    inputs = {name: rng.random(n, dtype=np.float32) for name in INPUTS[form]}
    return {**inputs, "out": np.zeros(n, dtype=np.float32), "n": np.int32(n)}


def copied(form: str, arguments: Arguments) -> dict[str, Array]:
    """Return out."""
    inputs = [np.asarray(arguments[name]) for name in INPUTS[form]]
    index = np.arange(int(arguments["n"]), dtype=np.float32)
    return {"out": np.sum(inputs, axis=0) if inputs else index}
