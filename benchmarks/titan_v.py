"""Print the errors, rank correlation and regret of every device model on 822 measured kernels of a TITAN V.

The models use only the device parameters of the catalog. The script reads the output of ``titan_v_gather.py``.
Spearman's correlation and the regret are computed within groups of three kernels or more. Regret is the measured time
of the kernel that is predicted to be fastest, divided by that of the fastest. "Wide" groups are those whose slowest
kernel takes more than five times as long as the fastest.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/titan_v.py [FILE ...]
"""

import argparse
from collections.abc import Sequence

import numpy as np
from parts.tables import show, table
from parts.titan_v import FIGURES, Analysis, Row, add_files, figures, gathered, measured_kernels, observed
from rich.table import Table

from loopyperf.models.catalog import DEVICE_MODELS


def comparison(rows: Sequence[Row], found: Sequence[Analysis]) -> Table:
    """Return a table of the accuracy of each model."""
    result = table("model", "kernels", "median ln", *FIGURES)
    for name in DEVICE_MODELS:
        predicted_kernels = [each for each in found if name in each.seconds]
        if predicted_kernels:
            predicted = np.array([each.seconds[name] for each in predicted_kernels])
            measured = observed(rows, predicted_kernels)
            bias = np.median(np.log(predicted / [row.seconds for row in measured]))
            result.add_row(f"`{name}`", str(len(predicted_kernels)), f"{bias:.2f}", *figures(predicted, measured))
    return result


def main() -> None:
    """Print the accuracy of all device models."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    add_files(parser)
    options = parser.parse_args()
    found = gathered(options.file)
    show(comparison(measured_kernels(), found))
    late = sum(not DEVICE_MODELS.keys().isdisjoint(each.failures) for each in found)
    show(f"{len(found)} kernels; for {late} of them, a model did not finish in time.")


if __name__ == "__main__":
    main()
