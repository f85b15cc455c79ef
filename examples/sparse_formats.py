"""Tune y = A·x over the storage formats of a sparse matrix: CSR, ELL and sliced ELL, in float64.

The length of a row depends on data: predictions need typical iteration counts, and measurements the arrays of the
format. Both are functions of the choices. No GPU is needed to predict the fastest format on an H200:

    python examples/sparse_formats.py

With an OpenCL device, for example PoCL on a processor, it also measures there:

    python examples/sparse_formats.py opencl
"""

import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

import loopy as lp
import numpy as np
from numpy.typing import NDArray

import loopyperf as lpp

SPACE = {"form": ("csr", "ell", "sliced"), "lanes": (1, 4, 8, 16, 32), "group": (64, 128, 256, 512)}
RESTRICTIONS = "lanes == 1 or form == 'csr'"
SHORT, LONG = 8, 40
"""nonzeros of the shortest and of the longest row; all numbers between are equally frequent"""
WINDOW = 4096
"""columns around the diagonal that have nonzeros"""
SLICE = 32
"""rows of a slice of sliced ELL, which is as wide as its longest row"""
PLACES = {"csr": "start[i] + lane + {lanes}*k", "ell": "i + n*k", "sliced": f"{SLICE}*(start[s] + k) + r"}
"""format -> index of an element in the arrays of values and columns"""
ENDS = {"csr": ("start[i]", "start[i + 1]"), "ell": ("0", str(LONG)), "sliced": ("start[s]", "start[s + 1]")}
"""format -> bounds of the loop over the elements of a row"""


def build(form: str = "csr", lanes: int = 1, group: int = 128) -> lp.TranslationUnit:
    """Return the product with *group* work-items per group; in CSR, *lanes* work-items share a row."""
    begin, end = ENDS[form]
    place = PLACES[form].format(lanes=lanes)
    rows, inames, row = "0 <= i < n", "i", "i"
    if form == "sliced":
        rows, inames, row = f"0 <= {SLICE}*s < n and 0 <= r < {SLICE}", "s, r", f"{SLICE}*s + r"
    knl = lp.make_kernel(
        [
            f"{{[{inames}]: {rows}}}",
            f"{{[lane]: 0 <= lane < {lanes}}}",
            f"[begin, end, lane] -> {{[k]: 0 <= k and begin + lane + {lanes}*k < end}}",
        ],
        f"""
        for {inames}
            <> begin = {begin}
            <> end = {end}
            y[{row}] = sum(lane, sum(k, a[{place}]*x[column[{place}]]))
        end
        """,
        [
            lp.GlobalArg("a", np.float64, shape="stored"),
            lp.GlobalArg("column", np.int32, shape="stored"),
            *([] if form == "ell" else [lp.GlobalArg("start", np.int32, shape="n + 1")]),
            lp.GlobalArg("x, y", np.float64, shape="n"),
            lp.ValueArg("n, stored", np.int32),
        ],
        name=f"product_{form}",
        assumptions="n >= 512 and n mod 512 = 0",
        seq_dependencies=True,
        silenced_warnings=["write_race(insn_1)"],  # lane 0 stores the sum of all lanes
        lang_version=(2018, 2),
    )
    if form == "sliced":
        return lp.tag_inames(lp.split_iname(knl, "s", group // SLICE, outer_tag="g.0", inner_tag="l.1"), {"r": "l.0"})
    knl = lp.split_iname(knl, "i", group // lanes, outer_tag="g.0", inner_tag="l.1" if lanes > 1 else "l.0")
    if lanes > 1:
        knl = lp.add_inames_to_insn(lp.tag_inames(knl, {"lane": "l.0"}), "lane", "writes:begin or writes:end")
    return knl


def typical(form: str, lanes: int, group: int) -> dict[str, Any]:
    """Return the mean iteration count of the loop over a row, and where x is read."""
    iterations = {"csr": (SHORT + LONG) / 2 / lanes, "sliced": LONG - 1}  # of 32 rows, the longest has 39 or 40
    return {"x": f"random in {WINDOW}"} | ({"k": iterations[form]} if form in iterations else {})


@cache
def matrix(n: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the lengths of rows, and of each element its row, column and value, by rows."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(SHORT, LONG + 1, n)
    rows = np.repeat(np.arange(n), lengths)
    columns = np.clip(rows + rng.integers(-WINDOW // 2, WINDOW // 2, len(rows)), 0, n - 1)
    return lengths, rows, columns, rng.random(len(rows))


@cache
def stored(form: str, n: int) -> Mapping[str, NDArray[Any]]:
    """Return the arrays of the matrix in the format *form*; each has room for rows of the largest length."""
    lengths, rows, columns, values = matrix(n)
    first = np.concatenate([[0], np.cumsum(lengths)])
    within = np.arange(len(rows)) - first[rows]
    if form == "csr":
        start, places = first, np.arange(len(rows))
    elif form == "ell":
        start, places = None, rows + n * within
    else:
        start = np.zeros(n + 1, np.int64)
        start[1 : n // SLICE + 1] = np.cumsum(lengths.reshape(-1, SLICE).max(axis=1))
        places = SLICE * (start[rows // SLICE] + within) + rows % SLICE
    arrays: dict[str, NDArray[Any]] = {"a": np.zeros(LONG * n), "column": np.zeros(LONG * n, np.int32)}
    arrays["a"][places], arrays["column"][places] = values, columns
    return arrays if start is None else {**arrays, "start": start.astype(np.int32)}


def main(backend: str | None = None, n: int = 2**19, **options: Any) -> lpp.Tuning:
    """Return the tuning for an H200 by prediction or, with a *backend*, of what is measured there."""
    options |= {"typical": typical, "restrictions": RESTRICTIONS, "n": n, "stored": LONG * n}
    if backend is None:
        return lpp.tune(build, SPACE, device="nvidia-h200", model="pipeline", **options)
    x = np.random.default_rng(1).random(n)
    _, rows, columns, values = matrix(n)

    def arguments(form: str, **_: Any) -> Mapping[str, Any]:
        return {**stored(form, n), "x": x}

    reference = {"y": np.bincount(rows, values * x[columns], n)}
    return lpp.tune(build, SPACE, backend=backend, arguments=arguments, reference=reference, **options)


if __name__ == "__main__":
    print(main(sys.argv[1] if len(sys.argv) > 1 else None))
