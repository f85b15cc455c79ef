"""Recorded tuning spaces: the variants of a kernel, the time that others or we measured for each, and our predictions.

A space comes from a file of measurements: ``titan-v-spaces.pkl.xz`` and ``ktt-convolution-rtx-2080-ti.csv.xz`` of the
shared data, our archive of ranking sets on an H200, a cache file of Kernel Tuner, a file of the T4 format of the
autotuning community, or KTT's JSON. Predictions come from ``tuning/gather.py``, which stores a file for each space.
"""

import csv
import json
import lzma
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from parts.shared_data import SHARED_DATA
from ranking_sets import element_einsum, matrix_multiplication, stencil

from loopyperf.measurement.archive import Recording, read_archive

Option = bool | int | float | str
"""value of a tuning parameter"""
Parameters = Mapping[str, Option]
"""tuning parameter -> value; a parameter that a variant does not have is absent"""
GATHERED = Path(__file__).parents[1] / "gathered" / "spaces"
"""folder of the stored predictions: a file NAME.jsonl.xz for each space"""


# {{{ plain values


class PredictedRow(msgspec.Struct, frozen=True):
    """What loopyperf predicts for a variant without running it; times in seconds.

    Fields are empty if their step failed or took too long.
    """

    row: int
    """index of the variant in its space"""
    bounds: dict[str, float] = {}
    """lower bounds of the time: ``"throughput"``, from the source alone, and ``"roofline"``, from machine code"""
    seconds: dict[str, float] = {}
    """device model, e.g. ``"pipeline"`` -> device time, with launch overhead"""
    otherwise: list[float] = []
    """time of ``pipeline`` for each other placement of private arrays, if their placement is uncertain"""
    busy: dict[str, float] = {}
    """pipeline or memory level -> seconds for which it is busy, on the core with most work; also ``"latency"``,
    ``"issue"`` and ``"start"``. ``"launches"`` is a number"""
    counters: dict[str, float] = {}
    """metric of Nsight Compute -> value in one execution of the first launch"""
    features: dict[str, float] = {}
    """features of the machine graphs and of their residence on a core (``models/static_features.py``), and ``"groups"``
    and ``"work-items"`` of a group"""
    took: dict[str, float] = {}
    """step -> processor time of this prediction"""
    failures: dict[str, str] = {}
    """step -> class of the error"""


@dataclass(frozen=True)
class RecordedSpace:
    """A tuning space of which each variant was measured. Lists have one entry for each variant, in one order."""

    name: str
    """short and unique; the name of the file of predictions"""
    device: str
    """slug of the device in the catalog; empty if unknown"""
    parameters: Sequence[Parameters]
    times: Sequence[float | None]
    """measured seconds; None if the variant failed"""
    source: str
    """where the measurements come from"""
    predictions: Sequence[PredictedRow | None] | None = None
    """None if nothing is predicted for this space; a variant without prediction has None"""

    @property
    def best(self) -> float:
        """Return the least measured time in seconds."""
        return min(each for each in self.times if each is not None)

    def predicted(self, model: str = "pipeline") -> list[float | None]:
        """Return the seconds that *model* predicts for each variant; None where there is no prediction."""
        rows = self.predictions if self.predictions is not None else [None] * len(self.times)
        return [None if row is None else row.seconds.get(model) for row in rows]


# }}}


# {{{ stored predictions


def read_predictions(path: Path) -> dict[int, PredictedRow]:
    """Return the predictions of a space by row, from a file of JSON Lines, which may be compressed with xz."""
    content = path.read_bytes()
    plain = lzma.decompress(content) if path.suffix == ".xz" else content
    rows = (msgspec.json.decode(line, type=PredictedRow) for line in plain.splitlines())
    return {each.row: each for each in rows}


def with_predictions(space: RecordedSpace, folder: Path = GATHERED) -> RecordedSpace:
    """Return *space* with the predictions stored in *folder*, if there are any."""
    path = folder / f"{space.name}.jsonl.xz"
    if not path.exists():
        return space
    known = read_predictions(path)
    return replace(space, predictions=[known.get(row) for row in range(len(space.times))])


