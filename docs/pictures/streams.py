"""Draw predicted and measured bandwidths over the occupancy, for the first page of the documentation.

The predictions use only device parameters. Two of the six kernels of ``benchmarks/gpu_stream.py`` are drawn, because
the curves of all would overlap: ``read``, which has the largest errors, and ``triad``. The measurements are those of
te42kyfo/gpu-benches.

    PYTHONPATH=benchmarks LOOPYPERF_SHARED_DATA=../shared/data .venv/bin/python docs/pictures/streams.py FILE
"""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence

from gpu_stream import Row, rows
from matplotlib.figure import Figure
from papers.pictures import plot_over_occupancy
from saving import save

GPUS = {"v100": "V100", "a40": "A40", "h100_pcie": "H100 PCIe", "mi210": "MI210"}
KERNELS = {"triad": "triad, a = 1.2 b + c", "read": "read"}
MODEL = "pipeline"
EVERY = 2
"""step between group sizes, in units of 32 work-items"""


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
    """Save the figure to the file given on the command line."""
    found: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for (source, device, kernel), row in rows(list(GPUS), EVERY, [MODEL]):
        if source == "te42kyfo" and kernel in KERNELS:
            found[GPUS[device]][KERNELS[kernel]].append(row)
    save(drawn({name: found[name] for name in GPUS.values()}), sys.argv[1])


if __name__ == "__main__":
    main()
