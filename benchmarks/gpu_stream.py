"""Bandwidth against occupancy on six GPUs, predicted by the pipeline model from the catalog alone, beside measurements.

The data are those of RRZE-HPC/gpu-benches and te42kyfo/gpu-benches, ``gpu-stream.csv``: six kernels that access arrays
of doubles, one element for each work-item, in groups of 32 to 1024 of which 1 or 2 reside on a core. Errors are the
mean absolute percentage error over occupancies, and the same after the best linear fit of the differences is taken away
(Lemeire, section 6.3). How long it takes to begin a group is known from the ``init`` kernel at its lowest occupancy
(docs/devices.md), so that errors of ``init`` are no test of the model, and not in the means.

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
from papers.pictures import panels
from parts.shared_data import SHARED_DATA
from parts.tables import show, table
from rich.table import Table

import loopyperf as lpp
from loopyperf.calibration.accuracy import mape, mape_shape
from loopyperf.errors import MissingNumberError
from loopyperf.explain.plots import plot_over_occupancy
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS as OF_DEVICE
from loopyperf.stages.stages import staged

DEVICES = {
    "v100": "nvidia-v100",
    "a100_40": "nvidia-a100-40",
    "a40": "nvidia-a40",
    "h100_pcie": "nvidia-h100-pcie",
    "mi210": "amd-mi210",
    "rx6900xt": "amd-rx-6900-xt",
}
Key = tuple[str, str, str]
"""who measured, the device, the kernel"""
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
"""arrays that the measured bandwidth counts"""


@dataclass(frozen=True, slots=True)
class Row:
    """A bandwidth, in GB/s, with so many warps on a core."""

    warps: int
    predicted: Mapping[str, float]
    """by model"""
    measured: float


@cache
def graphs(kernel: str, work_items: int, warp_size: int) -> KernelProfile:
    """Return the graphs of a kernel in groups of so many work-items."""
    arrays = [lp.GlobalArg(name, np.float64, shape="n + 4") for name in "abc" if f"{name}[" in STATEMENTS[kernel]]
    unit = lp.make_kernel("{[i]: 0 <= i < n}", STATEMENTS[kernel], [*arrays, ...], target=lp.PyOpenCLTarget())
    unit = lp.split_iname(unit, "i", work_items, outer_tag="g.0", inner_tag="l.0")
    typical = {"insn": 0} if kernel == "read" else None
    return lpp.kernel_profile(unit, warp_size=warp_size, typical=typical, n=ELEMENTS // work_items * work_items)


def predicted(device: str, kernel: str, work_items: int, groups: int, models: Sequence[str]) -> dict[str, float]:
    """Return by each model the bandwidth in GB/s with so many groups on a core."""
    described = lpp.load_device(device)
    # Some rows have more groups than a core has room for: those that fit run at once.
    room = described.limits.warps // -(-work_items // described.warp_size)
    profile = graphs(kernel, work_items, described.warp_size)
    timed = staged(profile, described, concurrent_groups=min(groups, room)).timed
    moved = 8 * STREAMS[kernel] * (ELEMENTS // work_items * work_items) / 1e9
    return {name: moved / float(OF_DEVICE[name].time(timed).seconds) for name in models}


def rows(devices: Sequence[str], every: int, models: Sequence[str]) -> Iterator[tuple[Key, Row]]:
    """Yield source, device and kernel with what was predicted and measured."""
    known = cache(partial(predicted, models=models))
    for row, work_items in measured(devices):
        if work_items % (32 * every) == 0 and float(row["GBps"]) > 0:
            groups = int(float(row["blocks_per_sm"]))
            bandwidths = known(DEVICES[row["device"]], row["kernel"], work_items, groups)
            warps = groups * -(-work_items // lpp.load_device(DEVICES[row["device"]]).warp_size)
            key = row["source"].split("@")[0], row["device"], row["kernel"]
            yield key, Row(warps, bandwidths, float(row["GBps"]))


def measured(devices: Sequence[str]) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the rows of *devices*, each with the work-items of a group.

    One source has sizes for its A100 that are larger than any group: they are those of all groups of a core together.
    Read so, its bandwidths are those that the other source has with as many work-items on a core.
    """
    sets = defaultdict[tuple[str, str], list[dict[str, str]]](list[dict[str, str]])
    with (SHARED_DATA / "gpu-stream.csv").open() as file:
        for row in csv.DictReader(file):
            sets[row["source"], row["device"]].append(row)
    for (_, device), points in sets.items():
        if device in devices:
            limit = lpp.load_device(DEVICES[device]).limits.needed("work_items_per_group")
            are_together = max(int(row["block_size"]) for row in points) > limit
            for row in points:
                yield row, int(row["block_size"]) // (int(float(row["blocks_per_sm"])) if are_together else 1)


