"""Test that counts follow Loopy's schedule, on kernels that differ only in the order of independent instructions."""

from collections.abc import Sequence
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.errors import KernelError

pytestmark = pytest.mark.usefixtures("fresh_kernels")


def in_order(order: Sequence[str], statements: dict[str, str], *temporaries: Any) -> lp.TranslationUnit:
    """Return a kernel of one group with *statements* scheduled in this *order*, unless dependencies forbid it.

    Priorities are preferences of Loopy's scheduler; they do not change what the kernel computes.
    """
    priorities = {name: len(order) - place for place, name in enumerate(order)}
    unit = lp.make_kernel(
        "{[l]: 0<=l<32}",
        "\n".join(text.format(f"id={name},priority={priorities[name]}") for name, text in statements.items()),
        [lp.GlobalArg("a,b,x,y,z", np.float32, shape=(32,)), lp.GlobalArg("m", np.int32, shape=(32,)), *temporaries],
        name="ordered",
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    return lp.tag_inames(unit, {"l": "l.0"})


@pytest.mark.parametrize(("order", "barriers"), [("abxy", 1), ("axby", 2)])
def test_statement_order_determines_the_number_of_barriers(order: str, barriers: int) -> None:
    local = [
        lp.TemporaryVariable(name, np.float32, shape=(32,), address_space=lp.AddressSpace.LOCAL)
        for name in ("of_a", "of_b")
    ]
    statements = {
        "a": "of_a[l] = a[l] {{{}}}",
        "b": "of_b[l] = b[l] {{{}}}",
        "x": "x[l] = of_a[31-l] {{{},dep=a}}",
        "y": "y[l] = of_b[31-l] {{{},dep=b}}",
    }
    assert lpp.count(in_order(order, statements, *local)).properties().evaluate()["barriers"] == 32 * barriers


@pytest.mark.parametrize(("order", "tests"), [("xyz", 1), ("xzy", 2)])
def test_statement_order_determines_how_often_a_condition_is_loaded(order: str, tests: int) -> None:
    guarded = "if m[l] > 0\n{}[l] = {}[l] {{{{{{}}}}}}\nend"
    statements = {"x": guarded.format("x", "a"), "y": guarded.format("y", "b"), "z": "z[l] = 0 {{{}}}"}
    counted = lpp.count(in_order(order, statements), typical={"m[l] > 0": 1})
    loads = counted.properties().evaluate()["global load 32-bit stride 1"]
    assert loads == 32 * (tests + len("ab"))


def test_kernel_without_a_schedule_raises() -> None:
    statements = ["x[l] = a[l] {id=x}", "s = x[0] {id=s,dep=x}", "y[l] = s {dep=s}"]
    unit = lp.make_kernel(
        "{[l]: 0<=l<32}",
        statements,
        [
            lp.GlobalArg("a,x,y", np.float32, shape=(32,)),
            lp.TemporaryVariable("s", np.float32, shape=(), address_space=lp.AddressSpace.PRIVATE),
        ],
        name="entered_twice",
        lang_version=(2018, 2),
    )
    assert lp.preprocess_program(unit).default_entrypoint.linearization is None
    with pytest.raises(KernelError, match="CycleError"):
        lpp.count(unit)