# }}}


# {{{ spaces of a TITAN V

TITAN_V_SPACES = SHARED_DATA / "titan-v-spaces.pkl.xz"


def titan_v_rows() -> dict[str, list[dict[str, Any]]]:
    """Return the measured kernels of each space, in the order of measurement."""
    with lzma.open(TITAN_V_SPACES) as file:
        rows: list[dict[str, Any]] = pickle.load(file)
    spaces: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        spaces.setdefault(row["space"], []).append(row)
    return spaces


def titan_v_spaces() -> Iterator[RecordedSpace]:
    """Yield the spaces of einsums that kaushikcfd/feinsum measured; a parameter of each is its transformation."""
    for name, rows in titan_v_rows().items():
        yield RecordedSpace(
            name=name,
            device="nvidia-titan-v",
            parameters=[{"transform": Path(row["transform"]).stem, **flattened(row["params"])} for row in rows],
            times=[row["seconds"] for row in rows],
            source="kaushikcfd/feinsum, titan-v-spaces.pkl.xz",
        )


def flattened(parameters: Mapping[str, Any]) -> dict[str, Option]:
    """Return *parameters* with an entry for each element of a list, ``"name[0]"``."""
    found: dict[str, Option] = {}
    for name, value in parameters.items():
        if isinstance(value, list | tuple):
            found |= flattened({f"{name}[{place}]": each for place, each in enumerate(value)})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        else:
            found[name] = value
    return found


# }}}


# {{{ the convolution that KTT tuned

CONVOLUTION = SHARED_DATA / "ktt-convolution-rtx-2080-ti.csv.xz"
TUNED = ("BLOCK_SIZE_X", "BLOCK_SIZE_Y", "TILE_SIZE_X", "TILE_SIZE_Y", "PADDING", "READ_ONLY")
"""columns with more than one value"""


def convolution_space() -> RecordedSpace:
    """Return the configurations of a convolution on an RTX 2080 Ti."""
    with lzma.open(CONVOLUTION, "rt") as file:
        rows = list(csv.DictReader(file))
    return RecordedSpace(
        name="convolution",
        device="nvidia-rtx-2080-ti",
        parameters=[{name: int(row[name]) for name in TUNED} for row in rows],
        times=[1e-6 * float(row["microseconds"]) for row in rows],
        source="AutoTuningAssociation/benchmark_hub, ktt-convolution-rtx-2080-ti.csv.xz",
    )


# }}}


# {{{ our ranking sets on an H200

H200_ARCHIVE = Path(__file__).parents[2] / "fits" / "nvidia-h200" / "raw" / "ranking.jsonl.xz"
SETS = {"products": matrix_multiplication, "element-products": element_einsum, "stencils": stencil}
"""name of a ranking set -> module of its variants"""
FEWEST = 8
"""variants of the smallest set that counts as a space; the budget of the measurements ended within a set"""


def ranking_set_spaces(recording: Recording | None = None) -> Iterator[RecordedSpace]:
    """Yield a space for each ranking set and size in *recording*, by default our archive of an H200."""
    recording = read_archive(H200_ARCHIVE) if recording is None else recording
    protocol = recording.runs[0].protocol
    for name, module in SETS.items():
        forms = {form.label: form for form in module.FORMS}
        for size in module.SIZES:
            rows = [
                each
                for each in recording.standing
                if each.kernel_class == module.NAME and dict(each.sizes) == {"n": size} and each.label in forms
            ]
            if len(rows) >= FEWEST:
                yield RecordedSpace(
                    name=f"{name}-{size}",
                    device="nvidia-h200",
                    parameters=[forms[row.label]._asdict() for row in rows],
                    times=[protocol.measured_time(row.device_samples or row.samples) for row in rows],
                    source="fits/nvidia-h200/raw/ranking.jsonl.xz",
                )


# }}}


