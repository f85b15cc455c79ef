"""Test calibrations with samples, and training of residual models for the sampled model."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import loopyperf as lpp
from loopyperf.calibration.residual_model import own_residual_models
from loopyperf.errors import BackendError, CalibrationError, LoopyperfWarning, MeasurementError, ParameterError
from loopyperf.measurement.archive import Recording, read_archive
from loopyperf.measurement.backends import open_backend
from loopyperf.measurement.backends.backend import BenchmarkCase, Contents, MeasuredTimes
from loopyperf.measurement.drift_monitor import REFERENCE
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.measurement.protocol import Protocol
from loopyperf.measurement.records import Run
from loopyperf.predict.train import train_recordings
from tests.kernels import doubled, gathered, summed
from tests.measurement.synthetic import SyntheticBackend
from tests.parts_backend import HOST, TICK, WholeAndParts, alike
from tests.small_campaign import seconds, write_kernel_files

PROTOCOL = Protocol(runs=4, dropped=1, probe_runs=2, overhead_factor=0, longest_run=1.0)
MEASUREMENTS = 33
"""11 kernels at 3 sizes each"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_kernel_files(tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "samples.jsonl"


def calibrated(backend: Any, kernels: Path, path: Path, *, samples: bool = True) -> Recording:
    """Return the archive of a calibration."""
    lpp.calibrate(
        backend,
        kernels=kernels,
        archive=path,
        save=path.with_name("fit.json"),
        protocol=PROTOCOL,
        model="linear",
        samples=samples,
    )
    return read_archive(path)


