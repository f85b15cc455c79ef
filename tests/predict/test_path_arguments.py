"""Test that every parameter for a path also accepts a string."""

import os
from collections.abc import Callable
from inspect import isfunction
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import loopyperf as lpp
from loopyperf.calibration.choice import FitChoice
from loopyperf.errors import KernelFileError
from loopyperf.measurement.archive import Archive, ReplayBackend
from loopyperf.measurement.kernel_files import load_kernel_files
from loopyperf.measurement.microbenchmarks.measured_description import described_by, microbenchmark
from loopyperf.measurement.protocol import Protocol
from loopyperf.predict.validate import validated_by
from tests.kernels import doubled
from tests.measurement.synthetic import SyntheticBackend
from tests.small_campaign import seconds, write_kernel_files

RECORDED = Path(__file__).parents[1] / "measurement" / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
PROTOCOL = Protocol(runs=4, dropped=1, probe_runs=2, overhead_factor=1)
PUBLIC = [getattr(lpp, name) for name in lpp.__all__]
BELOW = [Archive.__init__, ReplayBackend.__init__, load_kernel_files, microbenchmark, described_by]
"""documented functions that `loopyperf` does not export"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of the test, which contains kernel files."""
    write_kernel_files(tmp_path / "kernels")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_calibration_accepts_strings_as_paths(here: Path) -> None:
    device = SyntheticBackend(seconds)
    fit = lpp.calibrate(device, kernels="kernels", protocol=PROTOCOL, archive="raw/all.jsonl", save="mine/fit.json")
    assert lpp.load_fit("mine/fit.json") == fit
    assert len(lpp.load_observations("raw/all.jsonl", kernels="kernels")) == len(fit.residuals)
    rows = lpp.load_measurements("raw/all.jsonl", kernels="kernels")
    assert lpp.fit(rows, model=fit.model, save="again.json").model == lpp.load_fit("again.json").model
    tested = lpp.validate(device, fit="mine/fit.json", kernels="kernels", protocol=PROTOCOL, archive="raw/tests.jsonl")
    assert validated_by("raw/tests.jsonl", fit="mine/fit.json", kernels="kernels").predictions == tested.predictions


def test_microbenchmarks_accept_strings_as_paths(here: Path) -> None:
    replayed = ReplayBackend(str(RECORDED))
    assert microbenchmark(replayed, archive="micro.jsonl").device == described_by("micro.jsonl").device


def test_any_path_like_object_is_accepted(here: Path) -> None:
    class Somewhere(os.PathLike[str]):
        def __fspath__(self) -> str:
            return "kernels"

    assert [file.path for file in load_kernel_files(Somewhere())] == [
        file.path for file in load_kernel_files("kernels")
    ]


def test_empty_string_is_a_path_and_not_the_default() -> None:
    with pytest.raises(KernelFileError, match=r"has no kernel files"):
        lpp.load_observations(RECORDED, kernels="")


def test_trace_can_be_saved_to_a_string_path(here: Path) -> None:
    lpp.trace(doubled(), n=256, device="nvidia-v100").save("trace.json")
    assert (here / "trace.json").exists()


def methods(thing: object) -> list[Callable[..., object]]:
    """Return the function *thing*, or the public methods of the class *thing*."""
    if isinstance(thing, type):
        own = (each for name, each in vars(thing).items() if not name.startswith("_") and isfunction(each))
        return list(own)
    return [thing] if isfunction(thing) else []


def test_every_path_parameter_accepts_strings(subtests: pytest.Subtests) -> None:
    for asked in [each for thing in [*PUBLIC, *BELOW] for each in methods(thing)]:
        with subtests.test(asked=str(asked)):
            # Some types are imported for type checkers only.
            others = dict.fromkeys(("BaseSampler", "BackendChoice", "ResidualModel", "Counting"), object)
            hints = get_type_hints(asked, localns={"FitChoice": FitChoice, **others})
            hints.pop("return", None)
            taken = {name: {hint, *get_args(hint)} for name, hint in hints.items()}
            of_paths = {name for name, types in taken.items() if types & {Path, os.PathLike[str]}}
            assert {name for name in of_paths if not {str, os.PathLike[str]} <= taken[name]} == set()
