"""Predict the variants of recorded spaces without running them, and store the predictions for ``judge.py``.

The script appends a line of JSON for each variant that FOLDER/NAME.jsonl does not have yet, so it can be killed and
continued. Variants with the same kernel are predicted once. Compressed, the files belong into ``gathered/spaces``:

    LOOPYPERF_SHARED_DATA=../shared/data PYTHONPATH=benchmarks .venv/bin/python -m tuning.gather FOLDER [NAME ...]
    xz -9 FOLDER/*.jsonl
"""

import argparse
import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import loopy as lp
import msgspec
from msgspec import structs
from parts.convolution import Shape, convolution
from ranking_sets import element_einsum, matrix_multiplication, stencil

import loopyperf as lpp
from loopyperf.compiler.cuda_code import for_cuda
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.device.description import Device
from loopyperf.errors import LoopyperfError
from loopyperf.executors import TimeIsUp, limited
from loopyperf.kernel import Program
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.pipeline_shares import busy_seconds
from loopyperf.models.profiler_counters import counters_of
from loopyperf.models.program_timing import timing
from loopyperf.models.residual_regression import static_features
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.throughput import ThroughputPredictor
from loopyperf.stages.case import Case
from loopyperf.stages.profile import kernel_profile
from tuning.spaces import SETS, PredictedRow, convolution_space, ranking_set_spaces, read_predictions, titan_v_rows

DIGITS = 6
"""number of significant digits of stored values"""
TIME_LIMIT = 300.0
"""seconds for a variant"""

BUILDS: Mapping[str, Callable[[Any], lp.TranslationUnit]] = {
    "products": matrix_multiplication.matrix_multiplication,
    "element-products": element_einsum.element_product,
    "stencils": stencil.stencil,
}
"""ranking set -> function that builds a variant"""
Build = Callable[[], Case]
"""builds the kernel of a variant, and gives it its sizes"""


@dataclass(frozen=True)
class SpaceOfKernels:
    """A recorded space of which the kernels can be built."""

    name: str
    device: str
    """slug of the device"""
    keys: Sequence[object]
    """key of each variant's kernel; variants with equal keys have the same kernel"""
    builds: Sequence[Build]


# {{{ prediction of a variant


def predict(row: int, build: Build, device: Device) -> PredictedRow:
    """Return the prediction of the variant number *row*. A step that fails does not stop the others."""
    found = PredictedRow(row)
    try:
        limited(TIME_LIMIT, partial(fill, found, build(), device))
    except TimeIsUp:
        found.failures["time limit"] = TimeIsUp.__name__
    return found


def fill(found: PredictedRow, case: Case, device: Device) -> None:
    """Add the predictions for *case* to *found*, the cheapest first."""

    def seconds(model: str, timed: TimedProgram) -> float:
        return rounded(DEVICE_MODELS[model].time(timed).seconds)

    def models() -> None:
        found.bounds["roofline"] = seconds("roofline", timed)
        for name in ("volkov", "pipeline"):
            found.seconds[name] = seconds(name, timed)

    def parts() -> None:
        found.busy.update({name: rounded(each) for name, each in busy_seconds(timed).items()})
        features = static_features(timed)
        for named in (features.told, features.amounts):
            found.features.update({name: rounded(each) for name, each in named.items()})
        simulator = DEVICE_MODELS["pipeline"]
        executing = [simulator.time(timed.alone(each)).executing for each in timed.launches]
        launches = counters_of(machine, timed, executing)
        found.features["groups"] = sum(each.groups * each.times for each in launches)
        found.features["work-items"] = launches[0].work_items
        found.counters.update({name: rounded(each) for name, each in launches[0].values.items()})

    def placements() -> None:
        for other in machine.alternatives:
            moved = compile_profile(profile, device, other, compiled=machine.compiled)
            found.otherwise.append(seconds("pipeline", timing(moved, device)))

    run_step(found, "throughput", partial(throughput, found, case, device))
    start = time.process_time()
    try:
        profile = kernel_profile(case, device=device)
        machine = compile_profile(profile, device)
        timed = timing(machine, device)
    except LoopyperfError as error:
        found.failures["graphs"] = type(error).__name__
        return
    finally:
        found.took["graphs"] = round(time.process_time() - start, 3)
    for step in (models, parts, placements):
        run_step(found, step.__name__, step)


