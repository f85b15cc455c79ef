"""Compare predicted and measured bandwidths of streaming kernels over the occupancy on six GPUs.

Device models predict the bandwidths from the device parameters of the catalog alone. The measurements are those of
RRZE-HPC/gpu-benches and te42kyfo/gpu-benches, ``gpu-stream.csv``: six kernels that access arrays of doubles, one
element per work-item, in groups of 32 to 1024 work-items, with 1 or 2 groups resident on a core. The errors are the
mean absolute percentage error over occupancies (MAPE), and the same after subtracting the best linear fit of the
differences (MAPE shape; Lemeire, section 6.3). The time to start a group was derived from the ``init`` kernel at its
lowest occupancy (docs/devices.md). Therefore ``init`` does not test the model, and the means exclude its errors. The
bandwidths of reading, copying and writing of four NVIDIA devices are the highest of ``read``, ``scale`` and ``init``.

    LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python benchmarks/gpu_stream.py [--every N] [--picture FILE] \
        [DEVICE ...]
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import loopy as lp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from papers.pictures import panels, plot_over_occupancy
from parts.occupancy_errors import mape, mape_shape
from parts.shared_data import SHARED_DATA
from parts.tables import show, table
from rich.table import Table

import loopyperf as lpp
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.errors import MissingNumberError
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.program_timing import timing

DEVICES = {
    "v100": "nvidia-v100",
    "a100_40": "nvidia-a100-40",
    "a40": "nvidia-a40",
    "h100_pcie": "nvidia-h100-pcie",
    "mi210": "amd-mi210",
    "rx6900xt": "amd-rx-6900-xt",
}
Key = tuple[str, str, str]
"""source of the measurements, device, kernel"""
ELEMENTS = 2**27
STATEMENTS = {
    "init": "a[i] = 0.23",
    "read": "if b[i] == 123.0\n a[i] = b[i]\n end",
    "scale": "a[i] = b[i]*1.2",
    "triad": "a[i] = b[i]*1.2 + c[i]",
    "3pt": "a[i] = 0.5*b[i] - 1.0*b[i+1] + 0.5*b[i+2]",
    "5pt": "a[i] = 0.25*b[i] + 0.25*b[i+1] - 1.0*b[i+2] + 0.5*b[i+3] + 0.5*b[i+4]",
}
STREAMS = {"init": 1, "read": 1, "scale": 2, "triad": 3, "3pt": 2, "5pt": 2}
"""number of arrays included in the measured bandwidth"""


@dataclass(frozen=True, slots=True)
class Row:
    """Bandwidths in GB/s at an occupancy of *warps* warps per core."""

    warps: int
    predicted: Mapping[str, float]
    """by model"""
    measured: float


@cache
def graphs(kernel: str, work_items: int, warp_size: int) -> KernelProfile:
    """Return the profile of a kernel with groups of *work_items*."""
    arrays = [lp.GlobalArg(name, np.float64, shape="n + 4") for name in "abc" if f"{name}[" in STATEMENTS[kernel]]
    unit = lp.make_kernel("{[i]: 0 <= i < n}", STATEMENTS[kernel], [*arrays, ...], target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", work_items, outer_tag="g.0", inner_tag="l.0")
    typical = {"insn": 0} if kernel == "read" else None
    return lpp.kernel_profile(unit, warp_size=warp_size, typical=typical, n=ELEMENTS // work_items * work_items)


def predicted(device: str, kernel: str, work_items: int, groups: int, models: Sequence[str]) -> dict[str, float]:
    """Return the bandwidth in GB/s predicted by each model, with *groups* groups resident on a core."""
    parameters = lpp.load_device(device)
    # In some rows, the groups do not all fit on a core: then as many as fit are resident.
    limit = parameters.limits.warps // -(-work_items // parameters.warp_size)
    profile = graphs(kernel, work_items, parameters.warp_size)
    timed = timing(compile_profile(profile, parameters, concurrent_groups=min(groups, limit)), parameters)
    moved = 8 * STREAMS[kernel] * (ELEMENTS // work_items * work_items) / 1e9
    return {name: moved / float(DEVICE_MODELS[name].time(timed).seconds) for name in models}


def rows(devices: Sequence[str], every: int, models: Sequence[str]) -> Iterator[tuple[Key, Row]]:
    """Yield source, device and kernel with the predicted and measured bandwidths."""
    cached = cache(partial(predicted, models=models))
    for row, work_items in measured(devices):
        if work_items % (32 * every) == 0 and float(row["GBps"]) > 0:
            groups = int(float(row["blocks_per_sm"]))
            bandwidths = cached(DEVICES[row["device"]], row["kernel"], work_items, groups)
            warps = groups * -(-work_items // lpp.load_device(DEVICES[row["device"]]).warp_size)
            key = row["source"].split("@")[0], row["device"], row["kernel"]
            yield key, Row(warps, bandwidths, float(row["GBps"]))


def measured(devices: Sequence[str]) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the rows of *devices*, each with the number of work-items in a group.

    For its A100, one source has group sizes above the device's limit. We assume that they are the total size of all
    groups of a core. Its bandwidths then agree with those of the other source at the same number of work-items per
    core.
    """
    sets = defaultdict[tuple[str, str], list[dict[str, str]]](list[dict[str, str]])
    with (SHARED_DATA / "gpu-stream.csv").open() as file:
        for row in csv.DictReader(file):
            sets[row["source"], row["device"]].append(row)
    for (_, device), points in sets.items():
        if device in devices:
            limit = lpp.load_device(DEVICES[device]).limits.needed("work_items_per_group")
            is_total = max(int(row["block_size"]) for row in points) > limit
            for row in points:
                yield row, int(row["block_size"]) // (int(float(row["blocks_per_sm"])) if is_total else 1)


