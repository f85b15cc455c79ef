"""Tests of measurement_kernels/microbenchmarks/: correct results, sizes, and no use in fits."""

from dataclasses import replace

import numpy as np
import pytest

from loopyperf.measurement.arguments import allocated_bytes
from loopyperf.measurement.backends.backend import BenchmarkCase
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.campaign import EMPTY_KERNEL
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from loopyperf.measurement.microbenchmarks.measured_description import KERNELS
from loopyperf.measurement.microbenchmarks.pace import with_smaller_arrays
from tests import sample_and_all

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**20, cores=2, warp_size=4, cache_line=128)
FILES = {file.name: file for file in load_kernel_files(bundled_folder(KERNELS))}
FORMS = {
    # One group size for each kind, the largest
    (name, form.label.partition(", group")[0]): form
    for name, file in FILES.items()
    for form in configurations_of(file, LIMITS)
}


@pytest.fixture(scope="module")
def backend() -> OpenCLBackend:
    return OpenCLBackend()


@sample_and_all(4)
def test_results_are_correct(subtests: pytest.Subtests, backend: OpenCLBackend, step: int):
    for name, kind in list(FORMS)[::step]:
        with subtests.test(name=name, kind=kind):
            form = FORMS[name, kind]
            # The last schedule has the most groups, conflicts or bytes. Results are compared at its first size.
            assert backend.time(BenchmarkCase(name, form, form.ladders[-1][0]), 1)


def test_fits_do_not_use_the_microbenchmarks():
    calibrated = load_kernel_files(bundled_folder("measurement_kernels"))
    shared = {file.name for file in calibrated} & set(FILES)
    assert shared == {EMPTY_KERNEL}
    assert not {file.path for file in calibrated} & {file.path for file in FILES.values()}


@pytest.mark.parametrize("name", sorted(FILES.keys() - {EMPTY_KERNEL}))
def test_sizes_of_a_schedule_differ_only_in_rounds(name):
    for form in configurations_of(FILES[name], LIMITS):
        for schedule in form.ladders:
            rounds = [sizes["rounds"] for sizes in schedule]
            assert [2 * number for number in rounds[:-1]] == rounds[1:]
            assert form.steps == 2
            assert schedule[0]["steps"] > 0
            assert {(*sizes.items(),)[:-1] for sizes in schedule} == {(*schedule[0].items(),)[:-1]}


def test_chains_have_1_to_32_warps_per_core():
    chains = configurations_of(FILES["dependent chain"], LIMITS)
    kind = [form for form in chains if form.label.startswith("fma f32")]
    warps = [s["groups"] // 2 * s["lanes"] // 4 for form in kind for s, *_ in form.ladders]
    assert warps == [1, 2, 4, 8, 16, 24, 32]


def test_pointer_chase_visits_every_line_once():
    (chase,) = configurations_of(FILES["pointer chase"], LIMITS)
    for sizes, *_ in chase.ladders[:6]:
        arguments = chase.arguments(np.random.default_rng(0), sizes)
        links, at, visited = arguments["next"], int(arguments["place"][0]), []
        for _ in range(sizes["n"] * 4 // 128):
            visited.append(at)
            at = int(links[at])
        assert at == arguments["place"][0]
        assert sorted(visited) == list(range(0, sizes["n"], 32))


@pytest.mark.parametrize("name", ["pointer chase", "streaming"])
def test_arrays_grow_up_to_the_memory_size(name):
    for form in configurations_of(FILES[name], LIMITS):
        largest = [allocated_bytes(form.build().default_entrypoint, schedule[0]) for schedule in form.ladders]
        assert largest == sorted(largest)
        assert LIMITS.global_memory / 8 < largest[-1] <= LIMITS.global_memory + 2**16


def test_quick_run_has_all_kinds_and_smaller_arrays():
    limits = replace(LIMITS, global_memory=2**28)
    files = tuple(FILES.values())
    for file, shorter in zip(files, with_smaller_arrays(files), strict=True):
        everything, some = configurations_of(file, limits), configurations_of(shorter, limits)
        assert [form.label for form in everything] == [form.label for form in some]
        assert all(len(short.ladders) <= len(full.ladders) for full, short in zip(everything, some, strict=True))
    full, short = (
        configurations_of(file, limits)[0]
        for file in (FILES["pointer chase"], *with_smaller_arrays([FILES["pointer chase"]]))
    )
    assert full.ladders[-1][0]["n"] * 4 == 2**28
    assert short.ladders[-1][0]["n"] * 4 == 2**24
