"""What learning adds to the sampled model on kernels of which neither has seen anything: Dao's Table 3.

    python benchmarks/sampling_learned.py ARCHIVE.jsonl

The archive is that of ``sampling.py``: samples of the local device's kernels, and how long all their groups take. For
each fold of kernel classes, ε-SVR and boosted trees learn the error of the sampled model on the other classes, with
hyper-parameters searched for among these. Nothing is run.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from sampling import CLASSES, FOLDERS, ROOT

from loopyperf.calibration.example import Stated
from loopyperf.calibration.learned import SAMPLED
from loopyperf.calibration.learning import judge
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.kernel_files import configurations_of, load_kernel_files
from loopyperf.models.sampling import SampledProgram, Samples, Work
from loopyperf.oracle.fit import Measured
from loopyperf.oracle.train import examples


def program(told: Mapping[str, Any]) -> SampledProgram:
    """Return the samples of a device program, as the archive has them."""
    samples = Samples(tuple(told["groups"]), tuple(told["seconds"]), told["saturation"], told["total_groups"])
    work = None if told["work"] is None else Work(tuple(told["work"]), told["total_work"])
    return SampledProgram(told["name"], samples, work=work)


def rows(archive: Path) -> list[Measured]:
    """Return the kernels of the archive with their samples, built anew."""
    limits = open_backend("opencl").limits
    files = [file for folder in FOLDERS for file in load_kernel_files(ROOT / folder)]
    known = {(file.name, each.label): each for file in files for each in configurations_of(file, limits)}
    found: list[Measured] = []
    for line in map(json.loads, archive.read_text().splitlines()):
        configuration = known[line["kernel_class"], line["label"]]
        arguments = configuration.arguments(np.random.default_rng(0), line["sizes"])
        sizes = {name: int(value) for name, value in arguments.items() if isinstance(value, np.integer)}
        samples = tuple(map(program, line["sampled"]))
        unit, seconds = configuration.build(), line["seconds"]
        found.append(
            Measured(unit, sizes, seconds, line["kernel_class"], line["label"], {}, samples, line["launching"])
        )
    return found


def show(name: str, errors: list[float]) -> None:
    """Print the errors of a model, by class of error."""
    print(f"{name}: {mean(errors):.1%} on average, median {median(errors):.1%}")
    for low, high in CLASSES:
        among = [each for each in errors if low <= each < high]
        named = f"{low:.0%} to {high:.0%}" if high < 1 else f"more than {low:.0%}"
        print(f"  {named}: {len(among):3} kernels, {mean(among) if among else 0:.1%} on average")


def main() -> None:
    """Print how near the sampled model comes alone and corrected, on classes left out."""
    left: list[str] = []
    found = examples(rows(Path(sys.argv[1])), SAMPLED, None, on_failure=lambda row, error: left.append(row.label))
    measured = np.array([each.observation.seconds for each in found])
    judged = judge(Stated(SAMPLED), found)
    print(f"{len(found)} kernels, {len({each.observation.kernel_class for each in found})} classes; left out: {left}")
    for name, seconds in {SAMPLED: judged.base, **judged.learned}.items():
        show(name, np.abs(seconds / measured - 1).tolist())


if __name__ == "__main__":
    main()
