"""Every model of a device on 822 measured kernels of a TITAN V, from the catalog alone: errors, ranks, regret.

Reads what ``titan_v_gather.py`` has found. Spearman's correlation and the regret of taking the one that is predicted to
be fastest are within groups, of three kernels or more; "wide" groups are those whose slowest kernel takes five times as
long as the fastest.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v.py [FILE ...]
"""

import argparse
from collections.abc import Sequence

import numpy as np
from parts.tables import show, table
from parts.titan_v import FIGURES, Found, Row, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.models.catalog import DEVICE_MODELS


def comparison(rows: Sequence[Row], found: Sequence[Found]) -> Table:
    """Return how near the predictions of each model are."""
    result = table("model", "kernels", "median ln", *FIGURES)
    for name in DEVICE_MODELS:
        seen = [each for each in found if name in each.seconds]
        if seen:
            predicted = np.array([each.seconds[name] for each in seen])
            measured = observed(rows, seen)
            bias = np.median(np.log(predicted / [row.seconds for row in measured]))
            result.add_row(f"`{name}`", str(len(seen)), f"{bias:.2f}", *figures(predicted, measured))
    return result


def main() -> None:
    """Print how near the predictions are."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    asked = parser.parse_args()
    found = gathered(asked.file)
    show(comparison(measured_kernels(), found))
    late = sum(not DEVICE_MODELS.keys().isdisjoint(each.failures) for each in found)
    show(f"{len(found)} kernels; of {late} of them some model had no answer in time.")


if __name__ == "__main__":
    main()
