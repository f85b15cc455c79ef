"""Partial sums of n numbers, float32, in the seven steps of a well-known optimization tutorial.

    out[g] = Σ x[i] over the elements i of group g

Sim et al., section 6.3 and table 4, whose kernels are those of NVIDIA's SDK sample "reduction" (M. Harris, *Optimizing
parallel reduction in CUDA*). A group of G work-items fetches G numbers into a tile in local memory, and adds them up
there in a tree of log₂ G levels: at each level, tile[i] becomes tile[i] + tile[i + s] for some i.

==  =========================================================================  =====================  ================
..  change                                                                     s, level by level       i
==  =========================================================================  =====================  ================
K0  interleaved addresses: some lanes of nearly every warp have work           1, 2, 4, …, G/2        l, if l mod 2s = 0
K1  the first lanes have all the work, 2s apart: bank conflicts                1, 2, 4, …, G/2        2s·l, if < G
K2  sequential addresses: no conflicts                                         G/2, G/4, …, 1         l, if l < s
K3  a work-item adds two numbers as it fetches them: a group has 2G elements   as K2                  as K2
K4  levels within a warp are unrolled, without barriers                        as K2                  as K2
K5  all levels are unrolled                                                    as K2                  as K2
K6  a work-item adds many numbers, n/(64·G): there are always 64 groups        as K2                  as K2
==  =========================================================================  =====================  ================

The levels of K0 to K3, and those of K4 above a warp, are a loop with a barrier in each iteration; s is a shift by the
iteration number. The sample's loop ends at the group size; this one similarly ends at a run-time value, ``levels``, so
that a compiler cannot unroll it completely and s is in a register. The remainder in K0 is Loopy's for signed integers;
the sample's is unsigned.

The lanes of a warp execute in lockstep and need no barriers if the compiler keeps the tile in memory: these kernels use
Loopy's target with volatile accesses. All 32 lanes participate in each of these levels, and the results above tile[s]
are not used. If warps are smaller, or the driver reports no size, the barriers remain. Since Volta, lockstep execution
is common but not guaranteed.

The numbers are floats, unlike the sample's integers, so that all integer arithmetic is that of subscripts. Numbers in
[0, 1) are added in a tree nearly without loss of precision.

Counts per group: G − 1 additions in the tree, of lanes with useful work; K0 to K3: 1 + log₂ G barriers.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import loopy as lp
import numpy as np
from loopy.target.pyopencl import VolatileMemPyOpenCLTarget

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "reduction"

GROUPS = (128, 256, 512)
"""work-items per group; the paper does not specify them, Harris measures 128"""
SMALLEST, LARGEST = 2**16, 2**24
"""minimum and maximum n; Harris measures 2²²"""
FEW = 64
"""groups of K6, as in the sample"""
WARP = 32
"""lanes that execute in lockstep"""
IN_WARP = "in_warp"
"""prefix of the ids of statements without barriers between them"""
BARRIER = "\n... lbarrier {mem_kind=local}"


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return each kernel for groups of each size that the device supports."""
    in_step = limits.warp_size >= WARP
    groups = [group for group in GROUPS if group <= limits.group_size and 4 * group <= limits.local_memory]
    return [_configuration(name, group, in_step) for group in groups for name in STEPS]


def _configuration(name: str, group: int, in_step: bool) -> Configuration:
    step = STEPS[name]
    return Configuration(
        label=f"{name}, group {group}",
        build=partial(reduction, name, group, in_step),
        sizes=tuple(step.sizes(group, n) for n in doubling(SMALLEST, step.swept(group), LARGEST)),
        arguments=partial(arguments, step, group),
        reference=partial(partial_sums, step.elements(group)),
    )


