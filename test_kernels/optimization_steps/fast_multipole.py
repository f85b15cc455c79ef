"""U list of the fast multipole method: potentials at the points of each leaf due to the points of nearby leaves.

    out[B,t] = Σ_{S ∈ U(B)} Σ_{s ∈ S} d[s] / √(|x[B,t] − y[s]|² + ε)      for each leaf B, each target point t in it

Sim et al., section 6.2, algorithm 1; the optimizations are those of section 6.2.1. A group processes a leaf of 256
target points, and each work-item one or two of them. Each work-item loops over the source points of the nearby leaves
and keeps the sum in a register.

===========  ==========================================================================================================
vecpack      load the coordinates and the density of a source as one float4 of 128 bits instead of four floats
rsqrt        compute the reciprocal square root by one special function instead of a root and a division
shmem        fetch each leaf's sources into local memory in their stored layout, and read them there
ujam         unroll and jam: a work-item keeps two targets in registers and uses each loaded source for both
===========  ==========================================================================================================

The labels list the optimizations of a kernel; ``baseline`` has none. Figure 12 applies vecpack, rsqrt, shmem and ujam
one after another. Prefetching into registers, which does not help in that figure, is omitted, as are ``tight`` and
``trans``.

Leaves have the same number of points and form a sequence. U(B) consists of the 27 leaves from 13 before B to 13 after
it (the same number as in an octree of equal leaves). No list of leaves needs to be loaded, so the loads of a group do
not depend on data. Sources have 13 more leaves at both ends. The ε keeps terms finite, as in the n-body kernel.

Counts per pair: 3 subtractions, 3 exponentiations (squares), 3 additions, a root and a division, or rsqrt and a
multiplication, 1 addition of the sum. A work-item has 6912 sources; the loads of each serve one target or two.
"""

from collections.abc import Iterator
from functools import partial
from itertools import product

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "fast multipole, U list"

