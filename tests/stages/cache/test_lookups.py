"""A predictor looks its fit or device up once, an estimate by name each time."""

from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.calibration import choice
from loopyperf.calibration.fit_library import find_fit
from loopyperf.calibration.fits import save_fit
from loopyperf.device.device_library import BUNDLED, load_device
from loopyperf.stages.device_choice import DEVICE_VARIABLE
from tests.kernels import doubled

KERNEL = doubled()
V100 = load_device("nvidia-v100")


@pytest.fixture
def fits(own_data: Path, make_fit) -> Path:
    """Return the folder of the user's fits, with fits of two devices."""
    for slug in ("argument", "variable"):
        save_fit(make_fit(slug=slug), own_data / "fits" / slug / "linear.json")
    return own_data / "fits"


def test_predictor_looks_up_its_fit_once(fits: Path, monkeypatch: pytest.MonkeyPatch):
    lookups: list[str] = []

    def find(device: str, *args: object, **options: object):
        lookups.append(device)
        return find_fit(device, *args, **options)

    monkeypatch.setattr(choice, "find_fit", find)
    predict = lpp.predictor(device="argument")
    assert [predict(KERNEL, n=n).device for n in (64, 128)] == ["argument"] * 2
    assert lookups == ["argument"]


@pytest.mark.parametrize("model", [None, "roofline"])
@pytest.mark.parametrize("given", [str, Path, None], ids=["string", "path", "variable"])
def test_device_file_at_a_path_is_read_each_time(
    given: type | None, model: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv(DEVICE_VARIABLE, "" if given else "mine.toml")
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    assert "clock = { value = 1380," in text
    for number, clock in enumerate((1380, 690, 345)):
        # The second file overwrites the first, and the third is another file of the same name.
        folder = tmp_path / ("here" if number < 2 else "there")
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        Path("mine.toml").write_text(text.replace("value = 1380,", f"value = {clock},"), encoding="utf-8")
        answer = lpp.estimate(KERNEL, n=64, device=given and given("mine.toml"), model=model)
        expected = lpp.estimate(KERNEL, n=64, device=load_device(Path("mine.toml")), model=model)
        assert (answer.device, answer.seconds) == ("mine", expected.seconds)
