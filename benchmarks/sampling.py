"""Evaluate the sampled model on the local device, as in Dao's Table 3 and Figure 15, and on a triangular kernel.

    POCL_MAX_PTHREAD_COUNT=1 python benchmarks/sampling.py [ARCHIVE.jsonl]

The kernels are two variants of each file in measurement_kernels/, test_kernels/ and benchmarks/ranking_sets/, at the
first size that takes long enough; microbenchmarks are run with many groups. For each kernel, the script measures the
CPU time of a full run, takes the samples of the model and further samples at 1 to 6 times Psat, and measures a full run
again. If the two full runs differ, other programs have disturbed the measurement, and the samples are repeated. With an
archive, the script appends the samples to it, a line of JSON for each kernel:

    kernel_class, label, sizes, device, seconds (of a full run), apart (relative difference of the full runs before and
    after), predicted, launching (on the host), sampled: for each device program its name, saturation, total_groups,
    groups and seconds as sampled by the model, work of these groups and of all; programs: the same at 1 to 6 times Psat

The format differs from that of ``loopyperf calibrate --samples``, which has neither the samples at these multiples nor
CPU times. CPU times depend less on other load than wall-clock times.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import geometric_mean, mean, median
from time import process_time
from typing import Any

import loopy as lp
import numpy as np
import parts  # noqa: F401 - turns the cache off

from loopyperf.calibration.calibrate import made_once, sampling_task
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import Backend, BenchmarkCase
from loopyperf.measurement.environment import Arguments, Configuration, Sizes
from loopyperf.measurement.kernel_files import configurations_of, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.samples import SampledKernel, take_samples
from loopyperf.models.sampling import SampledProgram, Work, sampled_time

ROOT = Path(__file__).parents[1]
FOLDERS = (
    "measurement_kernels",
    "test_kernels",
    "test_kernels/optimization_steps",
    "test_kernels/rodinia",
    "benchmarks/ranking_sets",
)
VARIANTS = 2
SHORTEST, LONGEST = 5e-3, 0.2
"""range of the time of a full run, in seconds"""
LARGEST = 2**31
"""maximum size of a kernel's arrays in bytes; the host holds several copies"""
GROUPS = 256
"""minimum number of groups of kernels that have it as a parameter"""
FEWEST = 16
"""minimum number of groups of a kernel; Dao's kernels have hundreds"""
MULTIPLES = (1, 2, 3, 4, 5, 6)
FULL_RUNS = 5
MAX_DRIFT = 0.03
"""largest relative difference of full runs before and after the samples that counts as undisturbed"""
TRIES = 6
PROTOCOL = Protocol(runs=13, dropped=1, fewest=5, stable=0.02, budget=0.3)
CLASSES = ((0.0, 0.05), (0.05, 0.1), (0.1, float("inf")))


@dataclass(frozen=True, slots=True)
class Result:
    """A measured and sampled kernel."""

    case: BenchmarkCase
    seconds: float
    drift: float
    """relative difference of the full runs before and after the samples"""
    sampled: SampledKernel
    at_multiples: SampledKernel

    @property
    def predicted(self) -> float:
        return predicted(self.sampled)

    @property
    def error(self) -> float:
        return abs(self.predicted / self.seconds - 1)

    def error_at(self, multiple: int) -> float | None:
        """Return the error of tlinear with samples at *multiple* and *multiple* + 1 times Psat.

        None if the kernel has too few groups.
        """
        pairs = [pair(each, multiple) for each in self.at_multiples.programs]
        found = [each for each in pairs if each is not None]
        if len(found) < len(pairs):
            return None
        seconds = float(sampled_time(found, self.at_multiples.launching).seconds)
        return abs(seconds / self.seconds - 1)


def predicted(sampled: SampledKernel) -> float:
    return float(sampled_time(sampled.programs, sampled.launching).seconds)


def pair(program: SampledProgram, multiple: int) -> SampledProgram | None:
    """Return *program* with only the samples at *multiple* and *multiple* + 1 times Psat.

    None if it has too few groups.
    """
    samples, work = program.samples, program.work
    if samples.is_whole or len(samples.groups) <= multiple:
        return None
    two = slice(multiple - 1, multiple + 1)
    kept = replace(samples, groups=samples.groups[two], seconds=samples.seconds[two])
    return replace(program, samples=kept, work=None if work is None else Work(work.sampled[two], work.total))


