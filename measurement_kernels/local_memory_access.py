"""Loads and stores of local memory in rounds between barriers, in three ratios, three widths, and by bank conflicts.

A group of 32 × 8 work-items (x, y), each with a value v, has a tile t of local memory. In each of 32 rounds, by form:

- "loads": v ← v + Σ_{k<8} t[pitch·x + y + k], a barrier: 8 loads, 8 additions;
- "stores": store v to 8 elements, a barrier, v ← −(the last element of lane 31 − x), a barrier: 8 stores, 1 load;
- "exchange": the same with one element: 1 store, 1 load.

Barriers keep compilers from holding the tile in registers, because other work-items might have stored to it.

With pitch 1 each lane of a warp has its own memory bank; with pitch 0 all lanes load the same word, as in a tile of a
matrix product or the bodies of an n-body kernel. With pitch p = 2, 4, ... 32, p lanes of a GPU's warp share each bank
and are serialized: these forms are measured for models of bank conflicts, and the linear model is not fitted to them.

Purpose: the paper's kernels have nearly as many local stores as barriers, only loads of 32 bits, and none that dominate
their global loads (the weight of local loads is negative in its Table 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Arguments, Array, Configuration, DeviceLimits, Sizes, doubling

NAME = "local memory access"

COLUMNS, ROWS = 32, 8
LANES = COLUMNS * ROWS
FILL = 1024
"""elements of the tile in the forms that load: no lane reads beyond it at any pitch"""
STEPS = 8
"""loads or stores per round"""
ROUNDS = 32
LARGEST = 2**14
"""maximum number of groups"""
TYPES: Mapping[int, type[np.generic]] = {32: np.float32, 64: np.float64, 128: np.complex128}
"""element type by bits"""
CONFLICTING = (2, 4, 8, 16, 32)
"""pitches with bank conflicts"""


@dataclass(frozen=True, slots=True)
class Form:
    """The operations of a round and the width of the elements."""

    bits: int = 32
    pitch: int | None = None
    """words between the loads of neighboring lanes"""
    stores: int = 0
    """stores per round in the forms that store"""

    @property
    def label(self) -> str:
        """Return the configuration's label."""
        work = f"loads, pitch {self.pitch}" if self.pitch is not None else {1: "exchange", STEPS: "stores"}[self.stores]
        return f"{work}, {self.bits}-bit, group {COLUMNS}x{ROWS}"

    @property
    def elements(self) -> int:
        """Return the number of elements in the tile."""
        return LANES * self.stores or FILL

    @property
    def dtype(self) -> type[np.generic]:
        """Return the element type."""
        return TYPES[self.bits]


def configurations(limits: DeviceLimits) -> list[Configuration]:
    """Return the forms in each width, and loads at each pitch, as far as the device supports them."""
    forms = [form for bits in TYPES for form in (Form(bits, pitch=1), Form(bits, stores=STEPS), Form(bits, stores=1))]
    forms += [Form(pitch=pitch) for pitch in (0, *CONFLICTING)]
    sizes = tuple({"groups": n, "rounds": ROUNDS} for n in doubling(at_least=1, multiple_of=1, at_most=LARGEST))
    return [
        Configuration(
            label=form.label,
            build=partial(local_memory_access, form),
            sizes=sizes,
            arguments=partial(arguments, form),
            reference=partial(last_values, form),
            steps=3,
            stride=2,
            beyond="bank conflicts" if form.pitch in CONFLICTING else "",
        )
        for form in forms
        if limits.group_size >= LANES and form.elements * form.bits // 8 <= limits.local_memory
    ]


def local_memory_access(form: Form) -> lp.TranslationUnit:
    """Return the kernel of one form for groups of 32 × 8 work-items."""
    before, rounds = exchange(form.stores) if form.stores else loads(form)
    unit = lp.make_kernel(
        f"{{[g, x, y, r, m]: 0 <= g < groups and 0 <= x < {COLUMNS} and 0 <= y < {ROWS} and 0 <= r < rounds "
        f"and 0 <= m < {FILL // LANES}}}",
        "\n".join(["for g, x, y", *before, "for r", *rounds, "end", f"out[g, {COLUMNS}*y + x] = v", "end"]),
        [
            lp.GlobalArg("a", form.dtype, shape=(FILL,)),
            lp.GlobalArg("out", form.dtype, shape=f"groups, {LANES}"),
            lp.TemporaryVariable("v", form.dtype),
            lp.TemporaryVariable("t", form.dtype, shape=(form.elements,), address_space=lp.AddressSpace.LOCAL),
            lp.ValueArg("groups, rounds", np.int32),
        ],
        name="local_memory_access",
        seq_dependencies=True,
        assumptions="groups >= 1 and rounds >= 1",
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "x": "l.0", "y": "l.1"})


BARRIER = "... lbarrier {mem_kind=local}"


def loads(form: Form) -> tuple[list[str], list[str]]:
    """Return the statements that fill the tile, and those of a round of loads."""
    lane = f"{LANES}*m + {COLUMNS}*y + x"
    fill = ["for m", f"t[{lane}] = a[{lane}]", "end", "v = 0", BARRIER]
    return fill, [*(f"v = v + t[{form.pitch}*x + y + {step}]" for step in range(STEPS)), BARRIER]


def exchange(stores: int) -> tuple[list[str], list[str]]:
    """Return the statement that initializes v, and those of a round of stores and one load."""
    puts = [f"t[{LANES * step} + {COLUMNS}*y + x] = v" for step in range(stores)]
    # Without the change of sign, PoCL's compiler copies complex numbers from tile to tile, across the barrier.
    get = f"v = -t[{LANES * (stores - 1)} + {COLUMNS}*y + {COLUMNS - 1} - x]"
    return [f"v = a[{COLUMNS}*y + x]"], [*puts, BARRIER, get, BARRIER]


def arguments(form: Form, rng: np.random.Generator, sizes: Sizes) -> Arguments:
    """Return random contents of the tile and zeros for out."""
    return {
        "a": rng.random(FILL).astype(form.dtype),
        "out": np.zeros((sizes["groups"], LANES), form.dtype),
        **{name: np.int32(sizes[name]) for name in ("groups", "rounds")},
    }


def last_values(form: Form, arguments: Arguments) -> dict[str, Array]:
    """Return out, whose rows are equal."""
    a: Array = np.asarray(arguments["a"])
    out: Array = np.asarray(arguments["out"])
    rounds = int(arguments["rounds"])
    y, x = np.divmod(np.arange(LANES), COLUMNS)
    if form.pitch is None:
        row = -a[COLUMNS * y + COLUMNS - 1 - x] if rounds % 2 else a[COLUMNS * y + x]
    else:
        row = rounds * np.sum(a[np.add.outer(np.arange(STEPS), form.pitch * x + y)], axis=0)
    return {"out": np.tile(row.astype(out.dtype), (out.shape[0], 1))}
