"""Tests of the recorder: it stores the kernels for which a call generates code, with the sizes of that call."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from loopyperf.kernel import load_kernel
from tests.kernels import doubled

from .answers import QUESTIONS, answers
from .frameworks import distinct
from .realistic import MOST_POINTS, realistic_sizes
from .specimen import Specimen

EXAMPLE = """
import loopy as lp
import numpy as np

for n in (3, 5):
    unit = lp.make_kernel("{[i]: 0<=i<n}", "b[i] = 2*a[i]", target=lp.ExecutableCTarget(), lang_version=(2018, 2))
    unit(a=np.ones(n, np.float32))
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Specimen]:
    """Return the recorded kernels of an example that builds one kernel twice."""
    folder = tmp_path_factory.mktemp("recorded")
    example = folder.parent / "example.py"
    example.write_text(EXAMPLE)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    environment = {**inherited, "RECORDED_KERNELS": str(folder), "LOOPY_NO_CACHE": "1"}
    command = [sys.executable, str(Path(__file__).with_name("recorder.py")), str(example)]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return distinct(folder, set())


def test_a_kernel_is_recorded_once_with_the_sizes_of_its_call(recorded: list[Specimen]) -> None:
    (specimen,) = recorded
    assert specimen.name == "example"
    assert specimen.arguments == {"a": (3,)}


def test_recorded_kernel_is_counted_and_estimated(recorded: list[Specimen]) -> None:
    found = answers(recorded[0])
    assert found.kind == "counted"
    assert found.outcomes.keys() > QUESTIONS.keys()


@pytest.mark.parametrize(("most", "kept"), [("3", [0, 4, 8]), ("10", list(range(10))), ("1", [0])])
def test_recorded_parameters_of_a_test_are_evenly_spaced(tmp_path: Path, most: str, kept: list[int]) -> None:
    (tmp_path / "test_one.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(10))\ndef test_n(n): print(f'<{n}>')\ndef test_x(): pass"
    )
    ours = {
        "RECORDED_KERNELS": str(tmp_path),
        "RECORDED_PARAMETERS": most,
        "PYTHONPATH": str(Path(__file__).parent),
    }
    command = [sys.executable, "-m", "pytest", "-p", "recorder", "-p", "no:cacheprovider", "-c", os.devnull, "-sq"]
    finished = subprocess.run(
        [*command, "test_one.py"], cwd=tmp_path, env={**os.environ, **ours}, check=True, capture_output=True
    )
    assert re.findall(r"<(\d)>", finished.stdout.decode()) == [str(n) for n in kept]
    assert f"{len(kept) + 1} passed" in finished.stdout.decode()


def test_realistic_sizes_are_multiples_of_the_recorded_ones() -> None:
    kernel = load_kernel(doubled())
    n = realistic_sizes(kernel, {"a": (48,)})["n"]
    assert n % 48 == 0
    assert MOST_POINTS / 4 < n <= MOST_POINTS