# {{{ measuring


def cases(backend: Backend) -> Iterator[BenchmarkCase]:
    for folder in FOLDERS:
        for file in load_kernel_files(ROOT / folder):
            configurations = configurations_of(file, backend.limits)
            for place in sorted({0, len(configurations) - 1})[:VARIANTS]:
                # Build each configuration once: backends cache compiled kernels by the identity of the configuration.
                yield from long_enough(backend, BenchmarkCase(file.name, made_once(configurations[place]), {}))


def long_enough(backend: Backend, case: BenchmarkCase) -> Iterator[BenchmarkCase]:
    """Yield *case* at the first size that takes :data:`SHORTEST`, or at the last size below :data:`LONGEST`."""
    found, kernel = None, case.configuration.build().default_entrypoint
    for sizes in case.configuration.sizes:
        many = {**sizes, "groups": max(GROUPS, sizes["groups"])} if "groups" in sizes else sizes
        if allocated_bytes(kernel, many) > LARGEST:
            break
        sized = replace(case, sizes=many)
        try:
            seconds = min(backend.time(sized, 2).wall)
        except LoopyperfError as error:
            print(f"skipped: {error}", file=sys.stderr)
            return
        if seconds > LONGEST:
            break
        found = sized
        if seconds >= SHORTEST:
            break
    if found is not None:
        yield found


def measure(backend: Any, case: BenchmarkCase) -> Result | None:
    """Return the first undisturbed result, or the least disturbed of all tries; None if there are too few groups."""
    task = sampling_task(backend, case)
    tries: list[Result] = []
    before = cpu_seconds(backend, task.case)
    while len(tries) < TRIES and not any(each.drift <= MAX_DRIFT for each in tries):
        sampled = take_samples(task)
        if max(each.samples.total_groups for each in sampled.programs) < FEWEST:
            return None
        at_multiples = take_samples(task, multiples=MULTIPLES, protocol=PROTOCOL)
        after = cpu_seconds(backend, task.case)
        tries.append(Result(case, min(before, after), abs(after / before - 1), sampled, at_multiples))
        before = after
    return min(tries, key=lambda each: each.drift)


def cpu_seconds(backend: Backend, case: BenchmarkCase) -> float:
    """Return the CPU time of the fastest of several runs, because other programs may interrupt a long run.

    Samples are shorter, and the fastest one by the device's clock is not interrupted.
    """
    found: list[float] = []
    for _ in range(FULL_RUNS):
        start = process_time()
        backend.time(case, 1)
        found.append(process_time() - start)
    return min(found[1:])


def line(result: Result, device: str) -> str:
    return json.dumps(
        {
            "kernel_class": result.case.kernel_class,
            "label": result.case.configuration.label,
            "sizes": {name: int(size) for name, size in result.case.sizes.items()},
            "device": device,
            "seconds": result.seconds,
            "apart": result.drift,
            "predicted": result.predicted,
            "launching": result.sampled.launching,
            "sampled": [program_of(each) for each in result.sampled.programs],
            "programs": [program_of(each) for each in result.at_multiples.programs],
        }
    )


def program_of(program: SampledProgram) -> dict[str, Any]:
    samples, work = program.samples, program.work
    return {
        "name": program.name,
        "saturation": samples.saturation,
        "total_groups": samples.total_groups,
        "groups": samples.groups,
        "seconds": samples.seconds,
        "work": None if work is None else work.sampled,
        "total_work": None if work is None else work.total,
    }


# }}}

# {{{ triangular kernel


