"""Critical paths through what is repeated, step by step."""

from collections import Counter

import pytest

from loopyperf.idg.metrics.paths import Component, Issue, Link, Repetition, Start, path_lengths


@pytest.mark.parametrize("times", [1, 2, 3, 4, 5, 10**12, 10**12 + 1, 10**12 + 2])
def test_path_goes_round_the_cycle_of_what_repetitions_hang_on(times: int) -> None:
    # "last" hangs on what "a" was at the start of its repetition, a on b, b on c, and c on a: a round of three
    ends: dict[Component, Link] = {
        "last": Issue(9, "issue", Start("a")),
        "a": Issue(0, "issue", Start("b")),
        "b": Issue(1, "issue", Start("c")),
        "c": Issue(2, "issue", Start("a")),
    }
    before: dict[Component, Link] = {name: Issue(10 + number, "order", None) for number, name in enumerate("abc")}
    expected = {(9, "completion"): 1, (10 + (times - 1) % 3, "issue"): 1}
    expected |= {(place, "issue"): len(range(place, times - 1, 3)) for place in range(min(3, times - 1))}
    assert path_lengths(Repetition("last", times, ends, before), "completion") == expected


def test_waiting_for_nothing_but_the_order_counts_nothing() -> None:
    assert path_lengths(Issue(1, "order", Issue(0, "issue", None)), "completion") == Counter({(1, "completion"): 1})
