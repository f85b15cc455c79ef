"""Test that fits are found by the name of the driver and by the name in the device catalog."""

from pathlib import Path
from types import SimpleNamespace

import pytest

import loopyperf as lpp
from loopyperf.calibration.fits import save_fit
from loopyperf.stages import device_choice
from tests.kernels import doubled

KERNEL = doubled()


def test_local_device_uses_the_fit_under_its_other_name(make_fit, own_data: Path, monkeypatch: pytest.MonkeyPatch):
    environment = SimpleNamespace(slug="geforce-gtx-1060-6gb")
    monkeypatch.setattr(device_choice, "open_backend", lambda name: SimpleNamespace(environment=environment))
    assert lpp.estimate(KERNEL, n=64, model="roofline").device == "nvidia-gtx-1060"
    save_fit(make_fit(slug="nvidia-gtx-1060"), own_data / "fits" / "nvidia-gtx-1060" / "linear.json")
    assert lpp.estimate(KERNEL, n=64).model == "linear"
