"""Evaluate how much learning improves the sampled model on held-out kernels, as in Dao's Table 3 and Figure 15.

    python benchmarks/sampling_learned.py ARCHIVE.jsonl

``sampling.py`` writes the archive, which contains the samples and the full run times of kernels on the local device.
For each fold of kernel classes, an ε-SVR learns the error of the sampled model on the other classes, with
hyperparameters selected on these classes. As in Table 3, kernels are grouped by the error of the sampled model, and all
models are compared on the same groups. As in Figure 15, errors are also printed by the multiple of Psat of the first
sample, for kernels with enough groups for all multiples. The script runs no kernel.
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
from loopyperf.calibration.training import cross_validated, unfitted_base
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.kernel_files import configurations_of, load_kernel_files
from loopyperf.models.sampling import SampledProgram, Samples, Work
from loopyperf.predict.train import examples

Errors = NDArray[np.float64]


def program(record: Mapping[str, Any]) -> SampledProgram:
    """Return the samples of a device program from its record in the archive."""
    samples = Samples(tuple(record["groups"]), tuple(record["seconds"]), record["saturation"], record["total_groups"])
    work = None if record["work"] is None else Work(tuple(record["work"]), record["total_work"])
    return SampledProgram(record["name"], samples, work=work)


def rows(archive: Path, multiple: int | None = None) -> list[Measured]:
    """Rebuild the kernels of the archive and return them with their samples.

    The samples are those of the model. If *multiple* is given, they are those at *multiple* and *multiple* + 1 times
    Psat, and kernels with too few groups are skipped.
    """
    limits = open_backend("opencl").limits
    files = [file for folder in FOLDERS for file in load_kernel_files(ROOT / folder)]
    configurations = {(file.name, each.label): each for file in files for each in configurations_of(file, limits)}
    found: list[Measured] = []
    for line in map(json.loads, archive.read_text().splitlines()):
        samples = tuple(map(program, line["sampled"])) if multiple is None else pairs(line["programs"], multiple)
        if not samples:
            continue
        configuration = configurations[line["kernel_class"], line["label"]]
        arguments = configuration.arguments(np.random.default_rng(0), line["sizes"])
        sizes = {name: int(value) for name, value in arguments.items() if isinstance(value, np.integer)}
        unit, seconds = configuration.build(), line["seconds"]
        found.append(
            Measured(unit, sizes, seconds, line["kernel_class"], line["label"], {}, samples, line["launching"])
        )
    return found


def pairs(programs: Sequence[Mapping[str, Any]], multiple: int) -> tuple[SampledProgram, ...]:
    """Return two samples of each device program; empty if a program has too few groups for the largest multiple."""
    programs_with_samples = [program(each) for each in programs]
    if any(pair(each, MULTIPLES[-2]) is None for each in programs_with_samples):
        return ()
    return tuple(found for each in programs_with_samples if (found := pair(each, multiple)) is not None)


def errors_of(measured: Sequence[Measured]) -> dict[str, Errors]:
    """Return the relative errors on held-out kernel classes, by model."""
    skipped: list[str] = []
    found = examples(measured, SAMPLED, None, on_failure=lambda row, error: skipped.append(row.label))
    seconds = np.array([each.observation.seconds for each in found])
    validated = cross_validated(unfitted_base(SAMPLED), found)
    print(f"{len(found)} kernels, {len({each.observation.kernel_class for each in found})} classes; skipped: {skipped}")
    return {
        name: np.abs(each / seconds - 1) for name, each in {SAMPLED: validated.base, "svr": validated.corrected}.items()
    }


def main() -> None:
    """Print the errors of the sampled model alone and with corrections, on held-out classes."""
    archive = Path(sys.argv[1])
    found = errors_of(rows(archive))
    for name, errors in found.items():
        print(f"{name}: {errors.mean():.1%} on average, median {np.median(errors):.1%}")
    print("average errors by error class of the sampled model")
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
