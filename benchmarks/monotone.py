"""Count predictions that become shorter although the work of the kernel grows.

Each kernel of a corpus is predicted at pairs of sizes: n and n + 1, where n is at the edge of a warp, a group or a wave
of groups, and n + 1 and n + a group. No instruction is executed less often at the larger size. For each model, the
table shows the pairs whose predicted time falls by more than 0.5 %, separately for the exceptions that docs/errata.md
names: rows that start or end at another place in a sector, and trip counts that differ between work-items.

    .venv/bin/python benchmarks/monotone.py [--every N]
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice, product

import loopy as lp
import numpy as np
from parts.tables import show, table

import loopyperf as lpp

TOLERANCE = 0.005
PREDICTIONS = (
    ("nvidia-v100", "roofline"),
    ("nvidia-v100", "pipeline"),
    ("nvidia-a100", "roofline"),
    ("nvidia-a100", "pipeline"),
    ("nvidia-h200", "linear"),
    ("nvidia-h200", "overlap"),
)
SQUARE = "{[i,j]: 0<=i,j<n}"


@dataclass(frozen=True)
class Form:
    """A kernel of one size parameter n, with groups of any number of work-items along i."""

    domains: tuple[str, ...]
    statement: str
    shapes: Mapping[str, str]
    sizes: tuple[int, ...]
    unrolled: str = ""
    """a loop that is unrolled by four"""
    tile: int = 0
    """width of a group along j, 0 if j is a loop"""

    def build(self, group: int, dtype: type[np.generic]) -> lp.TranslationUnit:
        """Return the kernel with groups of *group* work-items."""
        arrays = [lp.GlobalArg(name, dtype, shape=shape) for name, shape in self.shapes.items()]
        size = lp.ValueArg("n", np.int32)
        unit = lp.make_kernel(
            list(self.domains), self.statement, [*arrays, size], assumptions="n >= 1", lang_version=(2018, 2)
        )
        if self.unrolled:
            unit = lp.split_iname(unit, self.unrolled, 4, inner_tag="unr")
        if self.tile:
            unit = lp.split_iname(unit, "j", self.tile, outer_tag="g.0", inner_tag="l.0")
            return lp.split_iname(unit, "i", group // self.tile, outer_tag="g.1", inner_tag="l.1")
        return lp.split_iname(unit, "i", group, outer_tag="g.0", inner_tag="l.0")

    @property
    def has_unequal_trips(self) -> bool:
        """Whether the trip count of a loop depends on the work-item."""
        return any("j<=i" in each for each in self.domains)

    @property
    def moves(self) -> bool:
        """Whether strides depend on n."""
        return any("n" in each.partition(",")[2] for each in self.shapes.values())


LINES = (31, 255, 256, 10_457, 81_919, 163_839, 960_201)
"""sizes of kernels with one loop: at the edges of warps, groups, and waves of groups on 80 cores"""
ROWS = (31, 128, 363, 1023, 2360, 5119)
FLAT = (31, 64, 127, 363, 511)
TALL = "32768"
"""length of rows whose alignment does not depend on n"""
FORMS = {
    "copy": Form(("{[i]: 0<=i<n}",), "b[i] = a[i]", {"a": "n", "b": "n"}, LINES),
    "triad": Form(("{[i]: 0<=i<n}",), "b[i] = a[i] + 3*c[i]", {"a": "n", "b": "n", "c": "n"}, LINES),
    "stencil": Form(("{[i]: 0<=i<n}",), "b[i] = a[i] + a[i+1] + a[i+2]", {"a": "n+2", "b": "n"}, LINES),
    "strided copy": Form(("{[i]: 0<=i<n}",), "b[3*i] = a[3*i]", {"a": "3*n", "b": "3*n"}, LINES),
    "exp": Form(("{[i]: 0<=i<n}",), "b[i] = exp(a[i])*sin(a[i])", {"a": "n", "b": "n"}, LINES),
    "every third": Form(("{[i]: 0<=i<n}",), "b[i] = a[i] {if=i % 3 == 0}", {"a": "n", "b": "n"}, LINES),
    "sum of 16": Form(("{[i,j]: 0<=i<n and 0<=j<16}",), "b[i] = sum(j, a[16*i + j])", {"a": "16*n", "b": "n"}, LINES),
    "unrolled": Form(
        ("{[i,j]: 0<=i<64 and 0<=j<n}",), "b[i,j] = a[i,j] + j", {"a": f"64,{TALL}", "b": f"64,{TALL}"}, FLAT, "j"
    ),
    "triangle of a vector": Form(("{[i,j]: 0<=i<n and 0<=j<=i}",), "b[i] = sum(j, a[j])", {"a": "n", "b": "n"}, ROWS),
    "pairs": Form((SQUARE,), "b[i] = sum(j, rsqrt((a[i] - a[j])*(a[i] - a[j]) + 1))", {"a": "n", "b": "n"}, ROWS),
    "lower triangle": Form(
        ("{[i,j]: 0<=i<n and 0<=j<=i}",), "b[i] = sum(j, a[j,i]*x[j])", {"a": f"n,{TALL}", "b": "n", "x": "n"}, ROWS
    ),
    "band": Form(("{[i,j]: 0<=i<n and i-8<=j<=i+8 and 0<=j<n}",), "b[i] = sum(j, a[j])", {"a": "n", "b": "n"}, LINES),
    "matrix times vector": Form((SQUARE,), "b[i] = sum(j, a[i,j]*x[j])", {"a": f"n,{TALL}", "b": "n", "x": "n"}, ROWS),
    "transposed matrix times vector": Form(
        (SQUARE,), "b[i] = sum(j, a[j,i]*x[j])", {"a": f"n,{TALL}", "b": "n", "x": "n"}, ROWS
    ),
    "product": Form(
        ("{[i,j,k]: 0<=i,j,k<n}",),
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        {"a": f"n,{TALL}", "b": f"n,{TALL}", "c": f"n,{TALL}"},
        FLAT,
        tile=16,
    ),
    "transposition": Form((SQUARE,), "b[j,i] = a[i,j]", {"a": f"n,{TALL}", "b": f"n,{TALL}"}, FLAT, tile=16),
    "plane": Form(
        (SQUARE,),
        "b[i+1,j+1] = a[i,j+1] + a[i+2,j+1] + a[i+1,j] + a[i+1,j+2]",
        {"a": f"n+2,{TALL}", "b": f"n+2,{TALL}"},
        FLAT,
        tile=32,
    ),
}
MOVING = {
    f"{name}, rows of n": Form(
        form.domains,
        form.statement,
        {array: shape.replace(TALL, "n+2" if name == "plane" else "n") for array, shape in form.shapes.items()},
        form.sizes,
        form.unrolled,
        form.tile,
    )
    for name, form in FORMS.items()
    if any(TALL in shape for shape in form.shapes.values())
}
KINDS = ((64, np.float32), (256, np.float64))
"""work-items in a group, and type"""


@dataclass(frozen=True)
class Pair:
    """A kernel at two sizes, of which the second has more work."""

    name: str
    form: Form
    group: int
    dtype: type[np.generic]
    sizes: tuple[int, int]

    @property
    def reason(self) -> str:
        """Return what may reduce the predicted time (docs/errata.md); empty if nothing may."""
        if self.form.tile or self.form.moves:
            return "rows"
        return "trip counts" if self.form.has_unequal_trips else ""

    @property
    def changes(self) -> Iterator[tuple[str, str, float]]:
        """Yield device, model, and the change of the time relative to that of the first size."""
        kernel = self.form.build(self.group, self.dtype)
        for device, model in PREDICTIONS:
            before, after = (float(lpp.estimate(kernel, n=n, device=device, model=model).seconds) for n in self.sizes)
            yield device, model, after / before - 1

    def __str__(self) -> str:
        """Return a label."""
        return f"{self.name}, {self.dtype.__name__}, groups of {self.group}, n = {self.sizes[0]} to {self.sizes[1]}"


def pairs() -> Iterator[Pair]:
    """Yield all pairs of the corpus."""
    for (name, form), (group, dtype) in product(chain(FORMS.items(), MOVING.items()), KINDS):
        for n in form.sizes:
            yield from (Pair(name, form, group, dtype, each) for each in ((n, n + 1), (n + 1, n + group)))


def main() -> None:
    """Print the pairs whose predicted time falls, and their number."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--every", type=int, default=1, help="use only every N-th pair")
    options = parser.parse_args()
    found = defaultdict[tuple[str, str, str], list[float]](list[float])
    for pair in islice(pairs(), 0, None, options.every):
        for device, model, change in pair.changes:
            found[device, model, pair.reason].append(change)
            if change < -TOLERANCE:
                show(f"{pair}, {device}, {model}: {change:+.1%}")
    counted = table("device", "model", "what may reduce the time", "pairs", "falling", "largest fall")
    for (device, model, reason), changes in sorted(found.items()):
        falling = [each for each in changes if each < -TOLERANCE]
        counted.add_row(
            device, model, reason or "nothing", f"{len(changes)}", f"{len(falling)}", f"{min(falling, default=0):.1%}"
        )
    show(counted)


if __name__ == "__main__":
    main()
