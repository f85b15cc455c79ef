"""What a kernel does, as a plain value: equal to itself made anew and after a round trip, of plain parts only."""

import dataclasses
import pickle
from collections.abc import Iterator, Mapping
from enum import Enum
from fractions import Fraction
from itertools import islice
from typing import Any

import pytest

import loopyperf as lpp
from loopyperf.measurement.backends.interface import Limits
from loopyperf.measurement.kernel_files import Configuration, bundled_folder, load_kernel_files
from loopyperf.memory.kernel_profile import KernelProfile

LIMITS = Limits(group_size=256, local_memory=2**15, global_memory=2**32, cores=80, warp_size=32)
FOLDERS = ("test_kernels", "test_kernels/rodinia", "test_kernels/optimization_steps")
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
    """Yield what *value* is made of that is no record, no expression, no collection."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from leaves(key)
            yield from leaves(each)
    elif isinstance(value, tuple | frozenset):
        for each in value:
            yield from leaves(each)
    else:
        yield value


@pytest.mark.parametrize("name", sorted(FORMS))
def test_a_profile_is_the_same_after_a_round_trip(name: str) -> None:
    profile = profiled(FORMS[name])
    assert pickle.loads(pickle.dumps(profile)) == profile
    strange = {type(each) for each in leaves(profile) if not isinstance(each, PLAIN)}
    assert strange == set()


def test_two_profiles_of_a_kernel_are_equal_and_of_other_sizes_are_not() -> None:
    form = next(iter(FORMS.values()))
    one, other = profiled(form), profiled(form)
    assert one == other
    assert one != lpp.kernel_profile(form.build(), parameters=form.sizes[-1])