@pytest.fixture(scope="module")
def finished(kernels: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the bytes of an archive with samples of all measurements."""
    path = tmp_path_factory.mktemp("finished") / "samples.jsonl"
    calibrated(WholeAndParts(), kernels, path)
    return path.read_bytes()


@pytest.fixture
def recording(finished: bytes, path: Path) -> Recording:
    """Return the contents of the finished archive, stored at *path*."""
    path.write_bytes(finished)
    return read_archive(path)


def without(recording: Recording, *labels: str) -> Recording:
    """Return *recording* without the samples of the kernels with *labels*, or without any samples if none are given."""
    return replace(recording, sampled=tuple(each for each in recording.sampled if labels and each.label not in labels))


def trained(recording: Recording, kernels: Path, base: str | None = None) -> lpp.ResidualModel:
    pytest.importorskip("sklearn", reason="learned models are in the extra learn")
    return train_recordings([recording], load_kernel_files(kernels), base=base)


@pytest.fixture(scope="module")
def learned(finished: bytes, kernels: Path, tmp_path_factory: pytest.TempPathFactory) -> lpp.ResidualModel:
    """Return the residual model that is trained on the finished archive."""
    path = tmp_path_factory.mktemp("learned") / "samples.jsonl"
    path.write_bytes(finished)
    return trained(read_archive(path), kernels)


@dataclass
class Refusing(WholeAndParts):
    """A device that cannot run parts of kernels labeled *refused*, and is lost after *last* partial runs."""

    refused: tuple[str, ...] = ()
    last: int = 10**9

    def bound(self, case: BenchmarkCase, contents: Contents) -> Any:
        if case.configuration.label in self.refused:
            raise MeasurementError(f"{case}: no parts of this one")
        if len(self.asked) > self.last:
            raise BackendError("the device is lost")
        return super().bound(case, contents)


# {{{ sampling


def test_every_measurement_is_sampled(recording: Recording):
    assert set(recording.samples) == {each.key for each in recording.standing}
    assert len(recording.samples) == MEASUREMENTS
    (fill,) = (each for key, each in recording.samples.items() if key[:3] == ("vectors", "fill", (("n", 2**14),)))
    (program,) = fill.programs
    assert (program.samples.total_groups, program.samples.saturation) == (2**14 // 16, 1)
    assert program.work is not None
    assert program.work.total / program.work.sampled[-1] == 2**10 / program.samples.groups[-1]
    assert fill.launching > 0


def test_samples_are_added_to_an_archive_without_measuring_again(kernels: Path, path: Path):
    before = calibrated(WholeAndParts(), kernels, path, samples=False)
    assert before.sampled == ()
    backend = WholeAndParts()
    after = calibrated(backend, kernels, path)
    assert (backend.calls, len(after.sampled)) == ([], MEASUREMENTS)
    assert after.standing == before.standing


@pytest.mark.slow
def test_sampling_stops_when_the_device_is_lost_and_resumes_later(kernels: Path, path: Path):
    with pytest.raises(BackendError, match="the device is lost"):
        calibrated(Refusing(last=100), kernels, path)
    some = read_archive(path).sampled
    assert 0 < len(some) < MEASUREMENTS
    second = WholeAndParts()
    recording = calibrated(second, kernels, path)
    assert second.calls == []
    assert recording.sampled[: len(some)] == some
    assert len(recording.sampled) == len(recording.samples) == MEASUREMENTS


def test_finished_archive_is_unchanged(recording: Recording, kernels: Path, path: Path):
    backend = WholeAndParts()
    assert calibrated(backend, kernels, path).sampled == recording.sampled
    assert (backend.calls, backend.asked) == ([], [])


def test_kernels_with_few_groups_run_completely_with_a_warning(kernels: Path, path: Path):
    # The empty kernel has 64 to 1024 groups at n = 2^10 to 2^14, fewer than three times a Psat of 400.
    with pytest.warns(
        LoopyperfWarning, match=r"^8 measurements were run completely.*: empty kernel \(3\), vectors \(5\)$"
    ):
        recording = calibrated(WholeAndParts(saturation=400), kernels, path)
    assert len(recording.samples) == MEASUREMENTS
    assert sum(each.is_whole for each in recording.sampled) == 8
    rows = lpp.load_measurements(path, kernels=kernels)
    assert [bool(row.samples) for row in rows].count(False) == 8
    backend = WholeAndParts(saturation=400)
    with pytest.warns(LoopyperfWarning, match="^8 measurements"):
        assert calibrated(backend, kernels, path).sampled == recording.sampled
    assert backend.asked == []


@pytest.mark.slow
def test_kernels_that_cannot_be_sampled_are_skipped_with_a_warning(kernels: Path, path: Path):
    backend = Refusing(refused=("copy",))
    with pytest.warns(LoopyperfWarning, match=r'^6 measurements have no samples: .*, "copy", n=\d+: no parts of this'):
        recording = calibrated(backend, kernels, path)
    assert {key.label for key in recording.samples} == {"empty", "fill", "double", "product", "sum"}
    again = WholeAndParts()
    assert len(calibrated(again, kernels, path).samples) == MEASUREMENTS
    assert len(again.contents) < len(backend.contents)


def test_backend_without_partial_runs_is_refused_before_measuring(kernels: Path, path: Path):
    backend = SyntheticBackend(seconds)
    with pytest.raises(ParameterError, match="runs parts of kernels, got 'synthetic'; omit samples"):
        calibrated(backend, kernels, path)
    assert backend.calls == []
    assert not path.exists()


@dataclass
class SlowOnce(WholeAndParts):
    """A device that is half as fast, also for the reference kernel, while it first samples one measurement."""

    label: str = "copy"
    sizes: tuple[tuple[str, int], ...] = (("n", 2**14),)
    takes: int = 0
    slow: bool = False

    def time(self, case: BenchmarkCase, runs: int) -> MeasuredTimes:
        timing = super().time(case, runs)
        if case.kernel_class != REFERENCE or not self.slow:
            return timing
        self.slow = False
        return MeasuredTimes(tuple(2 * each for each in timing.wall))

    def bound(self, case: BenchmarkCase, contents: Contents) -> Any:
        is_slow_case = case.configuration.label == self.label and tuple(case.sizes.items()) == self.sizes
        self.takes += is_slow_case and not any(contents.values())
        self.slow = is_slow_case and self.takes == 1
        self.seconds = (lambda *_: 2 * TICK) if self.slow else alike
        return super().bound(case, contents)


@pytest.mark.slow
def test_samples_taken_while_the_device_is_slow_are_repeated(kernels: Path, path: Path):
    undisturbed = calibrated(WholeAndParts(), kernels, path)
    path.unlink()
    backend = SlowOnce()
    recording = calibrated(backend, kernels, path)
    assert backend.takes == 2
    assert [each.programs for each in recording.sampled] == [each.programs for each in undisturbed.sampled]


def test_progress_reports_measurements_samples_and_fit_in_order(recording: Recording, kernels: Path, path: Path):
    shown: list[Any] = []
    lpp.calibrate(
        WholeAndParts(),
        kernels=kernels,
        archive=path,
        protocol=PROTOCOL,
        model="linear",
        samples=True,
        progress=shown.append,
    )
    assert [(each.stage, each.done, each.total) for each in shown] == [
        *(("measuring", done, 11) for done in range(12)),
        *(("sampling", done, MEASUREMENTS) for done in range(MEASUREMENTS + 1)),
        ("fitting", 0, 0),
    ]


# }}}


# {{{ training on samples


def test_residual_model_corrects_the_sampled_model(learned: lpp.ResidualModel):
    backend = WholeAndParts()
    assert (learned.record.base, learned.record.source) == ("sampled", "loopyperf calibrate")
    assert len(learned.record.rows) == MEASUREMENTS
    for unseen, n in ((summed(5), 2**16), (doubled(), 2**18)):
        found = lpp.estimate(unseen, n=n, model="learned", fit=learned, backend=backend)
        alone = lpp.estimate(unseen, n=n, model="sampled", backend=backend)
        whole = backend.whole(unseen, {"n": n})
        assert float(alone) == pytest.approx((whole - HOST) / 1.25 + HOST, rel=1e-9)
        assert float(found) == pytest.approx(whole, rel=0.03)


def test_corrected_estimate_keeps_the_notes_of_the_samples(learned: lpp.ResidualModel):
    backend = WholeAndParts()
    found = lpp.estimate(gathered(), n=2**14, fit=learned, backend=backend)
    alone = lpp.estimate(gathered(), n=2**14, model="sampled", backend=backend)
    assert {"no arguments given for index; assumed 0"} <= set(found.notes) & set(alone.notes)
    assert sum("of the predicted time; all runs took" in note for note in found.notes) == 1


def test_residual_model_of_the_backends_device_is_the_default(
    learned: lpp.ResidualModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LOOPYPERF_DEVICE", "nvidia-v100")
    lpp.save_residual_model(learned, own_residual_models(learned.record.slug))
    found = lpp.estimate(doubled(), n=2**18, model="learned", backend=WholeAndParts())
    assert found == replace(lpp.estimate(doubled(), n=2**18, fit=learned, backend=WholeAndParts()), notes=found.notes)


def test_split_uses_residual_models_of_two_backends(learned: lpp.ResidualModel):
    lpp.save_residual_model(learned, own_residual_models(learned.record.slug))
    devices = [WholeAndParts(), WholeAndParts()]
    found = lpp.split(doubled(), devices=devices, model="learned", n=2**18)
    assert found.devices == (learned.record.slug,) * 2
    assert found.groups[0] == pytest.approx(found.groups[1], rel=1e-3)


def test_training_combines_archives_of_one_device_and_protocol(recording: Recording, kernels: Path):
    files = load_kernel_files(kernels)
    both = [without(recording, "copy"), without(recording, "fill")]
    assert len(train_recordings(both, files).record.rows) == 27 + 27
    elsewhere = replace(recording, runs=tuple(of_another_device(run) for run in recording.runs))
    with pytest.raises(CalibrationError, match="archives of one device; these are of: another-device, arithmetic-dev"):
        train_recordings([recording, elsewhere], files)
    more = replace(recording, runs=tuple(with_more_runs(run) for run in recording.runs))
    with pytest.raises(CalibrationError, match=r"cannot combine these archives: protocol\.runs is 31 instead"):
        train_recordings([recording, more], files)
    with pytest.raises(CalibrationError, match="these are of: none"):
        train_recordings([], files)


def of_another_device(run: Run) -> Run:
    return structs.replace(run, environment=structs.replace(run.environment, device="Another Device"))


def with_more_runs(run: Run) -> Run:
    return structs.replace(run, protocol=structs.replace(run.protocol, runs=31))


@pytest.mark.slow
def test_training_on_rows_equals_training_on_the_archive(recording: Recording, kernels: Path, path: Path):
    rows = lpp.load_measurements(path, kernels=kernels)
    learned = lpp.train(rows, device="arithmetic-device-1")
    assert learned.record.base == "sampled"
    assert learned.record.rows == trained(recording, kernels).record.rows
    assert lpp.fit(rows, device="arithmetic-device-1", model="linear").weights


@pytest.mark.slow
def test_other_base_models_train_on_all_measurements(recording: Recording, kernels: Path):
    found = trained(without(recording), kernels)
    assert found.record.base == "overlap of counts"
    assert trained(recording, kernels, "overlap").record.rows == found.record.rows


def test_only_rows_with_samples_of_a_mixed_archive_are_used(recording: Recording, kernels: Path):
    learned = trained(without(recording, "copy"), kernels)
    assert learned.record.source == "loopyperf calibrate, the 27 of 33 rows that have samples"
    assert len(learned.record.rows) == 27
    assert "copy" not in {row.label for row in learned.record.rows}


def test_archive_without_samples_is_refused_for_base_sampled(recording: Recording, kernels: Path):
    with pytest.raises(CalibrationError, match=r"none of the 33 rows has any; .* `loopyperf calibrate --samples`"):
        trained(without(recording), kernels, "sampled")


def test_samples_of_a_missing_kernel_file_are_refused(recording: Recording, tmp_path: Path):
    kernels = write_kernel_files(tmp_path / "kernels", "empty kernel", "vectors")
    with pytest.raises(CalibrationError, match="kernel files lack 'long vectors', configuration 'fill'"):
        trained(recording, kernels)


def test_truncated_archive_is_used_up_to_the_last_complete_record(finished: bytes, kernels: Path, path: Path):
    path.write_bytes(finished[:-20])
    learned = trained(read_archive(path), kernels)
    assert learned.record.source == "loopyperf calibrate, the 32 of 33 rows that have samples"
    backend = WholeAndParts()
    assert len(calibrated(backend, kernels, path).samples) == MEASUREMENTS
    assert 0 < len(backend.contents) < 10  # only one kernel is sampled again


# }}}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_training_on_samples_works_on_pocl(tmp_path: Path, path: Path):
    pytest.importorskip("pyopencl")
    backend: Any = open_backend("opencl")
    kernels = write_kernel_files(tmp_path / "kernels", "empty kernel", "long vectors")
    for name in ("first", "second"):
        text = (kernels / "long_vectors.py").read_text()
        (kernels / f"{name}.py").write_text(text.replace('"long vectors"', f'"{name} vectors"'))
    recording = calibrated(backend, kernels, path)
    learned = trained(recording, kernels, "sampled")
    assert learned.record.slug == backend.environment.slug
    assert {"first vectors", "long vectors", "second vectors"} <= {row.kernel_class for row in learned.record.rows}
    found = lpp.estimate(doubled(), n=2**18, model="learned", fit=learned, backend="opencl")
    assert (found.model, found.device) == ("learned", backend.environment.slug)
    assert np.isfinite(float(found))
    assert found.breakdown.by_property()["other groups"] > 0
