"""What is found in files is looked up again after a moment: a longer one where finding takes long, but not for ever."""

import pytest

from loopyperf.oracle.remembering import moment
from loopyperf.oracle.remembering.moment import Moment


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("takes", "known_for"),
    [(1e-4, moment.MOMENT), (0.01, moment.TIMES * 0.01), (10.0, moment.LONGEST)],
)
def test_an_answer_is_known_longer_the_longer_it_took(
    takes: float, known_for: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, asked, found = Clock(), [], Moment[int]()
    monkeypatch.setattr(moment, "monotonic", clock)

    def find() -> int:
        clock.now += takes
        asked.append(clock.now)
        return len(asked)

    assert [found.answer("question", find) for _ in range(3)] == [1, 1, 1]
    clock.now += 0.99 * known_for
    assert found.answer("question", find) == 1
    clock.now += 0.02 * known_for
    assert found.answer("question", find) == 2
