"""A gas on a mesh of n cells: the maximum time step for the size of each cell, float32.

    factor[i] = 1 / (2·√volume[i]·s[i])      for 0 ≤ i < n

compute_step_factor from Lemeire, table 9, part of the solver of Euler's equations. s is the speed of the fastest wave,
which ``_gas.py`` derives from the five variables of a cell. A work-item computes one cell.

The kernel tests dependent divisions and square roots after six coalesced loads.

Counts per cell, of which there are n: 6 loads, 1 store, 5 divisions, 3 square roots, 8 multiplications, 4 additions and
subtractions.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._gas import GROUP, VARIABLES, derived, gas_in, random_variables
from ._groups import in_groups_of

NAME = "compute_step_factor"

LARGEST = 2**23
"""the largest n, with variables of 160 MiB"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, step_factor, arguments, factors, LARGEST)


def step_factor(group: int = GROUP) -> lp.TranslationUnit:
    """Return the kernel for groups of *group* work-items."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        f"""
        for i
            {derived("i")}
            factor[i] = 0.5f/(sqrt(volume[i])*speed)
        end
        """,
        [
            lp.GlobalArg("v", np.float32, shape=f"{VARIABLES}, n"),
            lp.GlobalArg("volume, factor", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="compute_step_factor",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random variables, volumes between 1 and 2, and zeros for the factors."""
    n = sizes["n"]
    return {
        "v": random_variables(rng, n),
        "volume": 1 + rng.random(n, dtype=np.float32),
        "factor": np.zeros(n, dtype=np.float32),
        "n": np.int32(n),
    }


def factors(arguments: Arguments) -> dict[str, Array]:
    """Return the factors."""
    factor = 0.5 / (np.sqrt(np.asarray(arguments["volume"])) * gas_in(arguments["v"]).speed)
    return {"factor": factor.astype(np.float32)}
