"""Our order of measurements as a strategy of Kernel Tuner, in its simulation mode."""

import json
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import loopyperf as lpp
from loopyperf.errors import KernelError

PARAMETERS = {"tile": [2, 4, 8, 16, 32], "unroll": [1, 2, 4]}


def milliseconds(tile: int, unroll: int) -> float:
    return 1 + abs(tile - 8) / 4 + abs(unroll - 2) / 3


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Return a cache file of Kernel Tuner with all times; groups of 32 fail."""
    stages = dict.fromkeys(
        ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 0
    )
    entries = {
        f"{tile},{unroll}": {
            "tile": tile,
            "unroll": unroll,
            "time": milliseconds(tile, unroll) if tile < 32 else "RuntimeFailedConfig",
            **stages,
            "timestamp": "2026-11-29 00:00:00.000000+00:00",
        }
        for tile, unroll in product(*PARAMETERS.values())
    }
    names = {"device_name": "recorded", "kernel_name": "kernel", "problem_size": [1], "objective": "time"}
    document = {**names, "tune_params_keys": list(PARAMETERS), "tune_params": PARAMETERS, "cache": entries}
    path = tmp_path / "cache.json"
    path.write_text(json.dumps({"schema_version": "1.1.0", **document}))
    return path


def test_kernel_tuner_measures_in_the_order_of_the_tuner(cache: Path):
    kernel_tuner = pytest.importorskip("kernel_tuner")
    wrapper = pytest.importorskip("kernel_tuner.strategies.wrapper")

    def predicted(choice: Mapping[str, Any]) -> float:
        if choice["unroll"] == 4:
            raise KernelError("this kernel cannot be predicted")
        return 1e-3 * milliseconds(**choice) * (0.5 if choice["tile"] == 32 else 1.5)

    strategy = wrapper.OptAlgWrapper(lpp.KernelTunerStrategy(predicted, regret=0.0, probability=0.9999))
    options = {"lang": "C", "cache": str(cache), "simulation_mode": True, "quiet": True}
    results, _ = kernel_tuner.tune_kernel(
        "kernel",
        "void kernel() {}",
        (1,),
        [],
        PARAMETERS,
        **options,
        strategy=strategy,
        strategy_options={"max_fevals": 9},
    )
    configurations = [(each["tile"], each["unroll"]) for each in results]
    assert (8, 2) in configurations[:3]
    assert len(configurations) < len(PARAMETERS["tile"]) * len(PARAMETERS["unroll"])
    # what cannot be predicted comes last
    assert all(unroll != 4 for _, unroll in configurations[:4])
