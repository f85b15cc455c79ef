"""Test that a kernel of 3000 dependent statements is estimated within seconds, excluding Loopy's passes."""

from time import process_time
from typing import Any

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.kernel import kernel
from loopyperf.kernel.loopy_passes import linearized

STATEMENTS = 3000


def chain() -> lp.TranslationUnit:
    """Return a kernel in which each statement multiplies the result of the previous one."""
    steps = "\n".join(f"x = x*{number}.5f {{id=s{number}, dep=s{number - 1}}}" for number in range(1, STATEMENTS))
    unit = lp.make_kernel(
        "{[i]: 0<=i<n}",
        f"<> x = a[i] {{id=s0}}\n{steps}\nb[i] = x {{dep=s{STATEMENTS - 1}}}",
        lang_version=(2018, 2),
        options=lp.Options(enforce_variable_access_ordered="no_check"),  # Loopy's check takes half a minute
    )
    return lp.split_iname(lp.add_dtypes(unit, {"a": np.float32}), "i", 128, outer_tag="g.0", inner_tag="l.0")


@pytest.mark.slow
def test_chain_of_3000_statements_is_estimated_within_5_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    spent: list[float] = []

    def timed(unit: Any) -> Any:
        start = process_time()
        found = linearized(unit)
        spent.append(process_time() - start)
        return found

    monkeypatch.setattr(kernel, "linearized", timed)
    unit = chain()
    start = process_time()
    assert lpp.count(unit).properties().evaluate(n=4096)["f32 mul"] == (STATEMENTS - 1) * 4096
    for device, model in (("nvidia-h200", "linear"), ("nvidia-a100", "roofline"), ("nvidia-a100", "pipeline")):
        assert lpp.estimate(unit, n=4096, device=device, model=model).seconds > 0
    assert spent
    assert process_time() - start - sum(spent) < 5, spent