LEAF = 256
"""points per leaf; Sim's q is of the order of 1000"""
NEAR = 27
"""number of leaves in U(B), including B"""
EPSILON = 2.0**-10
SMALLEST, LARGEST = 4, 2**12
"""minimum and maximum number of leaves"""
OPTIMIZATIONS = ("vecpack", "rsqrt", "shmem", "ujam")
"""in the order of Sim's figure 12"""
BARRIER = "... lbarrier {mem_kind=local}"
PACKED = {"sources": "N1, N0, vec", "source": "vec", "tile": "vec, N0"}
"""axes of the arrays in which the data of a source form a vector"""


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the kernels with each subset of optimizations that the device supports."""
    return [_configuration(chosen) for chosen in _choices() if _fits(chosen, limits)]


def _choices() -> Iterator[frozenset[str]]:
    for taken in product((False, True), repeat=len(OPTIMIZATIONS)):
        yield frozenset(name for name, is_taken in zip(OPTIMIZATIONS, taken, strict=True) if is_taken)


def _fits(chosen: frozenset[str], limits: DeviceLimits) -> bool:
    return _lanes(chosen) <= limits.group_size and ("shmem" not in chosen or limits.local_memory >= 16 * LEAF)


def _lanes(chosen: frozenset[str]) -> int:
    return LEAF // 2 if "ujam" in chosen else LEAF


def _configuration(chosen: frozenset[str]) -> Configuration:
    return Configuration(
        label=", ".join(name for name in OPTIMIZATIONS if name in chosen) or "baseline",
        build=partial(fast_multipole, chosen),
        sizes=tuple({"leaves": leaves} for leaves in doubling(SMALLEST, 1, LARGEST)),
        arguments=partial(arguments, "vecpack" in chosen),
        reference=partial(potentials, "vecpack" in chosen),
    )


def fast_multipole(chosen: frozenset[str] = frozenset()) -> lp.TranslationUnit:
    """Return the kernel with the *chosen* of :data:`OPTIMIZATIONS`."""
    lanes = _lanes(chosen)
    is_packed, is_tiled = "vecpack" in chosen, "shmem" in chosen
    inverse = "*rsqrt(square)" if "rsqrt" in chosen else "/sqrt(square)"
    unit = lp.make_kernel(
        f"{{[leaf, l, t, u, s, c, r, d]: 0 <= leaf < leaves and 0 <= l < {lanes} and 0 <= t, r < {LEAF // lanes} and "
        f"0 <= u < {NEAR} and 0 <= s < {LEAF} and 0 <= c, d < 4}}",
        f"""
        near(c, u, s) := sources[{"leaf + u, s, c" if is_packed else "c, leaf + u, s"}]
        for leaf, l
            for t
                <> x0 = targets[0, leaf, {lanes}*t + l]
                <> x1 = targets[1, leaf, {lanes}*t + l]
                <> x2 = targets[2, leaf, {lanes}*t + l]
                <float32> potential = 0
            end
            for u
                {_fetch(lanes) if is_tiled else ""}
                for s
                    source[c] = {"tile[c, s]" if is_tiled else "near(c, u, s)"}
                    for t
                        <> square = (x0 - source[0])**2 + (x1 - source[1])**2 + (x2 - source[2])**2 + {EPSILON}
                        potential = potential + source[3]{inverse}
                    end
                end
                {BARRIER if is_tiled else ""}
            end
            for t
                out[leaf, {lanes}*t + l] = potential
            end
        end
        """,
        _arrays(chosen),
        name="fast_multipole",
        seq_dependencies=True,
        assumptions="leaves >= 1",
        lang_version=(2018, 2),
    )
    return _mapped(unit, is_packed)


def _mapped(unit: lp.TranslationUnit, is_packed: bool) -> lp.TranslationUnit:
    """Return *unit* with its loops mapped to the device, and the data of a source as a vector if it *is_packed*."""
    unit = lp.remove_unused_inames(unit)
    kernel = unit.default_entrypoint
    members = "vec" if is_packed else "unr"
    tags = {"leaf": "g.0", "l": "l.0", "t": "ilp.unr", "r": "unr", "c": members, "d": members}
    for name, axes in PACKED.items() if is_packed else ():
        if name in kernel.arg_dict or name in kernel.temporary_variables:
            unit = lp.tag_array_axes(unit, name, axes)
    return lp.tag_inames(unit, {name: tag for name, tag in tags.items() if name in kernel.inames})


def _fetch(lanes: int) -> str:
    """Return the code by which a group of *lanes* work-items fetches the sources of a leaf."""
    return f"""
                for r
                    tile[d, {lanes}*r + l] = near(d, u, {lanes}*r + l)
                end
                {BARRIER}"""


def _arrays(chosen: frozenset[str]) -> list[lp.ArrayArg | lp.TemporaryVariable | lp.ValueArg]:
    """Return arguments and temporaries; sources have three coordinates and a density, in separate arrays or packed."""
    near = f"leaves + {NEAR - 1}, {LEAF}"
    arrays = [
        lp.GlobalArg("sources", np.float32, shape=f"{near}, 4" if "vecpack" in chosen else f"4, {near}"),
        lp.GlobalArg("targets", np.float32, shape=f"3, leaves, {LEAF}"),
        lp.GlobalArg("out", np.float32, shape=f"leaves, {LEAF}"),
        lp.ValueArg("leaves", np.int32),
        lp.TemporaryVariable("source", np.float32, shape=(4,)),
    ]
    tile = lp.TemporaryVariable("tile", np.float32, shape=(4, LEAF), address_space=lp.AddressSpace.LOCAL)
    return [*arrays, tile] if "shmem" in chosen else arrays


def arguments(is_packed: bool, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random points in the unit cube, random densities, and zeros for out; sources *is_packed* as float4."""
    leaves = sizes["leaves"]
    near = (leaves + NEAR - 1, LEAF)
    return {
        "sources": rng.random((*near, 4) if is_packed else (4, *near), dtype=np.float32),
        "targets": rng.random((3, leaves, LEAF), dtype=np.float32),
        "out": np.zeros((leaves, LEAF), np.float32),
        "leaves": np.int32(leaves),
    }


def potentials(is_packed: bool, arguments: Arguments) -> dict[str, Array]:
    """Return out, computed one leaf at a time to save memory."""
    sources, out = np.asarray(arguments["sources"]), np.zeros_like(np.asarray(arguments["out"]))
    if is_packed:
        sources = np.moveaxis(sources, -1, 0)
    for leaf, targets in enumerate(np.moveaxis(np.asarray(arguments["targets"], dtype=np.float64), 1, 0)):
        near = sources[:, leaf : leaf + NEAR].reshape(4, -1)
        squares = np.sum((targets[:, :, None] - near[:3, None, :]) ** 2, axis=0)
        out[leaf] = np.sum(near[3] / np.sqrt(squares + EPSILON), axis=1)
    return {"out": out}