def throughput(found: PredictedRow, case: Case, device: Device) -> None:
    """Add the lower bound from the source alone."""
    bound = ThroughputPredictor("throughput", device.slug, parameters=device)
    found.bounds["throughput"] = rounded(bound.predict(case).seconds)


def run_step(found: PredictedRow, name: str, step: Callable[[], None]) -> None:
    """Run *step*, called *name*, and add its processor time or the class of its error to *found*."""
    start = time.process_time()
    try:
        step()
    except LoopyperfError as error:
        found.failures[name] = type(error).__name__
    found.took[name] = round(time.process_time() - start, 3)


def rounded(value: Any) -> float:
    """Return *value* with :data:`DIGITS` significant digits."""
    return float(f"{float(value):.{DIGITS}g}")


# }}}


# {{{ the kernels of the spaces


def spaces_of_kernels() -> Iterator[SpaceOfKernels]:
    """Yield the spaces of which there are Loopy kernels."""
    for name, rows in titan_v_rows().items():
        builds = [partial(unpickled, row["kernel"], row["sizes"]) for row in rows]
        yield SpaceOfKernels(name, "nvidia-titan-v", [row["code"] for row in rows], builds)
    convolutions = convolution_space()
    shapes = [shape_of(each) for each in convolutions.parameters]
    builds = [partial(convolution_case, shape) for shape in shapes]
    yield SpaceOfKernels(convolutions.name, convolutions.device, shapes, builds)
    for space in ranking_set_spaces():
        name, _, size = space.name.rpartition("-")
        forms = [SETS[name].Form(**each) for each in space.parameters]
        builds = [partial(ranking_case, BUILDS[name], form, int(size)) for form in forms]
        yield SpaceOfKernels(space.name, space.device, forms, builds)


def unpickled(kernel: bytes, sizes: Mapping[str, Any]) -> Case:
    """Return the pickled *kernel* at *sizes*."""
    program: Program = pickle.loads(kernel)
    return Case(program, sizes)


def ranking_case(build: Callable[[Any], lp.TranslationUnit], form: object, size: int) -> Case:
    """Return the variant *form* of a ranking set, as it was compiled."""
    return Case(for_cuda(build(form)), {"n": size})


def shape_of(parameters: Mapping[str, Any]) -> Shape:
    """Return the shape of a convolution; padding and the read-only path do not change it."""
    x, y, tile_x, tile_y = (int(parameters[f"{name}_SIZE_{axis}"]) for name in ("BLOCK", "TILE") for axis in "XY")
    return Shape((x, y), (tile_x, tile_y))


def convolution_case(shape: Shape) -> Case:
    """Return the convolution of *shape*."""
    return Case(convolution(shape), {})


# }}}


def main() -> None:
    """Append the predictions of the variants to a file for each space."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, help="folder of the output files")
    parser.add_argument("names", nargs="*", help="spaces in this order; by default all")
    options = parser.parse_args()
    every = {each.name: each for each in spaces_of_kernels()}
    for name in options.names or every:
        gather(every[name], options.folder / f"{name}.jsonl")


def gather(space: SpaceOfKernels, path: Path) -> None:
    """Append the predictions of the variants of *space* that *path* does not have."""
    done = read_predictions(path) if path.exists() else {}
    known = {space.keys[row]: found for row, found in done.items()}
    device = lpp.load_device(space.device)
    for row, (key, build) in enumerate(zip(space.keys, space.builds, strict=True)):
        if row not in done:
            known[key] = structs.replace(known[key], row=row) if key in known else predict(row, build, device)
            with path.open("ab") as file:
                file.write(msgspec.json.encode(known[key]) + b"\n")


if __name__ == "__main__":
    main()
