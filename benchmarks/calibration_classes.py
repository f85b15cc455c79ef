"""Compare a fit with published device parameters on the kernel classes of a calibration archive.

    .venv/bin/python benchmarks/calibration_classes.py fits/nvidia-h200/raw/calibration.jsonl.xz nvidia-h200

Prints the geometric mean of the relative errors of `pipeline`, which uses published parameters, and of the best fit, on
each class (at most 12 measurements, drawn at random) and on all classes. The errors of the fit are those of the
measurements that it was fitted to; `loopyperf fit` prints those on held-out classes.
"""

import sys
from collections import defaultdict
from random import Random

from parts.tables import show, table

import loopyperf as lpp
from loopyperf.calibration.accuracy import geometric_mean
from loopyperf.calibration.archived import measured_kernels, within_the_model
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import measurement_kernels

MOST = 12
"""maximum number of measurements of a class"""


def main(archive: str, device: str) -> None:
    """Print the errors on each class in *archive*, and on all classes."""
    files = measurement_kernels()
    classes: dict[str, list[lpp.Measured]] = defaultdict(list)
    measurements = list(measured_kernels(within_the_model(read_archive(archive), files), files))
    for each in Random(1).sample(measurements, len(measurements)):
        classes[each.kernel_class].append(each)
    predictors = [lpp.predictor(device=device, model="pipeline"), lpp.predictor(device=device)]
    errors = {
        name: [
            geometric_mean(
                abs(float(predict(each.kernel, parameters=each.sizes)) / each.seconds - 1) for each in measured[:MOST]
            )
            for predict in predictors
        ]
        for name, measured in sorted(classes.items())
    }
    means = map(geometric_mean, zip(*errors.values(), strict=True))
    printed = table("class", "pipeline", predictors[1].model)
    for name, found in [*errors.items(), ("all classes", means)]:
        printed.add_row(name, *(f"{each:.0%}" for each in found))
    show(printed)


if __name__ == "__main__":
    main(*sys.argv[1:])
