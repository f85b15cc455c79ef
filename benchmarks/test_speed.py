"""Compare the speed of counting, estimating and ranking with peers; fail if a ratio is below its limit.

    make benchmark

The peers are Loopy's statistics, islpy's evaluation, and compiling and measuring with PoCL; both sides are timed in the
same run. Times are CPU times. Loopy's caches in memory and on disk are off, and both sides start from the same kernel;
each repetition uses a new copy without cached attributes. With its caches on, Loopy would skip type inference for a
known kernel, and take longer for a new kernel, because of hashing and writing. On our side, an unprepared kernel passes
Loopy's checks before scheduling; on the peer's side, it passes none. The limits leave a margin of a quarter or more for
other machines. The measured ratios are printed.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import loopy as lp
import numpy as np
import pytest
from parts.multipole_expansion import multipole_expansion
from ranking_sets.matrix_multiplication import FORMS, Form, matrix_multiplication

import loopyperf as lpp
from loopyperf.calibration.choice import chosen_fit
from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.counts.property_vector import PropertyVector
from loopyperf.kernel import load_kernel
from loopyperf.measurement.backends import open_backend
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.stages.cache import CACHE, CACHE_VARIABLE

pytestmark = [
    pytest.mark.benchmark(timer=time.process_time),
    pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning"),
]
DEVICE = "amd-r9-fury"
SIZES = {"n": 1024}
MILLION = 128 * (1 + np.arange(10**6) % 2**13)
"""sizes up to 2**20, whose cubes fit in int64; larger exact counts use Python integers, which are ten times as slow"""
CALLS = 200
Build = Callable[[], lp.TranslationUnit]
Race = Callable[..., None]
"""see ``conftest.py``: our function, the peer, and the minimum ratio"""


def tiled() -> lp.TranslationUnit:
    """Return a tiled matrix multiplication; isl does nearly all of the work of counting it."""
    return matrix_multiplication(Form(16, 16, 16))


def scheduled(build: Build) -> Build:
    """Return a function that copies a kernel on which Loopy's passes have already run."""
    unit = lp.linearize(lp.preprocess_program(build()))
    return lambda: unit.with_kernel(unit.default_entrypoint.copy())


def fresh(build: Build) -> Callable[[], tuple[lp.TranslationUnit]]:
    """Return a function that builds the argument for one run."""
    return lambda: (build(),)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a temporary cache folder instead of the user's."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    CACHE.clear()


@pytest.fixture(scope="module")
def properties() -> PropertyVector:
    """Return the properties of the tiled matrix multiplication."""
    return count_kernel(load_kernel(tiled())).properties()


# {{{ a new kernel


def loopys_maps(unit: lp.TranslationUnit) -> None:
    """Count with Loopy's three maps, after preprocessing once instead of once per map."""
    unit = lp.preprocess_program(unit)
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


def count(unit: lp.TranslationUnit) -> None:
    """Count all properties."""
    count_kernel(load_kernel(unit)).properties()


def test_a_tiled_matrix_multiplication_is_counted_faster_than_by_loopys_maps(race: Race) -> None:
    race(count, loopys_maps, 2.5, fresh=fresh(scheduled(tiled)))


def test_hundreds_of_scalar_assignments_are_counted_faster_than_by_loopys_maps(race: Race) -> None:
    race(count, loopys_maps, 4, fresh=fresh(scheduled(partial(multipole_expansion, order=7))), turns=3)


def test_a_new_kernel_is_estimated_faster_than_loopys_maps_count_it(race: Race) -> None:
    def estimate(unit: lp.TranslationUnit) -> None:
        CACHE.clear()
        lpp.estimate(unit, device=DEVICE, model="linear", **SIZES)

    estimate(tiled())
    race(estimate, loopys_maps, 1, fresh=fresh(tiled))


