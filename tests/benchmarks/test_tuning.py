"""Judging of search strategies on recorded spaces: readers, exact scores of random order, and strategies of peers."""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from ranking_sets import stencil
from tuning.gather import SpaceOfKernels, gather
from tuning.judge import SEEDS, by_prediction, imported, of_space, over_spaces, runs_by_strategy
from tuning.peers import ABSENT, BUDGET, REPEATED, Replayed, completed, local_search, positions, values_of
from tuning.scores import (
    TOLERANCES,
    best_times,
    community_score,
    improvements,
    random_best,
    random_probabilities,
    random_score,
    random_until,
    score,
    until,
)
from tuning.spaces import (
    GATHERED,
    TITAN_V_SPACES,
    PredictedRow,
    RecordedSpace,
    flattened,
    ranking_set_spaces,
    read_kernel_tuner_cache,
    read_ktt,
    read_predictions,
    read_t4,
    t4_time,
    titan_v_spaces,
    with_predictions,
)

import loopyperf as lpp
from loopyperf.executors import TimeIsUp
from loopyperf.stages.case import Case

FOLDER = Path(__file__).parent
CACHE = FOLDER / "kernel_tuner_cache.json"
SECONDS = [5e-4, 2.5e-4, None, 1.25e-4, 1e-3, 7.5e-4]
"""of the variants in both files; Kernel Tuner 1.5.0 wrote the second in a simulation of the first"""


def space_of(times: Sequence[float | None], **more: object) -> RecordedSpace:
    return RecordedSpace("space", "", [{"place": place} for place in range(len(times))], times, "", **more)


# {{{ readers


@pytest.mark.parametrize(
    "space", [read_kernel_tuner_cache(CACHE), read_t4(FOLDER / "kernel_tuner_t4.json")], ids=["cache", "T4"]
)
def test_files_of_kernel_tuner_have_all_variants_in_seconds(space: RecordedSpace):
    assert space.times == SECONDS
    assert space.parameters[3] == {"block_size_x": 64, "unroll": True}
    assert space.best == 1.25e-4


def test_a_cache_of_a_killed_session_can_be_read(tmp_path: Path):
    path = tmp_path / "killed.json"
    path.write_text(CACHE.read_text().rstrip().removesuffix("}}") + ",")
    assert read_kernel_tuner_cache(path).times == SECONDS


def test_a_result_has_the_unit_of_its_objective_or_the_mean_of_its_runs():
    objective = {"measurements": [{"name": "GFLOP/s", "value": 5}, {"name": "time", "value": 3, "unit": "us"}]}
    variant = {"invalidity": "correct", "times": {"runtimes": [1, 3]}}
    assert t4_time({**variant, **objective, "objectives": ["time"]}) == pytest.approx(3e-6)
    assert t4_time(variant) == pytest.approx(2e-3)
    assert t4_time({**variant, "invalidity": "timeout"}) is None
    assert t4_time({**variant, "times": {}}) is None


def test_a_file_of_ktt_has_its_own_unit_and_failed_variants(tmp_path: Path):
    found = {
        "Metadata": {"Device": "NVIDIA GeForce RTX 2080 Ti", "TimeUnit": "Microseconds"},
        "Results": [
            {
                "KernelName": "kernel",
                "Status": status,
                "TotalDuration": 250.0,
                "Configuration": [{"Name": "BLOCK", "Value": 16, "ValueType": "UnsignedInt"}],
            }
            for status in ("Ok", "ValidationFailed")
        ],
    }
    path = tmp_path / "ktt.json"
    path.write_text(json.dumps(found))
    space = read_ktt(path)
    assert space.times == [pytest.approx(250e-6), None]
    assert space.parameters == [{"BLOCK": 16}] * 2


def test_a_file_that_is_no_cache_is_refused(tmp_path: Path):
    path = tmp_path / "none.json"
    path.write_text("[")
    with pytest.raises(ValueError, match="Expecting"):
        read_kernel_tuner_cache(path)


