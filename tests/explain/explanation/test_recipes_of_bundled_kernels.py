"""Every recipe for the measurement and test kernels: Loopy generates code, and PoCL computes the same results."""

import warnings
from collections import Counter
from functools import cache

import numpy as np
import pytest

from loopyperf.errors import LoopyperfError
from loopyperf.explain import execution_candidates
from loopyperf.measurement.campaign import plan
from loopyperf.measurement.environment import Configuration, DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from tests.explain.explanation.every_recipe import every_recipe
from tests.explain.explanation.on_pocl import results

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**30)
NAMES = sorted(
    path.stem for folder in ("measurement_kernels", "test_kernels") for path in bundled_folder(folder).glob("[!_]*.py")
)
QUICK = ("finite_difference", "matrix_multiplication", "transpose")
"""files of the quick test"""


@cache
def first_configurations() -> dict[str, Configuration]:
    """Return the first configuration of each file, by the name of the file."""
    folders = map(bundled_folder, ("measurement_kernels", "test_kernels"))
    files = [file for folder in folders for file in load_kernel_files(folder)]
    return {file.path.stem: next(iter(plan([file], LIMITS)))[1] for file in files}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow) for each in NAMES]
)
def test_recipes_keep_the_results(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(execution_candidates, "SHORT_LAUNCH", 0.0)
    configuration = first_configurations()[name]
    unit, sizes = configuration.build(), configuration.sizes[0]
    arguments = configuration.arguments(np.random.default_rng(0), sizes)
    found = Counter[str]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            recipes = list(every_recipe(unit, sizes))
        except LoopyperfError as error:
            pytest.skip(str(error))
        expected = results(unit, arguments) if recipes else {}
        for kind, recipe, changed in recipes:
            found.update([f"{kind}: {'applied' if changed else 'refused'}"])
            if changed is not None:
                for array, value in results(changed, arguments).items():
                    np.testing.assert_allclose(
                        value, expected[array], rtol=1e-3, atol=1e-3, err_msg=f"{array} after\n{recipe.source}"
                    )
    print(name, dict(found))