@pytest.mark.parametrize(("model", "least"), [("linear", 0.7), ("roofline", 0.55), ("pipeline", 0.31)])
def test_a_new_kernel_is_predicted_within_a_few_times_loopys_passes(race: Race, model: str, least: float) -> None:
    device = DEVICE if model == "linear" else "nvidia-titan-v"

    def estimate(unit: lp.TranslationUnit) -> None:
        CACHE.clear()
        lpp.estimate(unit, device=device, model=model, n=2048)

    def passes(unit: lp.TranslationUnit) -> None:
        lp.linearize(lp.preprocess_program(unit))

    estimate(tiled())
    race(estimate, passes, least, fresh=fresh(tiled), turns=5)


def test_counts_are_read_from_a_file_faster_than_counted(race: Race) -> None:
    def read(unit: lp.TranslationUnit) -> None:
        CACHE.clear()
        with lp.CacheMode(True):  # Loopy's own caches stay unused, because none of its passes run
            lpp.count(unit)

    read(tiled())
    race(read, count, 8, fresh=fresh(tiled))


@pytest.mark.parametrize(
    ("query", "least"),
    [
        pytest.param(partial(lpp.estimate, model="roofline"), 8, id="roofline"),
        pytest.param(partial(lpp.estimate, model="pipeline"), 20, id="pipeline"),
        pytest.param(lpp.compare, 10, id="compare"),
        pytest.param(lpp.explain, 10, id="explain"),
    ],
)
def test_a_cached_result_is_read_from_a_file_faster_than_computed(
    race: Race, query: Callable[..., object], least: float
) -> None:
    compute = partial(query, n=1024, device="nvidia-titan-v")

    def read(unit: lp.TranslationUnit) -> None:
        CACHE.clear()
        with lp.CacheMode(True):
            compute(unit)

    read(tiled())
    race(read, compute, least, fresh=fresh(tiled), turns=3)


# }}}


# {{{ a known kernel


def calls(action: Callable[[], object], number: int = CALLS) -> Callable[[], None]:
    """Return a function that calls *action* *number* times."""

    def repeated() -> None:
        for _ in range(number):
            action()

    return repeated


def by_islpy(properties: PropertyVector, number: int) -> Callable[[], None]:
    """Return a function that evaluates the properties with islpy *number* times."""
    polynomials = [count.polynomial for count in properties.values() if isinstance(count, QuasiPolynomial)]
    return calls(lambda: [polynomial.eval_with_dict(SIZES) for polynomial in polynomials], number)


def test_counts_are_evaluated_faster_than_by_islpy(race: Race, properties: PropertyVector) -> None:
    race(calls(lambda: properties.evaluate(**SIZES)), by_islpy(properties, CALLS), 5)


def test_a_known_kernel_is_estimated_faster_than_islpy_evaluates_its_counts(
    race: Race, properties: PropertyVector
) -> None:
    unit = tiled()
    race(calls(lambda: lpp.estimate(unit, device=DEVICE, **SIZES)), by_islpy(properties, CALLS), 1.1)


def test_a_million_sizes_are_estimated_faster_than_islpy_evaluates_their_counts(
    race: Race, properties: PropertyVector
) -> None:
    unit, fit = tiled(), chosen_fit("linear", DEVICE, None)
    million = calls(lambda: lpp.estimate(unit, fit=fit, model="linear", n=MILLION), 1)
    race(million, by_islpy(properties, CALLS), 300, parts=len(MILLION) // CALLS)


# }}}


# {{{ many variants


def test_variants_are_ranked_faster_than_compiled_and_measured(race: Race) -> None:
    pytest.importorskip("pyopencl")
    backend, forms = open_backend("opencl"), FORMS[:4]
    variants = {form.label: partial(matrix_multiplication, form) for form in forms}
    rank = partial(lpp.rank, variants, n=256, device=DEVICE, model="linear")
    ranking = rank()

    def measure() -> None:
        ranking.measure(backend, top=len(variants))

    race(rank, measure, 2.5, turns=2)


# }}}
