"""Test fits of a CPU without published device parameters, which use the parameters of a generic CPU."""

from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from msgspec import structs

import loopyperf as lpp
from loopyperf.calibration.archived import measured_device
from loopyperf.calibration.fit import observe
from loopyperf.calibration.fits import save_fit
from loopyperf.device.device_library import a_processor
from loopyperf.measurement.campaign import measure
from loopyperf.measurement.environment import Environment
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.predict.train import train_recordings
from tests.measurement.synthetic import SyntheticBackend
from tests.small_campaign import seconds, write_kernel_files

HERE = Environment.here(
    backend="opencl",
    platform="Portable Computing Language",
    vendor="Made Up",
    device="Made Up 1",
    driver="1",
    threads=1,
)


def summed() -> lp.TranslationUnit:
    unit = lp.make_kernel(
        "{[i, k]: 0 <= i, k < n}",
        "out[i] = sum(k, a[k]*a[i])",
        [lp.GlobalArg("a, out", np.float32, shape="n"), ...],
        assumptions="n >= 64 and n mod 64 = 0",
    )
    return lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0")


def test_thread_count_identifies_a_cpu_unless_the_device_is_published():
    assert measured_device(HERE) == a_processor()
    assert measured_device(structs.replace(HERE, threads=None)) is None
    published = measured_device(structs.replace(HERE, device="NVIDIA TITAN V"))
    assert published is not None
    assert published.slug == "nvidia-titan-v"


def test_generic_cpu_is_not_in_the_device_catalog():
    assert a_processor().slug not in lpp.devices()
    with pytest.raises(lpp.errors.UnknownDeviceError):
        lpp.load_device(a_processor().slug)


def test_fit_records_that_its_pipelines_are_of_the_generic_cpu(make_fit, tmp_path: Path):
    fit = make_fit(
        model="overlap", basis="pipelines", sharpness=4.0, weights={"launches": 1e-5}, described_as="processor"
    )
    save_fit(fit, tmp_path / "fit.json")
    estimated = lpp.estimate(summed(), n=1024, fit=tmp_path / "fit.json")
    assert estimated.device == "made-up-1"
    by_hand = 1024**2 * a_processor().completion_latency("fma", "f32") / a_processor().clock
    assert dict(estimated.breakdown.by_property())["recurrences: fma f32"] == pytest.approx(by_hand, rel=0.2)
    assert by_hand < estimated.seconds < 3 * by_hand
    with pytest.raises(lpp.errors.UnknownDeviceError, match="made-up-1"):
        lpp.estimate(summed(), n=1024, fit=structs.replace(fit, described_as=""))


def test_observation_has_the_pipelines_of_the_estimate(make_fit):
    fit = make_fit(
        model="overlap", basis="pipelines", sharpness=2.0, weights={"launches": 1e-5}, described_as="processor"
    )
    row = observe(summed(), {"n": 256}, 1.0, kernel_class="sum", label="sum", device=a_processor())
    costs = lpp.estimate(summed(), n=256, fit=fit).breakdown.by_property()
    assert set(row.pipelines) == set(costs)


def test_residual_model_of_a_cpu_corrects_a_pipeline_fit(tmp_path: Path):
    pytest.importorskip("sklearn", reason="learned models are in the extra learn")
    write_kernel_files(tmp_path / "kernels")
    files = load_kernel_files(tmp_path / "kernels")
    machine = SyntheticBackend(seconds, environment=HERE)
    learned = train_recordings([measure(machine, files, tmp_path / "archive.jsonl", None, None)], files)
    assert learned.record.fit is not None
    assert (learned.record.fit.basis, learned.record.described_as) == ("pipelines", "processor")
    estimated = lpp.estimate(summed(), n=1024, model="learned", fit=learned)
    assert estimated.device == "made-up-1"
    assert estimated.seconds > 0
