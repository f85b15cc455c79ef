"""A calibration small enough for a test: kernels with known counts, on a synthetic device.

Groups of 16, float32. For each of n elements, the kernels execute these loads and stores, all at stride 1, additions
and multiplications:

========  =====  ======  =========  ===============
kernel    loads  stores  additions  multiplications
========  =====  ======  =========  ===============
empty     0      0       0          0
fill      0      1       0          0
copy      1      1       0          0
double    1      1       0          1
product   3      1       0          2
sum       3      1       2          0
========  =====  ======  =========  ===============
"""

from pathlib import Path
from typing import Any

import loopyperf as lpp
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.protocol import Protocol
from tests.measurement.synthetic import SyntheticBackend, environment

COUNTS = {
    "empty": (0, 0, 0, 0),
    "fill": (0, 1, 0, 0),
    "copy": (1, 1, 0, 0),
    "double": (1, 1, 0, 1),
    "product": (3, 1, 0, 2),
    "sum": (3, 1, 2, 0),
}
"""label -> loads, stores, additions and multiplications for each element"""

WEIGHTS = {
    "f32 add": 3e-11,
    "f32 mul": 4e-11,
    "global load 32-bit stride 1": 6e-11,
    "global store 32-bit stride 1": 9e-11,
    "global min(load, store) 32-bit stride 1": -2e-11,
    "launches": 2e-6,
    "work-groups": 1e-9,
}
"""seconds, which a calibration must recover; because one is negative, only the plain linear fit can"""


def seconds(case: BenchmarkCase) -> float:
    """Return the time of a kernel by the weights and the counts above, also for the bundled empty kernel."""
    n = case.sizes["n"]
    label = case.configuration.label
    if "in a row" in label:
        return int(label.partition(" ")[0]) * (WEIGHTS["launches"] + WEIGHTS["work-groups"])
    if label not in COUNTS:
        return WEIGHTS["launches"] + WEIGHTS["work-groups"] * bundled_groups(label, n)
    loads, stores, additions, multiplications = COUNTS[label]
    counts = {
        "f32 add": additions * n,
        "f32 mul": multiplications * n,
        "global load 32-bit stride 1": loads * n,
        "global store 32-bit stride 1": stores * n,
        "global min(load, store) 32-bit stride 1": min(loads, stores) * n,
        "launches": 1,
        "work-groups": n // 16,
    }
    return sum(WEIGHTS[name] * count for name, count in counts.items())


def device() -> SyntheticBackend:
    """Return a device whose times follow from the weights."""
    return SyntheticBackend(seconds)


def bundled_groups(label: str, n: int) -> int:
    """Return the number of work-groups of n × n work-items, from a label such as ``group 24x16``."""
    columns, rows = label.removeprefix("group ").split("x")
    return n * n // (int(columns) * int(rows))


KERNEL_FILE = '''"""A test."""

import loopy as lp
import numpy as np

from loopyperf.measurement.environment import Configuration

NAME = "{name}"
STATEMENTS = {statements}
SIZES = {sizes}


def configurations(limits):
    return [configuration(label, statement) for label, statement in STATEMENTS.items()]


def configuration(label, statement):
    return Configuration(
        label=label,
        build=lambda: build(statement),
        sizes=tuple({{"n": n}} for n in SIZES),
        arguments=lambda rng, sizes: arguments(statement, rng, sizes["n"]),
        reference=REFERENCES[label],
        steps=3,
    )


def arguments(statement, rng, n):
    return {{**{{name: rng.random(n, dtype=np.float32) for name in arrays(statement)}}, "n": np.int32(n)}}


def arrays(statement):
    return [name for name in ("a", "b", "c", "out") if name + "[i]" in statement]


def build(statement):
    knl = lp.make_kernel(
        "{{[i]: 0 <= i < n}}",
        statement,
        [lp.GlobalArg(name, np.float32, shape="n") for name in arrays(statement)] + [lp.ValueArg("n", np.int32)],
        assumptions="n mod 16 = 0 and n >= 16",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 16, outer_tag="g.0", inner_tag="l.0")


REFERENCES = {{
    "empty": lambda given: {{}},
    "fill": lambda given: {{"out": np.full_like(given["out"], 1.5)}},
    "copy": lambda given: {{"out": given["a"]}},
    "double": lambda given: {{"out": 2 * given["a"]}},
    "product": lambda given: {{"out": given["a"] * given["b"] * given["c"]}},
    "sum": lambda given: {{"out": given["a"] + given["b"] + given["c"]}},
}}
'''

EMPTY = {"empty": "... nop {inames=i}"}
VECTORS = {
    "fill": "out[i] = 1.5f",
    "copy": "out[i] = a[i]",
    "double": "out[i] = 2*a[i]",
    "product": "out[i] = a[i]*b[i]*c[i]",
    "sum": "out[i] = a[i] + b[i] + c[i]",
}
CLASSES = {
    "empty kernel": (EMPTY, (2**10, 2**12, 2**14)),
    "vectors": (VECTORS, (2**14, 2**15, 2**16)),
    "long vectors": (VECTORS, (2**17, 2**18, 2**19)),
}
"""NAME of the file -> statements by label, and sizes; each class of vectors alone determines all weights"""


def write_kernel_files(folder: Path, *names: str) -> Path:
    """Write the kernel files of the classes *names* (default: all) into *folder* and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or CLASSES:
        statements, sizes = CLASSES[name]
        text = KERNEL_FILE.format(name=name, statements=statements, sizes=sizes)
        (folder / f"{name.replace(' ', '_')}.py").write_text(text, encoding="utf-8")
    return folder


SLUG = environment().slug
PROTOCOL = Protocol(runs=4, dropped=1, probe_runs=2, overhead_factor=1)
# Least squares amplifies rounding errors by the condition number of the columns, which is below 1000 here.
ROUNDING = 1e-9


def calibrate(backend: SyntheticBackend, kernels: Path, **options: Any) -> lpp.Fit:
    """Return the linear fit, which recovers the weights of the device."""
    return lpp.calibrate(backend, kernels=kernels, protocol=PROTOCOL, **{"model": "linear", **options})


def archives(own_data: Path) -> list[Path]:
    return sorted((own_data / "archives" / SLUG).glob("*.jsonl"))


class InterruptedCampaignError(Exception):
    pass


class Mortal(SyntheticBackend):
    """A device that fails after :attr:`AFTER` calls, when a measurement or probe has just finished."""

    AFTER = 12

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        if len(self.calls) == self.AFTER and case.kernel_class != REFERENCE:
            raise InterruptedCampaignError
        return super().time(case, runs)
