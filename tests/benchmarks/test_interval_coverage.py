"""The table of how often intervals hold: a line for each way to fit that the rows have columns for, and one for all."""

import interval_coverage

from loopyperf.calibration.problem import Observation


def test_each_way_to_fit_and_the_choice_have_a_line():
    # Six classes of times that are a sum, each class off by its own some percent.
    rows = [
        Observation(
            f"class {number}",
            "x",
            {},
            {"launches": 1, "f32 add": adds},
            (1e-5 + 1e-9 * adds) * (1 + 0.01 * number),
        )
        for number in range(6)
        for adds in (10, 1000, 100_000, 1_000_000)
    ]
    table = interval_coverage.table(rows, [], seeds=1)
    names, holds, *_ = (list(column.cells) for column in table.columns)
    assert names == ["linear, non-negative", "linear, plain", "overlap of counts", "the better one"]
    assert all(0 <= float(each.rstrip("%")) <= 100 for each in holds)
    chosen = str(list(table.columns[-1].cells)[-1]).split("; ")
    assert set(chosen) <= set(names[:3])