# {{{ files of other tuners
#
# Kernel Tuner and T4 give times in milliseconds, T4 unless a measurement has another unit; KTT states the unit. A
# failed variant has no time: Kernel Tuner writes the name of an error in place of the objective, T4 an `invalidity`
# other than "correct", KTT a `Status` other than "Ok".

MILLISECONDS = 1e-3
UNITS = {
    "s": 1.0,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "Seconds": 1.0,
    "Milliseconds": 1e-3,
    "Microseconds": 1e-6,
    "Nanoseconds": 1e-9,
}
"""other units of measurements in the T4 format, and KTT's -> seconds"""
FAILED = 1e20
"""time of a failed variant in caches of old versions of Kernel Tuner"""


def read_kernel_tuner_cache(path: Path) -> RecordedSpace:
    """Return the space of a cache file of Kernel Tuner; a session that was killed leaves it without its last brackets.

    Raises :class:`ValueError` for a file that is not such a cache.
    """
    text = path.read_text(encoding="utf-8").rstrip().rstrip(",")
    try:
        found = json.loads(text)
    except json.JSONDecodeError:
        found = json.loads(text + "}}")
    names: list[str] = found["tune_params_keys"]
    objectives: list[str] | str = found.get("objective", "time")
    objective = objectives if isinstance(objectives, str) else objectives[0]
    variants: list[dict[str, Any]] = list(found["cache"].values())
    return RecordedSpace(
        name=path.stem,
        device="",
        parameters=[{name: each[name] for name in names} for each in variants],
        times=[seconds_of(each.get(objective)) for each in variants],
        source=f"{path.name}: {found['kernel_name']} on {found['device_name']}",
    )


def read_t4(path: Path) -> RecordedSpace:
    """Return the space of a file of results in the T4 format.

    The time of a variant is its first objective among its measurements, else the mean of its runs. Raises
    :class:`ValueError` for a file that is not in this format.
    """
    variants: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["results"]
    return RecordedSpace(
        name=path.stem,
        device="",
        parameters=[each["configuration"] for each in variants],
        times=[t4_time(each) for each in variants],
        source=path.name,
    )


def read_ktt(path: Path) -> RecordedSpace:
    """Return the space of a JSON file of results that KTT wrote; raises :class:`ValueError` for another file."""
    found = json.loads(path.read_text(encoding="utf-8"))
    unit, variants = UNITS[found["Metadata"]["TimeUnit"]], found["Results"]
    return RecordedSpace(
        name=path.stem,
        device="",
        parameters=[{each["Name"]: each["Value"] for each in variant["Configuration"]} for variant in variants],
        times=[seconds_of(each["TotalDuration"], unit) if each["Status"] == "Ok" else None for each in variants],
        source=f"{path.name}: {variants[0]['KernelName']} on {found['Metadata']['Device']}",
    )


def t4_time(variant: Mapping[str, Any]) -> float | None:
    """Return the seconds of one result; None if it is invalid."""
    if variant["invalidity"] != "correct":
        return None
    measured = {each["name"]: each for each in variant.get("measurements", ())}
    objective = next((measured[name] for name in variant.get("objectives", ()) if name in measured), None)
    if objective is not None:
        return seconds_of(objective["value"], UNITS.get(objective.get("unit", ""), MILLISECONDS))
    runs = variant["times"].get("runtimes") or ()
    return seconds_of(sum(runs) / len(runs)) if runs else None


def seconds_of(time: object, unit: float = MILLISECONDS) -> float | None:
    """Return *time* in seconds; None if it is no positive number, such as the name of an error."""
    if not isinstance(time, int | float) or not 0 < time < FAILED:
        return None
    return unit * time


# }}}


def all_spaces() -> list[RecordedSpace]:
    """Return all spaces with the stored predictions; those whose file is absent are left out."""
    sources: list[tuple[Path, Callable[[], Iterator[RecordedSpace]]]] = [
        (TITAN_V_SPACES, titan_v_spaces),
        (CONVOLUTION, lambda: iter([convolution_space()])),
        (H200_ARCHIVE, ranking_set_spaces),
    ]
    return [with_predictions(space) for path, read in sources if path.exists() for space in read()]
