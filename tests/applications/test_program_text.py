"""Programs as plain text: equal after a round trip, and nothing in a text is executed."""

import json

import loopy as lp
import numpy as np
import pytest
from pytools.tag import Tag

import loopyperf as lpp
from loopyperf.applications.program_text import ProgramTextError, program_of, program_text
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files
from loopyperf.stages.cache_keys import content_key
from tests.applications.programs import axpy, row_sums
from tests.kernels import doubled, gathered, outer_product, triangle, two_launches
from tests.parts_backend import LIMITS


class OfUsers(Tag):
    """A tag that Loopy does not know."""


def called() -> lp.TranslationUnit:
    """Return a program that calls another kernel, has a constant table, an atomic update and a user's tag."""
    callee = lp.make_function("{[j]: 0 <= j < 4}", "y[j] = 2*x[j]", name="twice", lang_version=(2018, 2))
    knl = lp.make_kernel(
        "{[i, j]: 0 <= i < 8 and 0 <= j < 4}",
        """
        [j]: out[i, j] = twice([j]: a[i, j])
        total[0] = total[0] + table[i] {atomic}
        """,
        [
            lp.GlobalArg("a, out", np.float32, shape=(8, 4)),
            lp.GlobalArg("total", np.float32, shape=1, for_atomic=True),
            lp.TemporaryVariable(
                "table", np.float32, shape=(8,), initializer=np.arange(8, dtype=np.float32), read_only=True,
                address_space=lp.AddressSpace.GLOBAL,
            ),
        ],
        name="caller",
        lang_version=(2018, 2),
    )  # fmt: skip
    return lp.merge([lp.tag_inames(knl, {"i": OfUsers()}), callee])


BUILDS = [doubled, gathered, outer_product, triangle, two_launches, axpy, row_sums, called]


@pytest.mark.parametrize("build", BUILDS, ids=lambda build: build.__name__)
def test_a_program_is_the_same_after_a_round_trip(build):
    unit = build()
    again = program_of(program_text(unit))
    assert content_key(again) == content_key(unit)
    assert program_text(again) == program_text(unit)


def test_the_estimate_is_the_same_after_a_round_trip():
    again = program_of(program_text(doubled()))
    options = {"n": 2**16, "device": "nvidia-v100", "model": "pipeline"}
    assert lpp.estimate(again, **options).seconds == lpp.estimate(doubled(), **options).seconds


def test_an_executable_target_is_kept_without_its_compiler():
    again = program_of(program_text(axpy(lp.ExecutableCTarget())))
    assert type(again.target) is lp.ExecutableCTarget


def test_a_tag_of_a_class_that_is_not_loaded_is_left_out():
    text = program_text(called()).replace(OfUsers.__module__ + ":OfUsers", "some.other.module:OfUsers")
    assert not any(isinstance(tag, OfUsers) for tag in program_of(text)["caller"].inames["i"].tags)


@pytest.mark.parametrize("name", ["os:system", "subprocess:Popen", "loopy:make_kernel", "numpy:memmap.flush"])
def test_a_text_cannot_name_functions_and_classes_of_others(name):
    with pytest.raises(ProgramTextError):
        program_of(json.dumps(["object", name, ["target", None]]))


@pytest.mark.parametrize("text", ["", "{", "[]", "5", '["object"]', '["list", 1]', '["isl", "Context", "x"]'])
def test_a_damaged_text_is_refused(text):
    with pytest.raises(ProgramTextError):
        program_of(text)


def test_a_program_with_a_function_has_no_text():
    unit = doubled()
    knl = unit.default_entrypoint.copy(preamble_generators=(lambda info: [],))
    with pytest.raises(ProgramTextError):
        program_text(unit.with_kernel(knl))


def test_all_bundled_kernels_are_the_same_after_a_round_trip():
    folders = ("measurement_kernels", "test_kernels", "test_kernels/rodinia", "test_kernels/optimization_steps")
    files = [file for folder in folders for file in load_kernel_files(bundled_folder(folder))]
    assert len(files) > 40
    for file in files:
        unit = next(iter(configurations_of(file, LIMITS))).build()
        assert content_key(program_of(program_text(unit))) == content_key(unit), file.name
