"""Compare every model with measurements of the fourteen kernels of Lemeire's evaluation (Table 9) on a device.

The script measures the kernels of ``test_kernels/rodinia`` at several sizes on an OpenCL device, or reads an archive of
such measurements. The table has, for each kernel and model, the MAPE of the performance over the sizes, in percent of
the measured performance. The device parameters are those of a device of the catalog, or of a file such as
``loopyperf microbenchmark`` writes.

Tables 10 to 12 of the paper have the MAPE over occupancies. With ``--sweep FOLDER``, the script reads the archives
``occupancy-BYTES.jsonl`` of ``gpu_hour.py``, which contain these kernels and the four test kernels. In these archives,
each group allocates BYTES of local memory that it does not use, and the models predict times for the number of groups
that still fit on a core. A cell is then MAPE / MAPE_shape over the occupancies, averaged over the sizes that were
measured at three or more of them.

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
from parts.occupancy_errors import mape, mape_shape
from rich.console import Console
from rich.table import Table

import loopyperf as lpp
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.device.description import Device
from loopyperf.device.lambdas import DRAM
from loopyperf.errors import LoopyperfError
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import opened
from loopyperf.measurement.campaign import measure
from loopyperf.measurement.kernel_files import KernelFile, bundled_folder, configurations_of, load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.program_timing import timing
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.validate import with_empty_kernel

SHORT = Protocol(runs=8, dropped=2, probe_runs=2, longest_run=0.3)

FEWEST = 3
"""minimum number of occupancies for MAPE_shape"""

Point = tuple[float, Mapping[str, float]]
"""a measured time and the time predicted by each model, in seconds"""


Key = tuple[str, str, str]
"""kernel, configuration, sizes"""


def measured_profiles(
    recording: Recording, files: Sequence[KernelFile], device: Device
) -> Iterator[tuple[Key, KernelProfile, float]]:
    """Yield the key of each measurement, the profile of its kernel, and its measured time."""
    run = recording.runs[-1]
    configurations = {(file.name, each.label): each for file in files for each in configurations_of(file, run.limits)}
    for each in recording.standing:
        if (each.kernel_class, each.label) in configurations:
            unit = configurations[each.kernel_class, each.label].build()
            graphs = lpp.kernel_profile(unit, warp_size=device.warp_size, parameters=each.sizes)
            key = each.kernel_class, each.label, str(sorted(each.sizes.items()))
            yield key, graphs, run.protocol.measured_time(each.samples)


def predictions(kernel: TimedProgram, models: Sequence[str]) -> dict[str, float]:
    """Return the wall-clock times in seconds by model, without models that fail."""
    found: dict[str, float] = {}
    for name in models:
        try:
            found[name] = float(DEVICE_MODELS[name].time(kernel).seconds) + (kernel.device.host_wait or 0.0)
        except LoopyperfError as error:
            Console(stderr=True).print(f"{kernel.kernel}, {name}: {error}", markup=False)
    return found


# {{{ over the occupancy


def swept(
    folder: Path, files: Sequence[KernelFile], device: Device, models: Sequence[str]
) -> dict[str, list[dict[int, Point]]]:
    """Return kernel -> for each measured size, number of resident groups -> time and predictions.

    If two amounts of local memory lead to the same number of groups, the smaller one is used.
    """
    found: dict[Key, dict[int, Point]] = defaultdict(dict)
    archives = [(int(path.name.split("-")[1].split(".")[0]), path) for path in folder.glob("occupancy-*.jsonl")]
    for extra, path in sorted(archives, reverse=True):
        for key, profile, seconds in measured_profiles(read_archive(path), files, device):
            groups = resident(timing(compile_profile(profile, device), device), extra)
            fewer = timing(compile_profile(profile, device, concurrent_groups=groups), device)
            found[key][groups] = seconds, predictions(fewer, models)
    by_kernel: dict[str, list[dict[int, Point]]] = defaultdict(list)
    for (name, _, _), by_groups in found.items():
        by_kernel[name].append(by_groups)
    return by_kernel


def resident(kernel: TimedProgram, extra: int) -> int:
    """Return how many groups of *kernel* fit on a core if each allocates *extra* additional bytes of local memory."""
    found = [launch.execution.concurrent_groups for launch in kernel.launches]
    for launch in kernel.launches:
        limit = lpp.occupancy(kernel.device, launch.work_items, local_memory=launch.local_memory + extra)
        found.append(limit.groups)
    return min(found)


def sweep_table(by_kernel: Mapping[str, Sequence[Mapping[int, Point]]], models: Sequence[str]) -> Table:
    """Return MAPE / MAPE_shape of the performance over the occupancy, by kernel and model, in percent."""
    found = Table("kernel", "occupancies", *models)
    errors: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for kernel, sizes in by_kernel.items():
        complete = [by_groups for by_groups in sizes if len(by_groups) >= FEWEST]
        cells: list[str] = []
        for model in models:
            pairs: list[tuple[float, float]] = []
            for by_groups in complete:
                points = {groups: point for groups, point in by_groups.items() if model in point[1]}
                if len(points) >= FEWEST:
                    rates = [(1 / predicted[model], 1 / seconds) for seconds, predicted in points.values()]
                    predicted, measured = zip(*rates, strict=True)
                    pairs.append((mape(predicted, measured), mape_shape(predicted, measured, tuple(points))))
            errors[model] += pairs
            cells.append("/".join(f"{np.mean(each):.0%}" for each in zip(*pairs, strict=True)) if pairs else "-")
        found.add_row(kernel, ", ".join(str(len(each)) for each in complete), *cells)
    means = ("/".join(f"{np.mean(each):.0%}" for each in zip(*errors[model], strict=True)) for model in models)
    found.add_row("mean", "", *means, style="bold")
    return found


# }}}


def as_gpu(device: Device) -> Device:
    """Return *device* with the limits that a GPU has and a CPU lacks, so that GPU models can predict times for it.

    A CPU executes one group at a time, and each work-item is a warp. Local memory is in the first-level cache. If the
    caches hold the largest arrays, main memory is assumed to be like the last measured level.
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
    other_levels = tuple(
        level if level in measured else replace(measured[-1], place=level.place, per=level.per)
        for level in device.memory
        if level in measured or level.name == DRAM
    )
    # Instructions without a microbenchmark are assumed as fast as additions.
    results = {name: 1 / device.issue_latency("add", "i32") for name in ("compare", "logic", "shift", "convert")}
    return replace(
        device,
        memory=(replace(measured[0], place="memory.local"), *other_levels),
        throughput=replace(device.throughput, **results),
        warp_size=1,
        limits=limits,
    )


