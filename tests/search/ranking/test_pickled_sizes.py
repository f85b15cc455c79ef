"""Data exchanged with workers is small, and one process can rank thousands of variants."""

import os
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from ranking_sets.matrix_multiplication import FORMS, matrix_multiplication

import loopyperf as lpp
from loopyperf.calibration.fit import given_provenance, observe
from loopyperf.calibration.fitting import fit_observations, possible
from loopyperf.search.task import Task, predicted
from loopyperf.search.variants import Variant
from tests.kernels import doubled, summed

ROOT = Path(__file__).parents[3]
TITAN = "nvidia-titan-v"


def nbytes(value: object) -> int:
    return len(pickle.dumps(value))


@pytest.fixture(scope="module")
def predictors() -> dict[str, lpp.Predictor]:
    """Return predictors of the bundled fit, of device parameters, and of a fit of pipelines."""
    device = lpp.load_device(TITAN)
    kernels = [(doubled(group=group), "a copy") for group in (32, 64, 128)]
    kernels += [(summed(terms), f"{terms} terms") for terms in (1, 4, 16)]
    observations = [
        observe(kernel, {"n": n}, 1.0, kernel_class=name, label="", device=device)
        for kernel, name in kernels
        for n in (2**16, 2**20)
    ]
    # The times are nearly the busy times of the pipelines.
    timed = [
        replace(each, seconds=sum(each.pipelines.values()) * (1 + number % 5 / 50))
        for number, each in enumerate(observations)
    ]
    candidates = [each for each in possible(timed, "overlap") if each.basis == "pipelines"]
    fit = fit_observations(given_provenance(device, device, "executed", "made up"), timed, candidates)[0]
    assert fit.basis == "pipelines"
    return {
        "the bundled fit": lpp.predictor(device="amd-r9-fury"),
        "a device": lpp.predictor(model="roofline", device=TITAN),
        "a fit of pipelines": lpp.predictor(fit=fit),
    }


def test_pickled_variants_are_small():
    build = partial(matrix_multiplication, FORMS[-1])  # blocks of 8 × 4
    assert nbytes(build) < 200
    assert nbytes(build()) < 20_000


@pytest.mark.parametrize("who", ["the bundled fit", "a device", "a fit of pipelines"])
def test_pickled_tasks_and_results_are_small(who, predictors):
    predictor = predictors[who]
    task = Task(predictor, Variant("a variant", partial(matrix_multiplication, FORMS[0])), {"n": 1024})
    assert nbytes(task) < 12_000
    assert nbytes(task) < nbytes(predictor) + 400
    answer = predicted(pickle.loads(pickle.dumps(task)))
    assert answer == predicted(task)
    assert nbytes(answer) < 1_500


@pytest.mark.slow
def test_two_thousand_variants_are_ranked_in_less_than_a_gibibyte(tmp_path):
    """Loopy and islpy keep about 0.4 MiB per variant; the limit leaves some 200 MiB for everything else."""
    command = [sys.executable, str(ROOT / "benchmarks" / "ranking_scale.py"), "memory", "linear", "2000"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(tmp_path)}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    ranked, peak = re.match(r"(\d+) of 2000 variants by linear: \d+ MiB before, (\d+) MiB at most", output).groups()
    assert int(ranked) == 2000
    assert int(peak) < 1024
