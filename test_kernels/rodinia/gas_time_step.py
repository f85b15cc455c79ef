"""A gas on a mesh of n cells: a Runge-Kutta time step with given fluxes, float32.

    v[k,i] = old[k,i] + factor[i]/stages · flux[k,i]      for 0 ≤ i < n and the five variables k

time_step from Lemeire, table 9, part of the solver of Euler's equations. stages is the number of remaining stages: 3, 2
or 1. A work-item computes one cell.

The kernel tests bandwidth alone: 11 independent coalesced loads and 5 stores.

Counts per cell, of which there are n: 11 loads, 5 stores, 1 division, 5 multiplications, 5 additions.
"""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes

from ._gas import GROUP, VARIABLES
from ._groups import in_groups_of

NAME = "time_step"

LARGEST = 2**23
"""the largest n, with three arrays of 160 MiB"""


def configurations(limits: DeviceLimits, group: int = GROUP) -> list[Configuration]:
    """Return the kernel for groups of *group* work-items, if the device supports them."""
    return in_groups_of(group, limits, time_step, arguments, advanced, LARGEST)


def time_step(group: int = GROUP) -> lp.TranslationUnit:
    """Return the time step for groups of *group* work-items."""
    knl = lp.make_kernel(
        f"{{[i, k]: 0 <= i < n and 0 <= k < {VARIABLES}}}",
        """
        for i
            <> length = factor[i]/stages
            for k
                v[k, i] = old[k, i] + length*flux[k, i]
            end
        end
        """,
        [
            lp.GlobalArg("v, old, flux", np.float32, shape=f"{VARIABLES}, n"),
            lp.GlobalArg("factor", np.float32, shape="n"),
            lp.ValueArg("stages", np.float32),
            lp.ValueArg("n", np.int32),
        ],
        name="time_step",
        seq_dependencies=True,
        assumptions=f"n mod {group} = 0 and n >= {group}",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", group, outer_tag="g.0", inner_tag="l.0")
    return lp.tag_inames(knl, {"k": "unr"})


def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random variables, fluxes and factors; all are non-negative, which avoids cancellation."""
    shape = (VARIABLES, sizes["n"])
    return {
        "v": np.zeros(shape, dtype=np.float32),
        "old": rng.random(shape, dtype=np.float32),
        "flux": rng.random(shape, dtype=np.float32),
        "factor": rng.random(sizes["n"], dtype=np.float32),
        "stages": np.float32(3),
        "n": np.int32(sizes["n"]),
    }


def advanced(arguments: Arguments) -> dict[str, Array]:
    """Return v."""
    old, flux, factor = (np.asarray(arguments[name], dtype=np.float64) for name in ("old", "flux", "factor"))
    return {"v": (old + factor / float(arguments["stages"]) * flux).astype(np.float32)}