def table(by_kernel: Mapping[str, Sequence[Point]], models: Sequence[str]) -> Table:
    """Return the MAPE of the performance by kernel and model, in percent, and the means over kernels."""
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
    """Print the errors of the models."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--description", required=True, help="a device of the catalog, or the path of a device file")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--archive", type=Path, help="archive of measurements; if it does not exist, the kernels are measured"
    )
    source.add_argument("--sweep", type=Path, help="folder of archives with different occupancies")
    parser.add_argument(
        "--model", action="append", choices=list(DEVICE_MODELS), help="a model, may be repeated; by default all models"
    )
    options = parser.parse_args()
    folders = SWEPT if options.sweep else ("test_kernels/rodinia",)
    files = tuple(file for each in folders for file in load_kernel_files(bundled_folder(each)))
    models = options.model or list(DEVICE_MODELS)
    device = as_gpu(lpp.load_device(options.description))
    console = Console(width=200)
    if options.sweep:
        console.print(sweep_table(swept(options.sweep, files, device, models), models))
        return
    if options.archive.exists():
        recording = read_archive(options.archive)
    else:
        recording = measure(opened("opencl", None), with_empty_kernel(files), options.archive, SHORT, None)
    by_kernel: dict[str, list[Point]] = defaultdict(list)
    for (name, _, _), kernel, seconds in measured_profiles(recording, files, device):
        by_kernel[name].append((seconds, predictions(kernel.timed, models)))
    console.print(table(by_kernel, models))


if __name__ == "__main__":
    main()