def errors(found: Sequence[Row], model: str) -> tuple[float, float]:
    """Return MAPE and MAPE_shape, which is not a number where ``--every`` leaves fewer than three occupancies."""
    predicted, measured = [row.predicted[model] for row in found], [row.measured for row in found]
    warps = [row.warps for row in found]
    return mape(predicted, measured), mape_shape(predicted, measured, warps) if len({*warps}) > 2 else float("nan")


def by_kernel_table(by_kernel: Mapping[Key, Sequence[Row]], model: str) -> Table:
    """Return the errors of a model by device and kernel."""
    found = table("measured by", "device", "kernel", "points", f"MAPE of {model}", "MAPE shape")
    for (source, device, kernel), points in by_kernel.items():
        found.add_row(source, device, kernel, str(len(points)), *(f"{each:.1%}" for each in errors(points, model)))
    return found


def by_model_tables(by_kernel: Mapping[Key, Sequence[Row]], models: Sequence[str]) -> Iterator[Table]:
    """Yield MAPE and MAPE_shape of each model, as means over kernels but ``init``, and the means of these."""
    columns = sets_of(by_kernel)
    means = {model: [of_set(by_kernel, column, model) for column in columns] for model in models}
    for number, figure in enumerate(("MAPE", "MAPE shape")):
        found = table(f"{figure} (%)", "mean", *(f"{device}, {source}" for source, device in columns))
        for model, both in means.items():
            shown = [each[number] for each in both]
            found.add_row(f"`{model}`", *(f"{100 * each:.1f}" for each in (np.mean(shown), *shown)))
        yield found


def sets_of(by_kernel: Mapping[Key, Sequence[Row]]) -> list[tuple[str, str]]:
    """Return the sources and their devices, without those whose measurements an earlier source has as well."""
    found: dict[tuple[object, ...], tuple[str, str]] = {}
    for source, device in dict.fromkeys(key[:2] for key in by_kernel):
        measured = [row.measured for key, rows in by_kernel.items() if key[:2] == (source, device) for row in rows]
        found.setdefault((device, *measured), (source, device))
    return list(found.values())


def of_set(by_kernel: Mapping[Key, Sequence[Row]], column: tuple[str, str], model: str) -> tuple[float, float]:
    """Return MAPE and MAPE_shape of what a source has of a device, as means over its kernels but ``init``."""
    counted = [points for key, points in by_kernel.items() if key[:2] == column and key[2] != "init"]
    first, second = zip(*(errors(points, model) for points in counted), strict=True)
    return float(np.mean(first)), float(np.mean(second))


def picture(by_kernel: Mapping[Key, Sequence[Row]], model: str) -> Figure:
    """Return a figure with a panel for each source and device: bandwidth over warps, a line for each kernel."""
    parts: dict[str, dict[str, Sequence[Row]]] = defaultdict(dict)
    for (source, device, kernel), found in by_kernel.items():
        parts[f"{device}, {source}"][kernel] = found

    def draw(part: Mapping[str, Sequence[Row]], ax: Axes) -> None:
        predicted = {kernel: [(row.warps, row.predicted[model]) for row in found] for kernel, found in part.items()}
        measured = {kernel: [(row.warps, row.measured) for row in found] for kernel, found in part.items()}
        plot_over_occupancy(predicted, measured=measured, ylabel="bandwidth (GB/s)", ax=ax)

    return panels(parts, min(3, len(parts)), draw)


def main() -> None:
    """Print the errors of the devices that are named, of all without names."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("devices", nargs="*", metavar="DEVICE", help=", ".join(DEVICES))
    parser.add_argument("--model", action="append", choices=list(OF_DEVICE), help="of several, one; all unless named")
    parser.add_argument("--every", type=int, default=1, help="only groups of multiples of so many times 32")
    parser.add_argument(
        "--kernels", action="store_true", help="the errors of each kernel, too, by the last of the models"
    )
    parser.add_argument("--picture", metavar="FILE", help="draw there what the last of the models says")
    asked = parser.parse_args()
    models = asked.model or list(OF_DEVICE)
    by_kernel: dict[Key, list[Row]] = defaultdict(list)
    for device in asked.devices or DEVICES:
        try:
            for key, row in rows([device], asked.every, models):
                by_kernel[key].append(row)
        except MissingNumberError as error:
            show(f"{device}: {error}")
    if asked.kernels:
        show(by_kernel_table(by_kernel, models[-1]))
    show(*by_model_tables(by_kernel, models))
    if asked.picture:
        picture(by_kernel, models[-1]).savefig(asked.picture)


if __name__ == "__main__":
    main()
