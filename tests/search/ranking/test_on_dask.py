"""Rankings on a real dask cluster are complete and unchanged even if workers fail."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import loopy as lp
import pytest

import loopyperf as lpp
from tests.kernels import doubled

WORKERS = 3
GROUPS = [2**power for power in range(3, 9)]
Builders = dict[str, Callable[[], lp.TranslationUnit]]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None, "silence_logs": 50}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture
def fit(make_fit) -> lpp.Fit:
    """A fit in which a group costs as much as a multiplication, so that larger groups are faster."""
    return make_fit(weights={"f32 mul": 1e-9, "work-groups": 1e-9, "launches": 1e-6})


def variants(*names: str) -> Builders:
    return {f"{name} in groups of {group}": partial(doubled, group=group) for name in names for group in GROUPS}


def slow(build: Callable[[], lp.TranslationUnit], log: Path, number: int) -> lp.TranslationUnit:
    """Sleep, log the process and the number of the variant, and build it."""
    time.sleep(0.05)
    (log / f"{number}-{os.getpid()}").touch()
    return build()


def deadly_once(build: Callable[[], lp.TranslationUnit], log: Path) -> lp.TranslationUnit:
    """Kill the first worker that builds this, after others have built half of the remaining variants."""
    while len(list(log.glob("*-*"))) < len(GROUPS):
        time.sleep(0.02)
    try:
        (log / "killed").touch(exist_ok=False)
    except FileExistsError:
        return build()
    (log / "killed").write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def deadly() -> lp.TranslationUnit:
    """Kill the process that builds this."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def endless() -> lp.TranslationUnit:
    while True:
        time.sleep(0.01)


def same(ranking: lpp.Ranking, alone: lpp.Ranking) -> bool:
    return ranking.order == alone.order and ranking.estimates == alone.estimates


def test_cluster_gives_the_same_ranking(client, fit):
    alone = lpp.rank(variants("a"), n=4096, fit=fit)
    together = lpp.rank(variants("a"), n=4096, fit=fit, executor=client.get_executor())
    assert same(together, alone)
    assert together.notes == ()


def test_killed_worker_loses_no_variants(client, fit, tmp_path):
    builders = list(variants("a", "b").items())
    watched: Builders = {name: partial(slow, build, tmp_path, number) for number, (name, build) in enumerate(builders)}
    name, build = builders[0]
    watched[name] = partial(deadly_once, build, tmp_path)
    before = set(client.run(os.getpid).values())
    ranking = lpp.rank(watched, n=4096, fit=fit, executor=client.get_executor())
    assert same(ranking, lpp.rank(dict(builders), n=4096, fit=fit))
    assert (ranking.failures, ranking.notes) == ({}, ())
    killed = int((tmp_path / "killed").read_text())
    assert killed in before
    client.wait_for_workers(WORKERS, timeout=30)
    assert killed not in client.run(os.getpid).values()


def test_variant_that_kills_every_worker_fails_and_others_are_ranked(client, fit):
    ranking = lpp.rank(variants("a", "b") | {"deadly": deadly}, n=4096, fit=fit, executor=client.get_executor())
    assert same(ranking, lpp.rank(variants("a", "b"), n=4096, fit=fit))
    assert ranking.failures["deadly"].startswith("KilledWorker")
    assert (len(ranking.failures), ranking.notes) == (1, ())
    client.wait_for_workers(WORKERS, timeout=30)


@pytest.mark.slow
def test_endless_builder_times_out_and_frees_its_worker(client, fit):
    builders: Builders = {f"endless {number}": endless for number in range(2 * WORKERS)} | variants("a")
    client.run(lpp.rank, variants("a"), n=4096, fit=fit)  # the first prediction takes longer
    ranking = lpp.rank(builders, n=4096, fit=fit, executor=client.get_executor(), time_limit=4)
    assert ranking.failures == {f"endless {number}": "timed out after 4 s" for number in range(2 * WORKERS)}
    assert same(ranking, lpp.rank(variants("a"), n=4096, fit=fit))
    assert ranking.notes == ()


def test_equal_variants_are_ranked_under_all_their_names(client, fit):
    """Dask merges equal tasks."""
    ranking = lpp.rank(variants("a", "b", "c"), n=4096, fit=fit, executor=client.get_executor())
    assert sorted(ranking.order) == sorted(variants("a", "b", "c"))
    assert lpp.rank(variants("a", "b", "c"), n=4096, fit=fit, executor=client.get_executor()).order == ranking.order


def test_cascade_on_a_cluster_gives_the_same_ranking(client):
    arguments = {"n": 2**20, "device": "nvidia-titan-v", "model": "pipeline", "bounds": ["roofline"], "top": 2}
    alone = lpp.rank(variants("a"), **arguments)
    together = lpp.rank(variants("a"), **arguments, executor=client.get_executor())
    assert same(together, alone)


@pytest.mark.slow
def test_ranking_completes_after_its_cluster_is_closed(fit, tmp_path):
    builders = variants("a", "b")
    watched = {name: partial(slow, build, tmp_path, number) for number, (name, build) in enumerate(builders.items())}
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, silence_logs=50)
    client = distributed.Client(cluster)

    def close_once_some_are_built() -> None:
        while len(list(tmp_path.iterdir())) < 3:
            time.sleep(0.02)
        client.close()
        cluster.close()

    closing = Thread(target=close_once_some_are_built)
    closing.start()
    ranking = lpp.rank(watched, n=4096, fit=fit, executor=client.get_executor())
    closing.join()
    assert same(ranking, lpp.rank(builders, n=4096, fit=fit))
    assert ranking.notes
    assert all("ran in other processes" in note for note in ranking.notes)
