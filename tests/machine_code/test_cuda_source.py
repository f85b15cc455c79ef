"""Test the CUDA source of a program with two launches and a function that Loopy's CUDA target cannot type."""

import loopy as lp
import numpy as np

from .cuda_source import cuda_source
from .launch import build


def two_launches() -> lp.TranslationUnit:
    """Return b = 1/√a, then c = b reversed, with a global barrier between them."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        """
        b[i] = rsqrt(a[i]) {id=first}
        ... gbarrier {id=barrier, dep=first}
        c[j] = b[n - 1 - j] {dep=barrier}
        """,
        [lp.GlobalArg("a, b, c", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="two_launches",
        lang_version=(2018, 2),
    )
    for iname in "ij":
        knl = lp.split_iname(knl, iname, 32, outer_tag="g.0", inner_tag="l.0")
    return knl


def test_source_has_every_launch_with_its_parameters() -> None:
    source = cuda_source(two_launches())
    assert [[parameter.name for parameter in function.parameters] for function in source.functions] == [
        ["a", "b", "n"],
        ["b", "c", "n"],
    ]
    assert [source.code.count(f" {function.name}(") for function in source.functions] == [1, 1]
    assert [function.grid({"n": 100}) for function in source.functions] == [(4, 1, 1)] * 2
    assert [function.group({"n": 100}) for function in source.functions] == [(32, 1, 1)] * 2


def test_launches_are_executed_separately(listings) -> None:
    first, second = build(two_launches(), cache=listings)
    sizes = {"n": 40}
    assert [launch.run(sizes, (1, 0, 0)).lanes["STG"] for launch in (first, second)] == [8, 8]
    assert [launch.run(sizes)["MUFU"] for launch in (first, second)] == [1, 0]
