"""The coverage table of prediction intervals has a row for each type of fit and one for the best type."""

import interval_coverage

from loopyperf.calibration.problem import Observation


def test_table_has_a_row_for_each_type_of_fit_and_the_best():
    # Six classes with times that are linear in the counts; class i deviates by i percent.
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
    names, coverage, *_ = (list(column.cells) for column in table.columns)
    assert names == ["linear, non-negative", "linear, plain", "overlap of counts", "best type"]
    assert all(0 <= float(each.rstrip("%")) <= 100 for each in coverage)
    chosen = str(list(table.columns[-1].cells)[-1]).split("; ")
    assert set(chosen) <= set(names[:3])
