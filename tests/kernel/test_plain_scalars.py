"""Integer arguments that affect only computed values are not required for graphs and estimates."""

import islpy as isl
import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import ParameterError
from loopyperf.kernel.integers import plain_scalars

DOMAIN = "{[i]: 0 <= i < n}"


def kernel(text: str, domain: str = DOMAIN, shape: str = "n") -> lp.TranslationUnit:
    arguments = [lp.GlobalArg("a", np.int32, shape=shape), lp.ValueArg("n, p, q", np.int32), ...]
    return lp.make_kernel(domain, text, arguments, lang_version=(2018, 2))


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("a[i] = a[i]*p + q", {"p", "q"}),
        ("a[i + p] = q", {"q"}),
        ("a[i] = a[i] + 1 {if=p > q}", set[str]()),
        ("a[i] = a[i] + q {if=p > 0}", {"q"}),
        ("<int32> j = i + p\na[j] = q", {"q"}),
        ("<int32> j = i + p\n<int32> k = j + q\na[k] = 1", set[str]()),
        ("<int32> j = i + p\na[i] = j + q", {"p", "q"}),
        ("a[i] = p if i < q else 2", {"p"}),
    ],
)
def test_scalars_in_loops_conditions_and_addresses_are_not_plain(text: str, plain: set[str]) -> None:
    assert plain_scalars(kernel(text).default_entrypoint, {"n", "p", "q"}) == plain


def test_scalars_in_bounds_lengths_and_assumptions_are_not_plain() -> None:
    unit = kernel("a[i] = sum(j, j + p)", "{[i, j]: 0 <= i < n and 0 <= j < q}")
    assert plain_scalars(unit.default_entrypoint, {"n", "p", "q"}) == {"p"}
    assert plain_scalars(kernel("a[i] = p*q", shape="n + q").default_entrypoint, {"n", "p", "q"}) == {"p"}
    assumed = lp.assume(kernel("a[i] = p*q"), isl.BasicSet("[n, p] -> { : n >= 1 and p >= 1 }"))
    assert plain_scalars(assumed.default_entrypoint, {"n", "p", "q"}) == {"q"}


def test_scalars_read_by_c_instructions_are_not_plain() -> None:
    unit = lp.make_kernel(
        DOMAIN,
        [lp.CInstruction("i", "a[i] = p;", read_variables=frozenset({"p"}), assignees=("a[i]",)), "a[i] = q"],
        [lp.GlobalArg("a", np.int32, shape="n"), lp.ValueArg("n, p, q", np.int32), ...],
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    assert plain_scalars(unit.default_entrypoint, {"n", "p", "q"}) == {"q"}


def test_graph_needs_sizes_but_no_plain_scalars() -> None:
    unit = kernel("a[i] = a[i]*p + q")
    unit = lp.split_iname(unit, "i", 32, outer_tag="g.0", inner_tag="l.0")
    without_scalars, with_scalars = lpp.instruction_graph(unit, n=64), lpp.instruction_graph(unit, n=64, p=3, q=5)
    assert [each.kind for each in without_scalars.instructions] == [each.kind for each in with_scalars.instructions]
    seconds = [
        float(lpp.estimate(unit, n=2**20, device="nvidia-h100", model="pipeline", **more))
        for more in ({}, {"p": 3, "q": 5})
    ]
    assert seconds[0] == pytest.approx(seconds[1], rel=1e-3)  # a known scalar is in a register slightly earlier
    with pytest.raises(ParameterError, match="missing size n"):
        lpp.instruction_graph(unit, p=3)