def errors(found: Sequence[Row], model: str) -> tuple[float, float]:
    """Return MAPE and MAPE_shape. With fewer than three occupancies (``--every``), MAPE_shape is NaN."""
    predicted, measured = [row.predicted[model] for row in found], [row.measured for row in found]
    warps = [row.warps for row in found]
    return mape(predicted, measured), mape_shape(predicted, measured, warps) if len({*warps}) > 2 else float("nan")


def by_kernel_table(by_kernel: Mapping[Key, Sequence[Row]], model: str) -> Table:
    """Return a table of the errors of a model by device and kernel."""
    found = table("source", "device", "kernel", "points", f"MAPE of {model}", "MAPE shape")
    for (source, device, kernel), points in by_kernel.items():
        found.add_row(source, device, kernel, str(len(points)), *(f"{each:.1%}" for each in errors(points, model)))
    return found


def by_model_tables(by_kernel: Mapping[Key, Sequence[Row]], models: Sequence[str]) -> Iterator[Table]:
    """Yield tables of MAPE and MAPE_shape of each model: means over all kernels except ``init``, and their mean."""
    columns = sets_of(by_kernel)
    means = {model: [of_set(by_kernel, column, model) for column in columns] for model in models}
    for number, figure in enumerate(("MAPE", "MAPE shape")):
        found = table(f"{figure} (%)", "mean", *(f"{device}, {source}" for source, device in columns))
        for model, errors_of_model in means.items():
            shown = [each[number] for each in errors_of_model]
            found.add_row(f"`{model}`", *(f"{100 * each:.1f}" for each in (np.mean(shown), *shown)))
        yield found


def sets_of(by_kernel: Mapping[Key, Sequence[Row]]) -> list[tuple[str, str]]:
    """Return the pairs of source and device, without those whose measurements are the same as an earlier source's."""
    found: dict[tuple[object, ...], tuple[str, str]] = {}
    for source, device in dict.fromkeys(key[:2] for key in by_kernel):
        measured = [row.measured for key, rows in by_kernel.items() if key[:2] == (source, device) for row in rows]
        found.setdefault((device, *measured), (source, device))
    return list(found.values())


def of_set(by_kernel: Mapping[Key, Sequence[Row]], column: tuple[str, str], model: str) -> tuple[float, float]:
    """Return MAPE and MAPE_shape of a pair of source and device: means over its kernels except ``init``."""
    counted = [points for key, points in by_kernel.items() if key[:2] == column and key[2] != "init"]
    first, second = zip(*(errors(points, model) for points in counted), strict=True)
    return float(np.mean(first)), float(np.mean(second))


def picture(by_kernel: Mapping[Key, Sequence[Row]], model: str) -> Figure:
    """Return a figure of bandwidth over warps, with a panel for each source and device and a line for each kernel."""
    parts: dict[str, dict[str, Sequence[Row]]] = defaultdict(dict)
    for (source, device, kernel), found in by_kernel.items():
        parts[f"{device}, {source}"][kernel] = found

    def draw(part: Mapping[str, Sequence[Row]], ax: Axes) -> None:
        predicted = {kernel: [(row.warps, row.predicted[model]) for row in found] for kernel, found in part.items()}
        measured = {kernel: [(row.warps, row.measured) for row in found] for kernel, found in part.items()}
        plot_over_occupancy(predicted, measured=measured, ylabel="bandwidth (GB/s)", ax=ax)

    return panels(parts, min(3, len(parts)), draw)


def main() -> None:
    """Print the errors of the given devices, or of all devices."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("devices", nargs="*", metavar="DEVICE", help=", ".join(DEVICES))
    parser.add_argument(
        "--model", action="append", choices=list(DEVICE_MODELS), help="a model, may be repeated; by default all models"
    )
    parser.add_argument("--every", type=int, default=1, help="use only group sizes that are multiples of 32 N")
    parser.add_argument(
        "--kernels", action="store_true", help="also print the errors of the last model for each kernel"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw the predictions of the last model into FILE")
    options = parser.parse_args()
    models = options.model or list(DEVICE_MODELS)
    by_kernel: dict[Key, list[Row]] = defaultdict(list)
    for device in options.devices or DEVICES:
        try:
            for key, row in rows([device], options.every, models):
                by_kernel[key].append(row)
        except MissingNumberError as error:
            show(f"{device}: {error}")
    if options.kernels:
        show(by_kernel_table(by_kernel, models[-1]))
    show(*by_model_tables(by_kernel, models))
    if options.picture:
        picture(by_kernel, models[-1]).savefig(options.picture)


if __name__ == "__main__":
    main()
