"""Every model on the fourteen kernels of Lemeire's evaluation (Table 9), against measurements of a device.

The kernels of ``test_kernels/rodinia`` are measured at a ladder of sizes, here and now on an OpenCL device, or taken
from an archive that such a measurement has left. A table has for each kernel and model the MAPE of the performance over
the sizes, as a fraction of the measured one, in per cent. The device's description is that of the catalog, or a file,
such as ``loopyperf microbenchmark`` writes.

Tables 10 to 12 have it over occupancies. With ``--sweep FOLDER`` the archives ``occupancy-BYTES.jsonl`` of
``gpu_hour.py`` are read, of these kernels and the four test kernels, in which each group takes so many bytes of local
memory that nobody uses: the models are asked about as many groups as have room beside each other. A cell is then
MAPE / MAPE_shape over the occupancies, a mean over the sizes that were measured at three of them or more.

    .venv/bin/python benchmarks/rodinia.py --description DEVICE (--archive FILE | --sweep FOLDER) [--model NAME ...]
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import parts  # noqa: F401 - turns the cache off
from gpu_hour import SWEPT
from rich.console import Console
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import mape, mape_shape
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.campaign import measure
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, configurations_of, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.models.catalog import DEVICE_MODELS as OF_DEVICE
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.validate import with_empty_kernel
from loopyperf.stages.stages import Stages, staged

SHORT = Protocol(runs=8, dropped=2, probe_runs=2, longest_run=0.3)

FEWEST = 3
"""occupancies that tell a shape"""

Point = tuple[float, Mapping[str, float]]
"""a measured time, and what each model predicts, in seconds"""


Key = tuple[str, str, str]
"""kernel, configuration, sizes"""


def timed(recording: Recording, files: Sequence[KernelFile], device: Device) -> Iterator[tuple[Key, Stages, float]]:
    """Yield the kernel of each measurement on *device*, and how long it took."""
    run = recording.runs[-1]
    known = {(file.name, each.label): each for file in files for each in configurations_of(file, run.limits)}
    for each in recording.standing:
        if (each.kernel_class, each.label) in known:
            unit = known[each.kernel_class, each.label].build()
            graphs = lpp.kernel_profile(unit, warp_size=device.warp_size, parameters=each.sizes)
            key = each.kernel_class, each.label, str(sorted(each.sizes.items()))
            yield key, staged(graphs, device), run.protocol.measured_time(each.samples)


def predictions(kernel: TimedProgram, models: Sequence[str]) -> dict[str, float]:
    """Return what each model predicts that has an answer, in seconds."""
    found: dict[str, float] = {}
    for name in models:
        try:
            found[name] = float(OF_DEVICE[name].time(kernel).seconds)
        except LoopyperfError as error:
            Console(stderr=True).print(f"{kernel.kernel}, {name}: {error}", markup=False)
    return found


# {{{ over the occupancy


def swept(
    folder: Path, files: Sequence[KernelFile], device: Device, models: Sequence[str]
) -> dict[str, list[dict[int, Point]]]:
    """Return kernel -> for each size that was measured, groups that reside at once -> time and predictions.

    Of two amounts of local memory that leave room for as many groups, the smaller one counts.
    """
    found: dict[Key, dict[int, Point]] = defaultdict(dict)
    archives = [(int(path.name.split("-")[1].split(".")[0]), path) for path in folder.glob("occupancy-*.jsonl")]
    for taken, path in sorted(archives, reverse=True):
        for key, kernel, seconds in timed(read_archive(path), files, device):
            groups = resident(kernel.timed, taken)
            fewer = staged(kernel.profile, device, concurrent_groups=groups).timed
            found[key][groups] = seconds, predictions(fewer, models)
    by_kernel: dict[str, list[dict[int, Point]]] = defaultdict(list)
    for (name, _, _), by_groups in found.items():
        by_kernel[name].append(by_groups)
    return by_kernel


def resident(kernel: TimedProgram, taken: int) -> int:
    """Return how many groups of *kernel* have room on a core where each takes *taken* bytes of local memory more."""
    found = [launch.execution.concurrent_groups for launch in kernel.launches]
    for launch in kernel.launches:
        room = lpp.occupancy(kernel.device, launch.work_items, local_memory=launch.local_memory + taken)
        found.append(room.groups)
    return min(found)


def sweep_table(by_kernel: Mapping[str, Sequence[Mapping[int, Point]]], models: Sequence[str]) -> Table:
    """Return MAPE / MAPE_shape of the performance over the occupancy, by kernel and model, in per cent."""
    found = Table("kernel", "occupancies", *models)
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kernel, sizes in by_kernel.items():
        enough = [by_groups for by_groups in sizes if len(by_groups) >= FEWEST]
        cells: list[str] = []
        for model in models:
            pairs: list[tuple[float, float]] = []
            for by_groups in enough:
                told = {groups: point for groups, point in by_groups.items() if model in point[1]}
                if len(told) >= FEWEST:
                    rates = [(1 / predicted[model], 1 / seconds) for seconds, predicted in told.values()]
                    predicted, measured = zip(*rates, strict=True)
                    pairs.append((mape(predicted, measured), mape_shape(predicted, measured, tuple(told))))
            errors[model] += pairs
            cells.append("/".join(f"{np.mean(each):.0%}" for each in zip(*pairs, strict=True)) if pairs else "-")
        found.add_row(kernel, ", ".join(str(len(each)) for each in enough), *cells)
    means = ("/".join(f"{np.mean(each):.0%}" for each in zip(*errors[model], strict=True)) for model in models)
    found.add_row("mean", "", *means, style="bold")
    return found


# }}}


def as_processor(device: Device) -> Device:
    """Return *device* with what GPUs have limits of, and a processor has not, so that models of GPUs answer for it.

    It executes one group after the other, each work-item a warp of its own. Local memory is in its first cache; its own
    memory is taken to be as the farthest one that was measured, where its caches hold the largest arrays.
    """
    if device.warp_size is not None:
        return device
    limits = replace(
        device.limits,
        warps=device.limits.work_items_per_group,
        groups=1,
        registers=2**30,
        register_unit=1,
        local_memory=device.limits.local_memory_per_group,
        local_memory_unit=1,
        partitions=1,
    )
    measured = [level for level in device.memory if level.sustained_bandwidth is not None]
    farther = tuple(
        level if level in measured else replace(measured[-1], place=level.place, per=level.per)
        for level in device.memory
        if level in measured or level.name == DRAM
    )
    # What no chain of additions tells is taken to be as fast as these.
    results = {name: 1 / device.issue_latency("add", "i32") for name in ("compare", "logic", "shift", "convert")}
    return replace(
        device,
        memory=(replace(measured[0], place="memory.local"), *farther),
        throughput=replace(device.throughput, **results),
        warp_size=1,
        limits=limits,
    )


def table(by_kernel: Mapping[str, Sequence[Point]], models: Sequence[str]) -> Table:
    """Return the MAPE of the performance by kernel and model, in per cent, and the means over kernels."""
    found = Table("kernel", "sizes", *models)
    errors: dict[str, list[float]] = defaultdict(list)
    for kernel, measured in by_kernel.items():
        cells: list[str] = []
        for model in models:
            pairs = [(1 / predicted[model], 1 / seconds) for seconds, predicted in measured if model in predicted]
            error = mape(*zip(*pairs, strict=True)) if pairs else None
            cells.append("-" if error is None else f"{error:.0%}")
            errors[model] += [] if error is None else [error]
        found.add_row(kernel, str(len(measured)), *cells)
    means = (f"{np.mean(errors[model]):.0%}" if errors[model] else "-" for model in models)
    found.add_row("mean", "", *means, style="bold")
    return found


def main() -> None:
    """Print how near the models come."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--description", required=True, help="a device of the catalog, or the path of a description")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--archive", type=Path, help="of measurements; they are taken if there is none")
    which.add_argument("--sweep", type=Path, help="folder of archives over the occupancy")
    parser.add_argument("--model", action="append", choices=list(OF_DEVICE), help="of several, one; all unless named")
    asked = parser.parse_args()
    folders = SWEPT if asked.sweep else ("test_kernels/rodinia",)
    files = tuple(file for each in folders for file in load_kernel_files(bundled_folder(each)))
    models = asked.model or list(OF_DEVICE)
    device = as_processor(lpp.load_device(asked.description))
    console = Console(width=200)
    if asked.sweep:
        console.print(sweep_table(swept(asked.sweep, files, device, models), models))
        return
    if asked.archive.exists():
        recording = read_archive(asked.archive)
    else:
        recording = measure(opened("opencl", None), with_empty_kernel(files), asked.archive, SHORT, None)
    by_kernel: dict[str, list[Point]] = defaultdict(list)
    for (name, _, _), kernel, seconds in timed(recording, files, device):
        by_kernel[name].append((seconds, predictions(kernel.timed, models)))
    console.print(table(by_kernel, models))


if __name__ == "__main__":
    main()