def triangle() -> lp.TranslationUnit:
    """Return out[i] = Σ_{j ≤ i} a[j]·a[i], in which group g has about g times the work of the first."""
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < n and 0 <= j <= i}",
        "out[i] = sum(j, a[j]*a[i])",
        [lp.GlobalArg("a, out", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        name="triangle",
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


def triangle_case(n: int) -> BenchmarkCase:
    def arguments(rng: np.random.Generator, sizes: Sizes) -> Arguments:
        return {"a": rng.random(n, dtype=np.float32), "out": np.zeros(n, np.float32), "n": np.int32(n)}

    configuration = Configuration(
        label="triangle",
        build=cache(triangle),
        sizes=({"n": n},),
        arguments=arguments,
        reference=lambda made: {"out": np.cumsum(made["a"]) * made["a"]},
        tolerance=1e-2,
    )
    return BenchmarkCase("triangle", configuration, {"n": n})


def show_triangle(backend: Any) -> None:
    print("\ntriangular kernel; group g has about g times the work of the first")
    print(f"{'n':>7}{'groups':>8}{'measured':>12}{'tlinear':>10}{'corrected':>11}")
    for n in (2048, 8192, 16384):
        result = measure(backend, triangle_case(n))
        assert result is not None
        sampled = result.sampled
        plain = predicted(replace(sampled, programs=tuple(replace(each, work=None) for each in sampled.programs)))
        groups = sampled.programs[0].samples.total_groups
        errors = (f"{100 * (each / result.seconds - 1):+.0f} %" for each in (plain, result.predicted))
        print(f"{n:>7}{groups:>8}{1e3 * result.seconds:>9.2f} ms{''.join(f'{each:>11}' for each in errors)}")


# }}}

# {{{ output


def show(results: Sequence[Result]) -> None:
    for each in sorted(results, key=lambda each: each.error):
        share = each.sampled.seconds / each.predicted
        groups = sum(program.samples.total_groups for program in each.sampled.programs)
        print(f"{each.error:7.1%} overhead {share:6.2%} {1e3 * each.seconds:8.2f} ms {groups:>8} groups  {each.case}")
    partial_ones = [each for each in results if not all(program.samples.is_whole for program in each.sampled.programs)]
    print(f"\n{len(results)} kernels, {len({each.case.kernel_class for each in results})} classes")
    drift, unsettled = [each.drift for each in results], sum(each.drift > MAX_DRIFT for each in results)
    print(f"noise floor: full runs before and after differ by {median(drift):.1%} in the median")
    print(f"{unsettled} kernels unsettled")
    for name, several in (("all", results), ("sampled in part", partial_ones)):
        errors = [each.error for each in several]
        overhead = median(each.sampled.seconds / each.predicted for each in several)
        print(
            f"{name}: {len(several)}, error {mean(errors):.1%} on average, median {median(errors):.1%}, geometric mean "
            f"{geometric_mean([max(each, 1e-4) for each in errors]):.1%}; median overhead {overhead:.2%}"
        )
    print("\nby error class (Dao, Table 3)")
    for low, high in CLASSES:
        named = f"{low:.0%} to {high:.0%}" if high < 1 else f"more than {low:.0%}"
        errors = [each.error for each in results if low <= each.error < high]
        print(f"  {named}: {len(errors):3} kernels, {mean(errors) if errors else 0:.1%} on average")
    print("\nby multiple of Psat of the first sample (Dao, Fig. 15), kernels with enough groups for all multiples")
    rows = [[each.error_at(multiple) for multiple in MULTIPLES[:-1]] for each in results]
    whole = [[error for error in row if error is not None] for row in rows]
    complete = [row for row in whole if len(row) == len(MULTIPLES) - 1]
    for place, multiple in enumerate(MULTIPLES[:-1]):
        errors = [row[place] for row in complete]
        print(f"  {multiple}: {mean(errors):8.1%} on average, median {median(errors):.1%}, {len(errors)} kernels")


# }}}


def main() -> None:
    """Measure and sample the kernels, and print the errors."""
    backend: Any = open_backend("opencl")
    archive = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    results: list[Result] = []
    for case in cases(backend):
        try:
            result = measure(backend, case)
        except LoopyperfError as error:
            print(f"skipped: {case}: {error}", file=sys.stderr)
            continue
        if result is None:
            continue
        results.append(result)
        print(f"{result.error:7.1%} {case}", file=sys.stderr, flush=True)
        if archive is not None:
            with archive.open("a") as file:
                file.write(line(result, backend.environment.slug) + "\n")
    show(results)
    show_triangle(backend)


if __name__ == "__main__":
    main()
