"""The table of commands. Each is imported when it is asked for: all of them together take seconds."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module

import click

from loopyperf.cli.loudness import loudness
from loopyperf.errors import LoopyperfError, cannot_start

SUMMARIES: Mapping[str, str] = {
    "advise": (
        "Say what would make the Loopy kernel that FUNCTION in FILE.py builds faster, with the time after each change."
    ),
    "cache": ("Show or clear the cache of counts and answers."),
    "calibrate": (
        "Time the measurement kernels on a device, and fit the model that best predicts kernel classes left out."
    ),
    "compare": (
        "Ask all models for the run time of the Loopy kernel that FUNCTION in FILE.py builds, and print them together."
    ),
    "counters": "Predict what Nsight Compute counts of the Loopy kernel that FUNCTION in FILE.py builds.",
    "coverage": (
        "Print which kernels exercise each property, in which amounts, and how well it can be told from the others."
    ),
    "devices": "List the devices that have a description or a fit; where both exist, your own before the bundled ones.",
    "diff": "Say what differs between two Loopy kernels, or one at two sizes or on two devices, and why.",
    "doctor": "Check the installation; exit with status 1 if something essential is broken.",
    "estimate": "Predict the run time of the Loopy kernel that FUNCTION in FILE.py builds, and say what it is made of.",
    "explain": (
        "Say why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would make it faster."
    ),
    "fit": "Fit a model to the measurements in ARCHIVE, which `loopyperf calibrate` wrote; it may be compressed.",
    "microbenchmark": "Measure the latencies of instructions and the memories of a device, and write its description.",
    "rank": "Order the kernels VARIANTS in FILE.py by their predicted run times, fastest first.",
    "report": (
        "Write a page on why the Loopy kernel that FUNCTION in FILE.py builds takes so long, and what would help."
    ),
    "trace": "Write down what the warps of a core do when it executes the kernel that FUNCTION in FILE.py builds.",
    "train": (
        "Learn from the measurements in ARCHIVE, which `loopyperf calibrate` wrote, what a model leaves unexplained."
    ),
    "validate": (
        "Predict and measure kernels that no fit has seen; print both, and geometric means of the relative errors."
    ),
}
"""by the name of a command, what its own help begins with, so that all can be listed without importing any"""


class CommandTable(Mapping[str, click.Command]):
    """The commands by name; the command ``estimate`` is that of ``loopyperf/cli/estimate.py``."""

    def __getitem__(self, name: str) -> click.Command:
        """Return the command called *name*; raises :class:`LoopyperfError` where what it stands on is broken."""
        if name not in SUMMARIES:
            raise KeyError(name)
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


@cache
def _imported(name: str) -> click.Command:
    try:
        module = import_module(f"loopyperf.cli.{name}")
    except ImportError as error:
        raise LoopyperfError(cannot_start(error)) from error
    return loudness(getattr(module, name))


COMMANDS = CommandTable()
