"""Product of two n × n matrices without local memory: c[i,j] = Σₖ a[i,k]·b[k,j], row-major, float32.

Stevens and Klöckner, section 4.1, second class. A work-item computes one element of c, with j along l.0. Purpose: loads
that caches serve. a[i,k] is the same for all lanes of a row (stride 0), b[k,j] has stride 1, and there is one
multiplication and one addition for each pair.

Sizes: the schedule doubles the smallest multiple of lcm(gx, gy) that is at least 32, a power of two where the paper's
2^(p+t) is a multiple of the group's sides, so that groups always divide the matrix.

Counts: n³ additions, n³ multiplications, n³ loads of stride 0, n³ of stride 1, n² stores of stride 1.
"""

from functools import partial
from math import lcm

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Group, Sizes, doubling

NAME = "naive matrix multiplication"

LARGEST = 2**12
"""the paper's largest n: 2^(p+t) with p = 9, t = 3"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return one configuration for each 2-D group size that the device supports."""
    return [
        Configuration(
            label=f"group {group[0]}x{group[1]}",
            build=partial(naive_matrix_multiplication, group),
            sizes=tuple({"n": n} for n in doubling(at_least=32, multiple_of=lcm(*group), at_most=LARGEST)),
            arguments=arguments,
            reference=product,
        )
        for group in limits.groups_2d()
    ]


def naive_matrix_multiplication(group: Group) -> lp.TranslationUnit:
    """Return the product without tiles for groups of (extent of l.0, extent of l.1) work-items."""
    columns, rows = group
    knl = lp.make_kernel(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
        name="naive_matrix_multiplication",
        assumptions=f"n mod {lcm(columns, rows)} = 0 and n >= {lcm(columns, rows)}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(knl, "j", columns, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random matrices a and b, and zeros for c; a and b are non-negative, which avoids cancellation."""
    n = sizes["n"]
    return {
        "a": rng.random((n, n), dtype=np.float32),
        "b": rng.random((n, n), dtype=np.float32),
        "c": np.zeros((n, n), dtype=np.float32),
        "n": np.int32(n),
    }


def product(arguments: Arguments) -> dict[str, Array]:
    """Return c = a·b."""
    return {"c": np.matmul(arguments["a"], arguments["b"])}
