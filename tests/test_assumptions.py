"""Assumptions of one kind are combined into one sentence."""

from collections.abc import Callable, Sequence

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.kernel.launches import NAME, SUBJECTS, Assumption, sentences


def test_assumptions_of_one_kind_are_combined_with_their_number() -> None:
    shared = f"{SUBJECTS} may be far apart; typical={{{NAME!r}: '1'}}"
    accesses = [
        Assumption(shared, name, f"{name}[{place}]") for name in "abcde" for place in range(3 if name == "a" else 1)
    ]
    found = sentences([*accesses, "a sentence", accesses[0], "a sentence", Assumption("of {SUBJECTS}", "a", "a")])
    assert found == (
        "a[0] (and 2 more accesses of it), b[0], c[0] and 2 more arrays may be far apart; typical={'a': '1'}",
        "a sentence",
        "of {SUBJECTS}",
    )


@pytest.mark.parametrize(
    "notes_on",
    [
        pytest.param(
            lambda knl: lpp.estimate(knl, n=4096, device="nvidia-a100", model="pipeline").notes, id="estimate"
        ),
        pytest.param(lambda knl: lpp.count(knl).assumed, id="count"),
    ],
)
def test_statements_for_each_column_share_their_notes(
    notes_on: Callable[[lp.TranslationUnit], Sequence[str]],
) -> None:
    # 20 columns of indirectly accessed rows, and several arrays: the assumption is reported once.
    columns = [f"out[i, {c}] = a[box[i], {c}] + b{c % 4}[box[i]]" for c in range(20)]
    flat = [lp.GlobalArg(f"b{c}", np.float64, shape="n", offset=lp.auto) for c in range(4)]
    matrices = lp.GlobalArg("a, out", np.float64, shape="n, 20")
    knl = lp.make_kernel("{[i]: 0 <= i < n}", "\n".join(columns), [matrices, *flat, ...], lang_version=(2018, 2))
    knl = lp.split_iname(lp.add_dtypes(knl, {"box": np.int32}), "i", 64, outer_tag="g.0", inner_tag="l.0")
    matching = [note for note in notes_on(knl) if "a[box" in note]
    assert len(matching) == 1
    assert "19 more accesses" in matching[0]
    assert "and 2 more arrays" in matching[0]
