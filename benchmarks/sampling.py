"""How near the sampled model comes on a device at hand: Dao's Table 3, his Figure 15, and a triangular kernel.

    POCL_MAX_PTHREAD_COUNT=1 python benchmarks/sampling.py [ARCHIVE.jsonl]

The kernels are those of measurement_kernels/, test_kernels/ and benchmarks/ranking_sets/, two variants of each file, at
the first size that takes long enough, where microbenchmarks have many groups. Each is measured by the time that the
processor spends on it, sampled as the model does it, and at 1 to 6 times Psat, and measured again; where both times
differ, the machine did something else meanwhile, and samples are taken anew. With an archive, the samples are appended
to it, a JSON line for each kernel:

    kernel_class, label, sizes, device, seconds (of a full run), apart (by how much it differed before and after),
    predicted, launching (on the host), sampled: for each device program its name, saturation, total_groups, groups and
    seconds as the model took them, work of these groups and of all; programs: the same at 1 to 6 times Psat

An archive of ``loopyperf calibrate --samples`` has neither these multiples nor the processor's time, which what runs
beside does not change; so this is no such archive.
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
from loopyperf.models.sampling import SampledProgram, Work, sampled_time
from loopyperf.stages.samples import SampledKernel, take_samples

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
"""seconds of a run"""
LARGEST = 2**31
"""bytes of a kernel's arrays; the host has them several times"""
GROUPS = 256
"""of kernels whose number of groups is a size of its own"""
FEWEST = 16
"""groups that a kernel has at least: of Dao's, hundreds"""
MULTIPLES = (1, 2, 3, 4, 5, 6)
FULL_RUNS = 5
STEADY = 0.03
"""relative difference of full runs before the samples and after, up to which nothing else is taken to have gone on"""
TRIES = 6
PROTOCOL = Protocol(runs=13, dropped=1, fewest=5, stable=0.02, budget=0.3)
CLASSES = ((0.0, 0.05), (0.05, 0.1), (0.1, float("inf")))


@dataclass(frozen=True, slots=True)
class Result:
    """A kernel that was measured and sampled."""

    case: BenchmarkCase
    seconds: float
    apart: float
    """relative difference of full runs before the samples and after"""
    sampled: SampledKernel
    at_multiples: SampledKernel

    @property
    def predicted(self) -> float:
        return predicted(self.sampled)

    @property
    def error(self) -> float:
        return abs(self.predicted / self.seconds - 1)

    def error_at(self, multiple: int) -> float | None:
        """Return the error of tlinear from so many times Psat and once more; None where the kernel is too small."""
        pairs = [pair(each, multiple) for each in self.at_multiples.programs]
        found = [each for each in pairs if each is not None]
        if len(found) < len(pairs):
            return None
        seconds = float(sampled_time(found, self.at_multiples.launching).seconds)
        return abs(seconds / self.seconds - 1)


def predicted(taken: SampledKernel) -> float:
    return float(sampled_time(taken.programs, taken.launching).seconds)


def pair(program: SampledProgram, multiple: int) -> SampledProgram | None:
    """Return two samples, next to one another, and the work of those."""
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
                # Compiled once: a backend knows a configuration by its identity.
                yield from long_enough(backend, BenchmarkCase(file.name, made_once(configurations[place]), {}))


def long_enough(backend: Backend, case: BenchmarkCase) -> Iterator[BenchmarkCase]:
    """Yield the case at the first size of its ladder that takes :data:`SHORTEST`, or the last before the longest."""
    found, kernel = None, case.configuration.build().default_entrypoint
    for sizes in case.configuration.sizes:
        many = {**sizes, "groups": max(GROUPS, sizes["groups"])} if "groups" in sizes else sizes
        if allocated_bytes(kernel, many) > LARGEST:
            break
        sized = replace(case, sizes=many)
        try:
            seconds = min(backend.time(sized, 2).wall)
        except LoopyperfError as error:
            print(f"left out: {error}", file=sys.stderr)
            return
        if seconds > LONGEST:
            break
        found = sized
        if seconds >= SHORTEST:
            break
    if found is not None:
        yield found


