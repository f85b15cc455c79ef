"""The recorder keeps what a call generates code for, with the sizes of that call."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import doubled

from loopyperf.kernel import load_kernel

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
    """Return what is recorded of an example that builds one kernel twice."""
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


def test_a_recorded_kernel_is_answered(recorded: list[Specimen]) -> None:
    found = answers(recorded[0])
    assert found.kind == "counted"
    assert found.outcomes.keys() > QUESTIONS.keys()


def test_realistic_sizes_are_recorded_ones_made_larger() -> None:
    kernel = load_kernel(doubled())
    n = realistic_sizes(kernel, {"a": (48,)})["n"]
    assert n % 48 == 0
    assert MOST_POINTS / 4 < n <= MOST_POINTS
