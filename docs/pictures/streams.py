"""Draw bandwidth over occupancy, predicted from descriptions of devices alone, beside measurements, for the first page.

Of the six kernels of ``benchmarks/gpu_stream.py``, two are drawn, as all would hide each other: ``read``, of which the
model says least well, and ``triad``. The measurements are those of te42kyfo/gpu-benches.

    PYTHONPATH=benchmarks LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python docs/pictures/streams.py FILE
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpu_stream import Row, rows
from matplotlib.figure import Figure
from saving import save

from loopyperf.explain.plots import plot_over_occupancy

GPUS = {"v100": "V100", "a40": "A40", "h100_pcie": "H100 PCIe", "mi210": "MI210"}
KERNELS = {"triad": "triad, a = 1.2 b + c", "read": "read"}
MODEL = "pipeline"
EVERY = 2
"""times 32 work-items, from one group to the next larger one"""


def drawn(found: Mapping[str, Mapping[str, Sequence[Row]]]) -> Figure:
    """Return the figure, with a panel for each GPU."""
    figure = Figure(figsize=(7.5, 5.5), layout="constrained")
    for (name, by_kernel), ax in zip(found.items(), figure.subplots(2, 2).flat, strict=True):
        predicted = {kernel: [(row.warps, row.predicted[MODEL]) for row in each] for kernel, each in by_kernel.items()}
        measured = {kernel: [(row.warps, row.measured) for row in each] for kernel, each in by_kernel.items()}
        plot_over_occupancy(predicted, measured=measured, ylabel="bandwidth (GB/s)", ax=ax)
        ax.annotate(name, (0.97, 0.06), xycoords="axes fraction", ha="right", fontsize="large")
    return figure


def main() -> None:
    """Draw into the file that is named."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for (source, device, kernel), row in rows(list(GPUS), EVERY, [MODEL]):
        if source == "te42kyfo" and kernel in KERNELS:
            found[GPUS[device]][KERNELS[kernel]].append(row)
    save(drawn({name: found[name] for name in GPUS.values()}), sys.argv[1])


if __name__ == "__main__":
    main()