def reduction(name: str, group: int = 128, in_step: bool = True) -> lp.TranslationUnit:
    """Return the kernel *name*, K0 to K6, for groups of *group* work-items.

    There is a barrier at each level unless the lanes of a warp execute *in_step*.
    """
    step = STEPS[name]
    tree, swept = step.tree(group, in_step), step.swept(group)
    # If Loopy could derive that there is at most one iteration, as in K4 with groups of 128, it would generate a
    # condition instead of the loop, and no barrier within it: so the assumptions allow for all levels of a tree.
    told = f" and 0 <= levels <= {_levels(group)}" if step.is_loop else ""
    together = f" {{nosync={IN_WARP}*}}" if IN_WARP in tree else ""
    unit = lp.make_kernel(
        [
            f"{{[g, l]: 0 <= g and {step.elements(group)}*g < {swept if step.groups else 'n'} and 0 <= l < {group}}}",
            f"{{[j]: 0 <= j and {swept}*j < n}}",
            *(["{[k]: 0 <= k < levels}"] if step.is_loop else []),
        ],
        f"""
        up(k) := 1 << k
        down(k) := {group // 2} >> k
        for g, l
            tile[l] = {step.fetched(group)}
            {tree}
            if l == 0
                out[g] = tile[0]{together}
            end
        end
        """,
        [
            lp.TemporaryVariable("tile", np.float32, shape=(group,), address_space=lp.AddressSpace.LOCAL),
            lp.GlobalArg("x", np.float32, shape="n"),
            lp.GlobalArg("out", np.float32, shape=step.groups or f"n // {step.elements(group)}"),
            lp.ValueArg("n, levels" if step.is_loop else "n", np.int32),
        ],
        name=f"reduction_{name}",
        seq_dependencies=True,
        assumptions=f"n mod {swept} = 0 and n >= {swept}{told}",
        target=VolatileMemPyOpenCLTarget() if together else lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    return lp.tag_inames(lp.remove_unused_inames(unit), {"g": "g.0", "l": "l.0"})


@dataclass(frozen=True, slots=True)
class Step:
    """Differences between the kernels."""

    fetched: Callable[[int], str]
    """returns the expression that a work-item of a group of the given size stores to the tile"""
    tree: Callable[[int, bool], str]
    """returns the levels; the second argument is whether the lanes of a warp execute in lockstep"""
    numbers: int
    """numbers that a work-item fetches; for K6, per iteration"""
    written_out: int | None = 0
    """unrolled levels after the loop; None without a loop"""
    groups: int | None = None
    """fixed number of groups; None if it depends on n"""

    def elements(self, group: int) -> int:
        """Return the number of elements that a group of the given size fetches; for K6, per iteration."""
        return self.numbers * group

    def swept(self, group: int) -> int:
        """Return the number of which n is a multiple."""
        return self.elements(group) * (self.groups or 1)

    @property
    def is_loop(self) -> bool:
        """Return whether some levels are iterations of a loop."""
        return self.written_out is not None

    def sizes(self, group: int, n: int) -> Sizes:
        """Return n, and the number of iterations of the loop over levels."""
        return {"n": n} if self.written_out is None else {"n": n, "levels": _levels(group) - self.written_out}


def _levels(group: int) -> int:
    """Return the number of levels of a tree, log₂ of *group*."""
    return group.bit_length() - 1


# {{{ fetches


def one(group: int) -> str:
    """Return the fetch of K0 to K2."""
    return f"x[{group}*g + l]"


def two(group: int) -> str:
    """Return the fetch of K3 to K5."""
    return f"x[{2 * group}*g + l] + x[{2 * group}*g + l + {group}]"


def many(group: int) -> str:
    """Return the fetch of K6."""
    first = f"{2 * group * FEW}*j + {2 * group}*g + l"
    return f"sum(j, x[{first}] + x[{first} + {group}])"


# }}}

# {{{ trees


def divergent(group: int, in_step: bool) -> str:
    """Return the levels of K0."""
    return _loop("l % (2*up(k)) == 0", "l", "up(k)")


def conflicting(group: int, in_step: bool) -> str:
    """Return the levels of K1."""
    return _loop(f"2*up(k)*l < {group}", "2*up(k)*l", "up(k)")


def sequential(group: int, in_step: bool) -> str:
    """Return the levels of K2 and K3."""
    return _loop("l < down(k)", "l", "down(k)")


def last_warp_written_out(group: int, in_step: bool) -> str:
    """Return the levels of K4."""
    return sequential(group, in_step) + _in_warp(in_step)


def all_written_out(group: int, in_step: bool) -> str:
    """Return the levels of K5 and K6."""
    above_a_warp = [group >> level for level in range(1, _levels(group // WARP))]
    return "".join(_level(f"l < {stride}", "l", stride) for stride in above_a_warp) + _in_warp(in_step)


def _loop(condition: str, at: str, stride: str) -> str:
    return f"\nfor k {_level(condition, at, stride)} \nend"


def _level(condition: str, at: str, stride: object, options: str = "", barrier: str = BARRIER) -> str:
    return f"""{barrier}
        if {condition}
            tile[{at}] = tile[{at}] + tile[{at} + {stride}] {options}
        end"""


def _in_warp(in_step: bool) -> str:
    """Return the levels within a warp; the first barrier is for numbers from other warps."""
    strides = [WARP >> level for level in range(WARP.bit_length())]
    if not in_step:
        return "".join(_level(f"l < {stride}", "l", stride) for stride in strides)
    options = {stride: f"{{id={IN_WARP}_{stride}, nosync={IN_WARP}*}}" for stride in strides}
    return BARRIER + "".join(_level(f"l < {WARP}", "l", each, options[each], barrier="") for each in strides)


# }}}

STEPS: Mapping[str, Step] = MappingProxyType(
    {
        "K0": Step(one, divergent, numbers=1),
        "K1": Step(one, conflicting, numbers=1),
        "K2": Step(one, sequential, numbers=1),
        "K3": Step(two, sequential, numbers=2),
        "K4": Step(two, last_warp_written_out, numbers=2, written_out=WARP.bit_length()),
        "K5": Step(two, all_written_out, numbers=2, written_out=None),
        "K6": Step(many, all_written_out, numbers=2, written_out=None, groups=FEW),
    }
)


def arguments(step: Step, group: int, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random numbers, zeros for out, and the sizes."""
    n = sizes["n"]
    out = np.zeros(step.groups or n // step.elements(group), np.float32)
    told = {name: np.int32(value) for name, value in sizes.items()}
    return {"x": rng.random(n, dtype=np.float32), "out": out, **told}


def partial_sums(elements: int, arguments: Arguments) -> dict[str, Array]:
    """Return out, for groups that fetch *elements* at a time in turn."""
    x, out = np.asarray(arguments["x"]), np.asarray(arguments["out"])
    by_turn = x.reshape(-1, out.size, elements)
    return {"out": by_turn.sum(axis=(0, 2), dtype=np.float64).astype(np.float32)}
