"""Kernel profiles and the stages computed from them are plain values that compare equal and can be pickled."""

import dataclasses
import pickle
import pickletools
from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any

import loopy as lp
import msgspec
import pytest

import loopyperf as lpp
from loopyperf.compiler.machine_program import compile_profile
from loopyperf.measurement.backends.backend import DeviceLimits
from loopyperf.measurement.kernel_files import Configuration, bundled_folder, load_kernel_files
from loopyperf.memory import source_launch
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.demand import LaunchDemand, cached_for_launch
from loopyperf.models.program_timing import timing
from loopyperf.stages import case, profile
from loopyperf.stages.cache import CACHE
from tests.kernels import doubled
from tests.profiles import timed_on

LIMITS = DeviceLimits(group_size=256, local_memory=2**15, global_memory=2**32, cores=80, warp_size=32)
FOLDERS = ("test_kernels", "test_kernels/rodinia", "test_kernels/optimization_steps")
V100 = lpp.load_device("v100")
PLAIN = (str, int, float, bool, Fraction, Enum, type(None))
FORMS = {
    f"{file.name} {form.label}": form
    for folder in FOLDERS
    for file in load_kernel_files(bundled_folder(folder))
    for form in islice(file.configurations(LIMITS), 1)
}


def profiled(form: Configuration) -> KernelProfile:
    return lpp.kernel_profile(form.build(), parameters=form.sizes[0])


def leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of *value*: all that is not a record, an expression or a collection."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, msgspec.Struct):
        yield from leaves(msgspec.structs.asdict(value))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(key)
            yield from leaves(each)
    elif isinstance(value, tuple | frozenset):
        for each in value:
            yield from leaves(each)
    else:
        yield value


def modules_in_pickle(value: Any) -> set[str]:
    """Return the top-level modules whose classes and functions a pickle of *value* references."""
    operations = pickletools.genops(pickle.dumps(value, protocol=0))
    return {str(named).partition(".")[0].partition(" ")[0] for each, named, _ in operations if each.name == "GLOBAL"}


def test_stages_are_plain_values_and_survive_pickling(subtests: pytest.Subtests) -> None:
    for name in sorted(FORMS):
        with subtests.test(name=name):
            profile = profiled(FORMS[name])
            machine = compile_profile(profile, V100)
            timed = timing(machine, V100)
            for value in (profile, machine, timed):
                assert pickle.loads(pickle.dumps(value)) == value
                assert str(value).startswith(profile.kernel)
                strange = {type(each) for each in leaves(value) if not isinstance(each, PLAIN)}
                assert strange == set()
            assert modules_in_pickle(timed) <= {"__builtin__", "copy_reg", "fractions", "loopyperf", "pymbolic"}


def test_profile_at_another_size_equals_that_of_a_new_program(subtests: pytest.Subtests) -> None:
    for name in sorted(name for name, form in FORMS.items() if len(form.sizes) > 1):
        with subtests.test(name=name):
            form, program = FORMS[name], FORMS[name].build()
            for sizes in (*form.sizes[:2], form.sizes[0]):
                assert lpp.kernel_profile(program, parameters=sizes) == lpp.kernel_profile(
                    form.build(), parameters=sizes
                )


def test_size_independent_structures_are_cached_for_recent_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    build = source_launch.LaunchProgram
    monkeypatch.setattr(source_launch, "LaunchProgram", lambda *given: made.append("x") or build(*given))
    form = next(form for form in FORMS.values() if len(form.sizes) > 1)
    programs = [lp.assume(form.build(), f"{next(iter(form.sizes[0]))} <= {2**most}") for most in (28, 29, 30)]
    for sizes in form.sizes[:2]:
        lpp.kernel_profile(programs[0], parameters=sizes)
    launches = len(made)
    assert launches == len(lpp.kernel_profile(programs[0], parameters=form.sizes[0]).launches)
    monkeypatch.setattr(profile, "STRUCTURES", dataclasses.replace(profile.STRUCTURES, kept=2))
    for program in (*programs, programs[1], programs[0]):
        lpp.kernel_profile(program, parameters=form.sizes[1])
    assert len(made) == 4 * launches, "the first program's is made anew"


def test_rebuilt_kernel_is_not_prepared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[Any] = []
    load_kernel = case.load_kernel
    monkeypatch.setattr(
        case, "load_kernel", lambda program: prepared.append(program.entrypoints) or load_kernel(program)
    )

    def seconds(n: int, size: str = "n") -> float:
        return lpp.estimate(doubled(size=size), parameters={size: n}, device="nvidia-v100", model="roofline").seconds

    found = [seconds(n) for n in (2**10, 2**20, 2**21)]
    assert len(prepared) == 1
    CACHE.clear()
    assert [seconds(n) for n in (2**21, 2**20, 2**10)] == found[::-1]
    assert len(prepared) == 2
    seconds(2**12, size="m")
    assert len(prepared) == 3
    # Only the most recent kernels are kept.
    monkeypatch.setattr(case, "PREPARED", dataclasses.replace(case.PREPARED, kept=1))
    CACHE.clear()
    for number, size in enumerate(("n", "m", "n", "n")):
        seconds(2**number, size)
    assert len(prepared) == 6


def test_cached_properties_are_not_pickled() -> None:
    (launch,) = timed_on(profiled(next(iter(FORMS.values()))), V100).launches
    before = len(pickle.dumps(launch.programs))
    assert launch.warps
    assert cached_for_launch(launch, LaunchDemand).latency > 0
    assert len(pickle.dumps(launch.programs)) == before
    again = pickle.loads(pickle.dumps(launch))
    assert set(vars(again)) == {field.name for field in dataclasses.fields(launch)}
    assert cached_for_launch(again, LaunchDemand).latency == cached_for_launch(launch, LaunchDemand).latency


def test_timed_programs_compare_by_value() -> None:
    profile = profiled(next(iter(FORMS.values())))
    one, same, other = (compile_profile(profile, lpp.load_device(name)) for name in ("v100", "v100", "nvidia-a100"))
    assert one == same
    assert timing(one, V100) == timing(same, V100)
    assert timing(one, V100) != timing(other, lpp.load_device("nvidia-a100"))


def test_profiles_compare_by_kernel_and_sizes() -> None:
    form = next(iter(FORMS.values()))
    one, other = profiled(form), profiled(form)
    assert one == other
    assert one != lpp.kernel_profile(form.build(), parameters=form.sizes[-1])
