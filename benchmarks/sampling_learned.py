"""What learning adds to the sampled model on kernels of which neither has seen anything: Dao's Table 3 and Figure 15.

    python benchmarks/sampling_learned.py ARCHIVE.jsonl

The archive is that of ``sampling.py``: samples of the local device's kernels, and how long all their groups take. For
each fold of kernel classes, ε-SVR and boosted trees learn the error of the sampled model on the other classes, with
hyper-parameters searched for among these. As in Table 3, kernels are grouped by the error of the sampled model, and all
models are compared on the same ones; as in Figure 15, by the multiple of Psat of the first sample, of the kernels that
have groups for all. No kernel is run.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import parts  # noqa: F401 - turns the cache off
from numpy.typing import NDArray
from sampling import CLASSES, FOLDERS, MULTIPLES, ROOT, pair

from loopyperf.calibration.fit import Measured
from loopyperf.calibration.residual_model import SAMPLED
from loopyperf.calibration.training import UnfittedBase, cross_validated
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.kernel_files import configurations_of, load_kernel_files
from loopyperf.models.sampling import SampledProgram, Samples, Work
from loopyperf.predict.train import examples

Errors = NDArray[np.float64]


def program(told: Mapping[str, Any]) -> SampledProgram:
    """Return the samples of a device program, as the archive has them."""
    samples = Samples(tuple(told["groups"]), tuple(told["seconds"]), told["saturation"], told["total_groups"])
    work = None if told["work"] is None else Work(tuple(told["work"]), told["total_work"])
    return SampledProgram(told["name"], samples, work=work)


def rows(archive: Path, multiple: int | None = None) -> list[Measured]:
    """Return the kernels of the archive with their samples, built anew.

    Those that the model takes; or, of kernels with so many groups, from *multiple* times Psat and from once more.
    """
    limits = open_backend("opencl").limits
    files = [file for folder in FOLDERS for file in load_kernel_files(ROOT / folder)]
    known = {(file.name, each.label): each for file in files for each in configurations_of(file, limits)}
    found: list[Measured] = []
    for line in map(json.loads, archive.read_text().splitlines()):
        samples = tuple(map(program, line["sampled"])) if multiple is None else pairs(line["programs"], multiple)
        if not samples:
            continue
        configuration = known[line["kernel_class"], line["label"]]
        arguments = configuration.arguments(np.random.default_rng(0), line["sizes"])
        sizes = {name: int(value) for name, value in arguments.items() if isinstance(value, np.integer)}
        unit, seconds = configuration.build(), line["seconds"]
        found.append(
            Measured(unit, sizes, seconds, line["kernel_class"], line["label"], {}, samples, line["launching"])
        )
    return found


def pairs(programs: Sequence[Mapping[str, Any]], multiple: int) -> tuple[SampledProgram, ...]:
    """Return two samples of each device program; none where one has too few groups for the largest multiple."""
    every = [program(each) for each in programs]
    if any(pair(each, MULTIPLES[-2]) is None for each in every):
        return ()
    return tuple(found for each in every if (found := pair(each, multiple)) is not None)


def errors_of(measured: Sequence[Measured]) -> dict[str, Errors]:
    """Return by model the relative errors on kernel classes that were left out."""
    left: list[str] = []
    found = examples(measured, SAMPLED, None, on_failure=lambda row, error: left.append(row.label))
    seconds = np.array([each.observation.seconds for each in found])
    judged = cross_validated(UnfittedBase(SAMPLED), found)
    print(f"{len(found)} kernels, {len({each.observation.kernel_class for each in found})} classes; left out: {left}")
    return {name: np.abs(each / seconds - 1) for name, each in {SAMPLED: judged.base, **judged.learned}.items()}


def main() -> None:
    """Print how near the sampled model comes alone and corrected, on classes left out."""
    archive = Path(sys.argv[1])
    found = errors_of(rows(archive))
    for name, errors in found.items():
        print(f"{name}: {errors.mean():.1%} on average, median {np.median(errors):.1%}")
    print("by class of error of the sampled model: errors on average")
    for low, high in CLASSES:
        among = (found[SAMPLED] >= low) & (found[SAMPLED] < high)
        named = f"{low:.0%} to {high:.0%}" if high < 1 else f"more than {low:.0%}"
        means = ", ".join(f"{name} {errors[among].mean() if among.any() else 0:.1%}" for name, errors in found.items())
        print(f"  {named}: {among.sum():3} kernels, {means}")
    for multiple in MULTIPLES[:-1]:
        print(f"samples from {multiple} times Psat:", end=" ")
        found = errors_of(rows(archive, multiple))
        print("  median errors:", ", ".join(f"{name} {np.median(errors):.1%}" for name, errors in found.items()))


if __name__ == "__main__":
    main()
