"""Launch overhead and the host's wait: against an H200 and a published sum, and where they are assumed."""

from dataclasses import replace
from pathlib import Path
from statistics import median

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.compiler.cuda_code import for_cuda
from loopyperf.measurement.archive import read_archive
from loopyperf.measurement.kernel_files import configurations_of, measurement_kernels
from loopyperf.models.workload import HOST_WAIT, LAUNCHES
from tests.kernels import doubled

ARCHIVE = Path(__file__).parents[2] / "fits" / "nvidia-h200" / "raw" / "calibration.jsonl.xz"
V100 = lpp.load_device("nvidia-v100")
OPTIONS = {"n": 2**12, "model": "pipeline"}


@pytest.mark.parametrize(
    ("kernel_class", "few", "many", "further"),
    [
        ("empty kernel", "1 in a row, group 64", "12 in a row, group 64", 11),
        ("several launches", "2 launches, group 256", "8 launches, group 256", 6),
    ],
)
def test_further_launches_take_their_measured_device_time(kernel_class: str, few: str, many: str, further: int) -> None:
    recording = read_archive(ARCHIVE)
    (file,) = (each for each in measurement_kernels() if each.name == kernel_class)
    built = {each.label: for_cuda(each.build()) for each in configurations_of(file, recording.runs[-1].limits)}
    smallest = {each.label: each for each in reversed(recording.standing) if each.kernel_class == kernel_class}
    measured, predicted = (
        {label: of(label) for label in (few, many)}
        for of in (
            lambda label: median(smallest[label].device_samples),
            lambda label: (
                lpp.estimate(
                    built[label], device="nvidia-h200", model="pipeline", parameters=smallest[label].sizes
                ).seconds
            ),
        )
    )
    # The first launch of a run also takes the time between events.
    each = (measured[many] - measured[few]) / further
    assert (predicted[many] - predicted[few]) / further == pytest.approx(each, rel=0.06)


def tree(groups: int) -> lp.TranslationUnit:
    """Return a sum of n floats by a tree in each of *groups* groups, and a second launch that adds up the groups."""
    unit = lp.make_kernel(
        f"{{[b, t, q, c]: 0 <= b, c < {groups} and 0 <= t < 256 and 0 <= q < n//{256 * groups}}}",
        f"""
        part[b] = sum(t, sum(q, x[{256 * groups}*q + 256*b + t]))
        ... gbarrier
        out[0] = sum(c, part[c])
        """,
        [
            lp.GlobalArg("x", np.float32, shape="n"),
            lp.GlobalArg("part", np.float32, shape=(groups,)),
            lp.GlobalArg("out", np.float32, shape=(1,)),
            lp.ValueArg("n", np.int32),
        ],
        assumptions=f"n >= {256 * groups} and n mod {256 * groups} = 0",
        seq_dependencies=True,
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, "b:g.0,t:l.0,c:l.0")


def test_short_sum_takes_its_published_wall_clock_time() -> None:
    # Sums on an RTX 3070, 163,840 floats in 640 groups: 15.8 µs
    found = lpp.estimate(tree(640), n=163_840, device="nvidia-rtx-3090", model="pipeline", wall=True)
    assert found.seconds == pytest.approx(15.8e-6, rel=0.3)


def test_wall_clock_time_adds_the_wait_once() -> None:
    device = replace(V100, launch_overhead=1e-6, host_wait=1e-3)
    own, wall = (lpp.estimate(doubled(group=256), device=device, wall=each, **OPTIONS) for each in (False, True))
    assert wall.seconds == pytest.approx(own.seconds + 1e-3, rel=1e-12)
    assert (own.clock, wall.clock) == ("device", "wall")
    costs = wall.breakdown.by_property()
    assert sum(costs.values()) == wall.seconds
    assert (costs[HOST_WAIT], costs[LAUNCHES]) == pytest.approx((1e-3, 1e-6))
    assert f"host wait of nvidia-v100: 1 ms ({device.source('host_wait').source})" in wall.notes
    batch = lpp.estimate(doubled(group=256), device=device, model="pipeline", n=np.array([2**12, 2**12]), wall=True)
    assert batch.seconds == pytest.approx(wall.seconds)


def test_fits_predict_wall_clock_times_already() -> None:
    fitted, wall = (lpp.estimate(doubled(), n=2**12, device="amd-r9-fury", wall=each) for each in (False, True))
    assert fitted.clock == "wall"
    assert fitted == wall


def test_assumed_launch_overhead_is_noted_and_counts_as_assumed() -> None:
    found = lpp.estimate(doubled(group=256), device="nvidia-rtx-4090", **OPTIONS)
    assert "launch overhead of nvidia-rtx-4090 is unknown; assumed 1.15 µs, as on nvidia-h200" in found.notes
    assert "assumed device parameters" in found.notes[0]
    assert not [note for note in lpp.estimate(doubled(), device=V100, **OPTIONS).notes if "launch overhead" in note]