def test_lists_of_options_become_options():
    assert flattened({"a": 1, "b": [2, [3, 4]]}) == {"a": 1, "b[0]": 2, "b[1][0]": 3, "b[1][1]": 4}


@pytest.mark.skipif(not TITAN_V_SPACES.exists(), reason=f"no {TITAN_V_SPACES.name} in ../shared/data")
def test_spaces_of_the_titan_v_have_the_published_variants_and_optima():
    found = {each.name: each for each in titan_v_spaces()}
    published = {"gemm2": (360, 9.021), "tc-il-mikj": (177, 1.146), "massinverse4": (103, 0.247), "grad3": (99, 1.614)}
    for name, (variants, milliseconds) in published.items():
        assert len(found[name].times) == variants
        assert found[name].best == pytest.approx(milliseconds * 1e-3, abs=5e-7)
        assert len({tuple(sorted(each.items())) for each in found[name].parameters}) == variants


def test_ranking_sets_have_the_parameters_of_their_variants():
    found = {each.name: each for each in ranking_set_spaces()}
    assert found["products-512"].parameters[0].keys() >= {"width", "height", "depth", "tiles"}
    assert all(0 < seconds < 1 for each in found.values() for seconds in each.times if seconds is not None)


def test_stored_predictions_belong_to_variants(subtests: pytest.Subtests):
    paths = sorted(GATHERED.glob("*.jsonl.xz"))
    assert paths
    for path in paths:
        with subtests.test(space=path.name):
            rows = read_predictions(path)
            assert list(rows) == list(range(len(rows)))
            known = [each for each in rows.values() if not each.failures]
            assert len(known) > 0.9 * len(rows)
            for each in known:
                assert each.seconds["pipeline"] >= each.bounds["roofline"] * (1 - 1e-5) > 0


def test_a_space_without_stored_predictions_stays_as_it_is(tmp_path: Path):
    space = space_of([1.0])
    assert with_predictions(space, tmp_path) is space


# }}}


# {{{ predictions


def test_predictions_are_continued_and_made_once_for_equal_kernels(tmp_path: Path):
    built: list[str] = []

    def build(key: str) -> Case:
        built.append(key)
        return Case(stencil.stencil(stencil.Form(8, 8, 8, walks=False)), {"n": 64})

    keys = ["a", "a", "b", "a"]
    space = SpaceOfKernels("stencils", "nvidia-titan-v", keys, [partial(build, each) for each in keys])
    path = tmp_path / "stencils.jsonl"
    gather(replace(space, keys=keys[:2], builds=space.builds[:2]), path)
    gather(space, path)
    assert built == ["a", "b"]
    rows = read_predictions(path)
    assert list(rows) == [0, 1, 2, 3]
    (seconds,) = {each.seconds["pipeline"] for each in rows.values()}
    case = build("")
    assert seconds == pytest.approx(
        float(lpp.estimate(case.kernel, device="nvidia-titan-v", model="pipeline", n=64)), rel=1e-5
    )
    busiest = max(each for name, each in rows[3].busy.items() if name not in ("launches", "latency"))
    assert busiest < rows[3].bounds["roofline"] < seconds
    assert rows[3].features["work-items"] == 512


# }}}


# {{{ scores

TIMES = [3.0, 1.0, 5.0, 1.04, 2.0, None]
EVERY_ORDER = list(permutations(range(len(TIMES))))
SPACE = space_of(TIMES)
RUNS = [improvements(SPACE, each) for each in EVERY_ORDER]


def test_improvements_are_the_best_so_far():
    run = improvements(SPACE, [5, 0, 2, 4, 1])
    assert run == [(2, 0), (4, 4), (5, 1)]
    assert best_times(SPACE, run, 6).tolist() == [np.inf, 3.0, 3.0, 2.0, 1.0, 1.0]
    assert until(SPACE, run, 0.02) == 5
    assert until(SPACE, run[:-1], 0.02) == np.inf
    with pytest.raises(ValueError, match="twice"):
        improvements(SPACE, [0, 0])


