"""How fast a search has its answers, as ratios to the peers in the same run: less than the ratios here is a failure.

    make benchmark

Peers are Loopy's statistics, islpy's evaluation, and compiling and measuring (PoCL). Seconds are of processors. Loopy's
caches are off, in memory and on disk, and both sides start from the same kernel, each turn from a copy that remembers
nothing. With Loopy's caches on, a kernel that it has seen spares it its type inference, and a new one costs it more,
for hashing and for writing. An unprepared kernel goes through Loopy's checks before scheduling on our side, through
none on the other. The ratios asked for leave a margin of a quarter or more to other machines; those measured are
printed.
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
from loopyperf.counts.counted_kernel import count_properties
from loopyperf.counts.property_vector import PropertyVector
from loopyperf.kernel import load_kernel
from loopyperf.measurement.backends import open_backend
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from loopyperf.stages import cache as recent
from loopyperf.stages.cache import CACHE_VARIABLE

pytestmark = [
    pytest.mark.benchmark(timer=time.process_time),
    pytest.mark.filterwarnings("ignore::loopy.diagnostic.LoopyWarning"),
]
DEVICE = "amd-r9-fury"
SIZES = {"n": 1024}
MILLION = 128 * (1 + np.arange(10**6) % 2**13)
"""sizes up to 2**20, whose cubes are the machine's integers; exact counts beyond are Python's, ten times as slow"""
CALLS = 200
Build = Callable[[], lp.TranslationUnit]
Race = Callable[..., None]
"""of ``conftest.py``: ours, a peer, and how many times as fast ours has to be"""


def tiled() -> lp.TranslationUnit:
    """Return a tiled matrix multiplication, where nearly all the work of counting is isl's."""
    return matrix_multiplication(Form(16, 16, 16))


def scheduled(build: Build) -> Build:
    """Return what makes copies of a kernel after Loopy's passes."""
    unit = lp.linearize(lp.preprocess_program(build()))
    return lambda: unit.with_kernel(unit.default_entrypoint.copy())


def fresh(build: Build) -> Callable[[], tuple[lp.TranslationUnit]]:
    """Return what makes the arguments of a side."""
    return lambda: (build(),)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is found apart from a person's own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    recent.clear_memory()


@pytest.fixture(scope="module")
def properties() -> PropertyVector:
    """The properties of the tiled matrix multiplication."""
    return count_properties(load_kernel(tiled())).properties()


# {{{ a new kernel


def loopys_maps(unit: lp.TranslationUnit) -> None:
    """Count with Loopy's three maps; each would preprocess an unprepared unit anew."""
    unit = lp.preprocess_program(unit)
    lp.get_op_map(unit, subgroup_size=32)
    lp.get_mem_access_map(unit, subgroup_size=32)
    lp.get_synchronization_map(unit, subgroup_size=32)


def count(unit: lp.TranslationUnit) -> None:
    """Count all properties."""
    count_properties(load_kernel(unit)).properties()


def test_a_tiled_matrix_multiplication_is_counted_faster_than_by_loopys_maps(race: Race) -> None:
    race(count, loopys_maps, 2.5, fresh=fresh(scheduled(tiled)))


def test_hundreds_of_scalar_assignments_are_counted_faster_than_by_loopys_maps(race: Race) -> None:
    race(count, loopys_maps, 6, fresh=fresh(scheduled(partial(multipole_expansion, order=7))), turns=3)


def test_a_new_kernel_is_estimated_faster_than_loopys_maps_count_it(race: Race) -> None:
    def estimate(unit: lp.TranslationUnit) -> None:
        recent.clear_memory()
        lpp.estimate(unit, device=DEVICE, model="linear", **SIZES)

    estimate(tiled())
    race(estimate, loopys_maps, 1, fresh=fresh(tiled))


@pytest.mark.parametrize(("model", "least"), [("linear", 0.7), ("roofline", 0.55), ("pipeline", 0.31)])
def test_a_new_kernel_is_answered_within_a_few_times_loopys_passes(race: Race, model: str, least: float) -> None:
    device = DEVICE if model == "linear" else "nvidia-titan-v"

    def estimate(unit: lp.TranslationUnit) -> None:
        recent.clear_memory()
        lpp.estimate(unit, device=device, model=model, n=2048)

    def passes(unit: lp.TranslationUnit) -> None:
        lp.linearize(lp.preprocess_program(unit))

    estimate(tiled())
    race(estimate, passes, least, fresh=fresh(tiled), turns=5)


def test_counts_are_found_in_a_file_faster_than_counted(race: Race) -> None:
    def find(unit: lp.TranslationUnit) -> None:
        recent.clear_memory()
        with lp.CacheMode(True):  # asks Loopy's for nothing: no pass of it is run
            lpp.count(unit)

    find(tiled())
    race(find, count, 8, fresh=fresh(tiled))


@pytest.mark.parametrize(
    ("question", "least"),
    [
        pytest.param(partial(lpp.estimate, model="roofline"), 8, id="roofline"),
        pytest.param(partial(lpp.estimate, model="pipeline"), 20, id="pipeline"),
        pytest.param(lpp.compare, 10, id="compare"),
        pytest.param(lpp.explain, 10, id="explain"),
    ],
)
def test_an_answer_is_found_in_a_file_faster_than_given(
    race: Race, question: Callable[..., object], least: float
) -> None:
    ask = partial(question, n=1024, device="nvidia-titan-v")

    def find(unit: lp.TranslationUnit) -> None:
        recent.clear_memory()
        with lp.CacheMode(True):
            ask(unit)

    find(tiled())
    race(find, ask, least, fresh=fresh(tiled), turns=3)


# }}}


# {{{ a known kernel


def calls(action: Callable[[], object], number: int = CALLS) -> Callable[[], None]:
    """Return what does *action* so many times."""

    def repeated() -> None:
        for _ in range(number):
            action()

    return repeated


def by_islpy(properties: PropertyVector, number: int) -> Callable[[], None]:
    """Return what evaluates the properties by islpy so many times."""
    polynomials = [count.polynomial for count in properties.values() if isinstance(count, QuasiPolynomial)]
    return calls(lambda: [polynomial.eval_with_dict(SIZES) for polynomial in polynomials], number)


def test_counts_are_evaluated_faster_than_by_islpy(race: Race, properties: PropertyVector) -> None:
    race(calls(lambda: properties.evaluate(**SIZES)), by_islpy(properties, CALLS), 5)


def test_a_known_kernel_is_estimated_faster_than_islpy_evaluates_its_counts(
    race: Race, properties: PropertyVector
) -> None:
    unit = tiled()
    race(calls(lambda: lpp.estimate(unit, device=DEVICE, **SIZES)), by_islpy(properties, CALLS), 1.5)


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
