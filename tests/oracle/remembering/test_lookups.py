"""Which fit or description is meant is looked up once in a moment, but a file that somebody named is read each time."""

from pathlib import Path

import pytest
from kernels import doubled

import loopyperf as lpp
from loopyperf.calibration.fit_files import save_fit
from loopyperf.calibration.library import find_fit
from loopyperf.device.library import BUNDLED, is_one_device, load_device
from loopyperf.errors import UnknownDeviceError
from loopyperf.oracle import choice
from loopyperf.oracle.choice import chosen_fit
from loopyperf.oracle.remembering import moment

KERNEL = doubled()
V100 = load_device("nvidia-v100")


def estimated_device(**options):
    return lpp.estimate(KERNEL, n=64, **options).device


@pytest.fixture
def fits(own_data: Path, make_fit) -> Path:
    """Fits of one's own for two devices."""
    for slug in ("argument", "variable"):
        save_fit(make_fit(slug=slug), own_data / "fits" / slug / "linear.json")
    return own_data / "fits"


def test_a_search_does_not_look_at_files_for_each_kernel(fits: Path, monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []

    def find(device: str, *args: object, **options: object):
        looked.append(device)
        return find_fit(device, *args, **options)

    monkeypatch.setattr(choice, "find_fit", find)
    monkeypatch.setattr(moment, "monotonic", lambda: now)
    now = 0.0
    for device in ("argument", "variable") * 3:
        assert estimated_device(device=device) == device
    assert looked == ["argument", "variable"]
    now = 1.01 * moment.MOMENT
    assert estimated_device(device="argument") == "argument"
    assert looked == ["argument", "variable", "argument"]


def test_a_fit_that_was_just_saved_is_found_at_once(own_data: Path, make_fit, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moment, "monotonic", lambda: 0.0)
    for seconds in (1.0, 2.0):
        save_fit(make_fit(slug="mine", weights={"launches": seconds}), own_data / "fits" / "mine" / "linear.json")
        found = chosen_fit(None, "mine", None)
        assert found.weights["launches"] == seconds


def test_another_folder_of_ones_own_has_other_fits(fits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(moment, "monotonic", lambda: 0.0)
    assert estimated_device(device="argument") == "argument"
    monkeypatch.setenv("LOOPYPERF_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(UnknownDeviceError):
        estimated_device(device="argument")


def test_a_description_is_read_once_in_a_moment(monkeypatch: pytest.MonkeyPatch):
    read: list[object] = []
    monkeypatch.setattr(choice, "load_device", lambda name: read.append(name) or load_device(name))
    monkeypatch.setattr(moment, "monotonic", lambda: 1e9)
    for _ in range(3):
        assert estimated_device(device="nvidia-v100", model="roofline") == "nvidia-v100"
    assert read == ["nvidia-v100"]


@pytest.mark.parametrize("model", [None, "roofline"])
@pytest.mark.parametrize("given", [str, Path, None], ids=["string", "path", "variable"])
def test_a_description_at_a_path_is_read_each_time(
    given: type | None, model: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(moment, "monotonic", lambda: 1e9)
    monkeypatch.setenv(choice.DEVICE_VARIABLE, "" if given else "mine.toml")
    text = (BUNDLED / "nvidia-v100.toml").read_text(encoding="utf-8")
    assert "clock = { value = 1380," in text
    for number, clock in enumerate((1380, 690, 345)):
        # The second is written over the first, the third is another file of the same name.
        folder = tmp_path / ("here" if number < 2 else "there")
        folder.mkdir(exist_ok=True)
        monkeypatch.chdir(folder)
        Path("mine.toml").write_text(text.replace("value = 1380,", f"value = {clock},"), encoding="utf-8")
        answer = lpp.estimate(KERNEL, n=64, device=given and given("mine.toml"), model=model)
        stated = lpp.estimate(KERNEL, n=64, device=load_device(Path("mine.toml")), model=model)
        assert (answer.device, answer.seconds) == ("mine", stated.seconds)


def test_that_a_description_that_was_given_has_no_fit_is_found_once_in_a_moment(monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []
    monkeypatch.setattr(choice, "find_fit", lambda slug, *_, **__: looked.append(slug) or find_fit(slug))
    monkeypatch.setattr(moment, "monotonic", lambda: 1e9)
    for _ in range(3):
        assert estimated_device(device=V100) == "nvidia-v100"
    assert looked == ["nvidia-v100"]


def test_whether_a_fit_is_for_a_device_is_found_once_in_a_moment(make_fit, monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(choice, "is_one_device", lambda *names: asked.append(names) or is_one_device(*names))
    monkeypatch.setattr(moment, "monotonic", lambda: 1e9)
    for _ in range(3):
        assert estimated_device(device="Tesla V100-PCIE-16GB", fit=make_fit(slug="nvidia-v100")) == "nvidia-v100"
    assert asked == [("nvidia-v100", "tesla-v100-pcie-16gb")]


def test_what_is_remembered_is_bounded(own_data: Path, make_fit):
    for _ in range(moment.MOST + 2):
        save_fit(make_fit(slug="mine"), own_data / "fits" / "mine" / "linear.json")
        assert chosen_fit(None, "mine", None).slug == "mine"
        assert 0 < len(choice._fits) <= moment.MOST