def test_random_order_is_the_mean_over_all_orders():
    best = np.minimum([best_times(SPACE, each, 6) for each in RUNS], 5.0)
    assert random_best(SPACE, 6) == pytest.approx(best.mean(axis=0))
    assert sum(random_probabilities(6, 3)) == pytest.approx(1)
    assert random_probabilities(6, 3)[0] == pytest.approx(0.5)


def test_scores_of_random_order_are_those_of_all_orders():
    exact, every = random_score(SPACE), score(SPACE, RUNS)
    assert np.array(exact.fractions) == pytest.approx(np.array(every.fractions))
    assert exact.until == every.until
    assert every.mean == pytest.approx(0, abs=1e-12)
    assert random_until(4, 1, 0.5) == 2


def test_the_community_score_of_an_oracle_is_1():
    oracle = improvements(SPACE, [1, 3, 4, 0, 2, 5])
    assert community_score(SPACE, [oracle]) == pytest.approx(1)
    assert score(SPACE, [oracle]).until == [(1, 1)] * len(TOLERANCES)
    assert community_score(SPACE, [improvements(SPACE, [2, 0, 4, 3, 1, 5])]) < 0


# }}}


# {{{ strategies


def fastest_first(space: RecordedSpace, seed: int) -> list[int]:
    """Return the order of an oracle."""
    return sorted((row for row, each in enumerate(space.times) if each), key=lambda row: space.times[row] or 0)


def test_any_strategy_is_judged_beside_stored_runs_of_peers():
    strategies = imported([f"{__name__}:fastest_first"])
    peers = {"space": {"peer": RUNS, "not run": []}, "another": {"peer": RUNS[:1]}}
    runs = runs_by_strategy(SPACE, strategies, peers)
    assert {name: len(each) for name, each in runs.items()} == {"fastest_first": SEEDS, "peer": len(RUNS)}
    table, scores = of_space(SPACE, runs)
    assert scores["fastest_first"].mean == pytest.approx(1)
    assert table.row_count == over_spaces({"space": scores}).row_count == 3


def test_unpredicted_variants_come_last():
    rows = [
        PredictedRow(0, seconds={"pipeline": 2.0}),
        None,
        PredictedRow(2, seconds={"pipeline": 1.0}),
        PredictedRow(3),
    ]
    assert by_prediction(space_of([1.0] * 4, predictions=rows)) == [2, 0, 1, 3]


CONDITIONAL = RecordedSpace(
    "conditional", "", [{"transform": "a", "x": x} for x in (8, 2, 4)] + [{"transform": "b", "y": True}], [1.0] * 4, ""
)


def test_positions_are_ranks_of_options():
    assert values_of(CONDITIONAL) == {"transform": ["a", "b"], "x": [ABSENT, 2, 4, 8], "y": [ABSENT, True]}
    assert positions(CONDITIONAL).tolist() == [[0, 1, 0], [0, 1 / 3, 0], [0, 2 / 3, 0], [1, 0, 1]]


def test_local_search_follows_a_slope():
    space = RecordedSpace("slope", "", [{"x": x} for x in range(300)], [1.0 + abs(x - 200) for x in range(300)], "")
    random, local = [
        np.mean([until(space, improvements(space, completed(space, order(seed), seed)), 0.05) for seed in range(10)])
        for order in (lambda _: [], lambda seed: local_search(space, seed))
    ]
    assert local < 0.6 * random
    assert sorted(completed(space, local_search(space, 0), 0)) == list(range(300))
    assert completed(space, list(range(300)), 0)[:BUDGET] == list(range(BUDGET))


def test_kernel_tuner_replays_each_variant_once_and_ends_when_it_repeats():
    replayed = Replayed(read_kernel_tuner_cache(CACHE), ["block_size_x", "unroll"], "failed")
    assert replayed["64,False"]["__error__"] == "failed"
    for _ in range(3):
        assert replayed["32,True"]["time"] == pytest.approx(0.25)
    assert list(replayed.order) == [2, 1]
    for _ in range(REPEATED - 2):
        replayed["32,True"]
    with pytest.raises(TimeIsUp):
        replayed["32,True"]


# }}}