def measure(backend: Any, case: BenchmarkCase) -> Result | None:
    """Return the steadiest of some tries, or the first one that is steady; None for a kernel of too few groups."""
    asked = sampling_task(backend, case)
    tries: list[Result] = []
    before = processor_seconds(backend, asked.case)
    while len(tries) < TRIES and not any(each.apart <= STEADY for each in tries):
        sampled = take_samples(asked)
        if max(each.samples.total_groups for each in sampled.programs) < FEWEST:
            return None
        at_multiples = take_samples(asked, multiples=MULTIPLES, protocol=PROTOCOL)
        after = processor_seconds(backend, asked.case)
        tries.append(Result(case, min(before, after), abs(after / before - 1), sampled, at_multiples))
        before = after
    return min(tries, key=lambda each: each.apart)


def processor_seconds(backend: Backend, case: BenchmarkCase) -> float:
    """Return the processor time of the fastest of some runs, as others may have the processor for some of a long run.

    Samples end before that: of those, the fastest by the device's clock is one that nobody interrupted.
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
            "apart": result.apart,
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

# {{{ a triangle


def triangle() -> lp.TranslationUnit:
    """out[i] = sum over j ≤ i of a[j]·a[i]: group g does about g times what the first does."""
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
    print("\na triangle, whose group g does about g times what the first does")
    print(f"{'n':>7}{'groups':>8}{'measured':>12}{'tlinear':>10}{'corrected':>11}")
    for n in (2048, 8192, 16384):
        result = measure(backend, triangle_case(n))
        assert result is not None
        taken = result.sampled
        plain = predicted(replace(taken, programs=tuple(replace(each, work=None) for each in taken.programs)))
        groups = taken.programs[0].samples.total_groups
        errors = (f"{100 * (each / result.seconds - 1):+.0f} %" for each in (plain, result.predicted))
        print(f"{n:>7}{groups:>8}{1e3 * result.seconds:>9.2f} ms{''.join(f'{each:>11}' for each in errors)}")


# }}}

# {{{ what is printed


def show(results: Sequence[Result]) -> None:
    for each in sorted(results, key=lambda each: each.error):
        share = each.sampled.seconds / each.predicted
        groups = sum(program.samples.total_groups for program in each.sampled.programs)
        print(f"{each.error:7.1%} overhead {share:6.2%} {1e3 * each.seconds:8.2f} ms {groups:>8} groups  {each.case}")
    parted = [each for each in results if not all(program.samples.is_whole for program in each.sampled.programs)]
    print(f"\n{len(results)} kernels, {len({each.case.kernel_class for each in results})} classes")
    apart, unsteady = [each.apart for each in results], sum(each.apart > STEADY for each in results)
    print(
        f"noise floor: full runs before and after differ by {median(apart):.1%} in the median; {unsteady} never settled"
    )
    for name, several in (("all", results), ("those of which a part was run", parted)):
        errors = [each.error for each in several]
        overhead = median(each.sampled.seconds / each.predicted for each in several)
        print(
            f"{name}: {len(several)}, error {mean(errors):.1%} on average, median {median(errors):.1%}, geometric mean "
            f"{geometric_mean([max(each, 1e-4) for each in errors]):.1%}; median overhead {overhead:.2%}"
        )
    print("\nby class of error (Dao, Table 3)")
    for low, high in CLASSES:
        named = f"{low:.0%} to {high:.0%}" if high < 1 else f"more than {low:.0%}"
        errors = [each.error for each in results if low <= each.error < high]
        print(f"  {named}: {len(errors):3} kernels, {mean(errors) if errors else 0:.1%} on average")
    print("\nby the multiple of Psat of the first sample (Dao, Fig. 15), the kernels that have groups for all")
    rows = [[each.error_at(multiple) for multiple in MULTIPLES[:-1]] for each in results]
    whole = [[error for error in row if error is not None] for row in rows]
    complete = [row for row in whole if len(row) == len(MULTIPLES) - 1]
    for place, multiple in enumerate(MULTIPLES[:-1]):
        errors = [row[place] for row in complete]
        print(f"  {multiple}: {mean(errors):8.1%} on average, median {median(errors):.1%}, of {len(errors)} kernels")


# }}}


def main() -> None:
    backend: Any = open_backend("opencl")
    archive = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    results: list[Result] = []
    for case in cases(backend):
        try:
            result = measure(backend, case)
        except LoopyperfError as error:
            print(f"left out: {case}: {error}", file=sys.stderr)
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
