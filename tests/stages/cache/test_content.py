"""The content of a program as text: equal for equal programs in every process, different for all others."""

import math
import os
import subprocess
import sys
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from pathlib import Path

import loopy as lp
import msgspec
import numpy as np
import pytest
from loopy.kernel.data import LocalInameTag
from loopy.kernel.function_interface import ScalarCallable
from loopy.tools import LoopyKeyBuilder
from loopy.types import NumpyType
from pytools.tag import Tag

import loopyperf as lpp
from loopyperf.stages.cache_keys import ContentError, content, content_key
from tests.kernels import doubled, outer_product

TESTS = Path(__file__).parents[2]


def expression(source: str, **types: object) -> lp.TranslationUnit:
    return lp.make_kernel(
        "{[i]: 0 <= i < 16}",
        f"b[i] = {source}",
        [lp.GlobalArg("a", types.get("a", np.float32), shape=16), lp.GlobalArg("b", np.float32, shape=16)],
        lang_version=(2018, 2),
    )


def with_literal(value: object) -> lp.TranslationUnit:
    """Return b[i] = *value* a[i] with a literal of exactly this type."""
    unit = expression("a[i]*2")
    knl = unit.default_entrypoint
    (instruction,) = knl.instructions
    left, _ = instruction.expression.children
    product = replace(instruction.expression, children=(left, value))
    return unit.with_kernel(knl.copy(instructions=[instruction.copy(expression=product)]))


@pytest.mark.parametrize("build", [doubled, outer_product, lambda: with_literal(np.float64(2))])
def test_equal_programs_have_equal_content(build):
    assert content(build()) == content(build())


def test_preprocessing_does_not_change_the_content():
    """Loopy's passes store digests and hashes on the objects that they process."""
    unit = outer_product()
    before = content(unit)
    lp.linearize(lp.preprocess_program(unit))
    hash(unit.default_entrypoint)
    assert content(unit) == before


def transposed() -> lp.TranslationUnit:
    """b[j,i] = a[i,j] by blocks of 16 x 16; redundant constraints: if a block ends within n, so do its work-items."""
    rows = "0 <= g and 0 <= l < 16 and 16*g + l < n and 16*g + 16 <= n"
    columns = "0 <= h and 0 <= m < 16 and 16*h + m < n and 16*h + 16 <= n"
    unit = lp.make_kernel(
        f"{{[g, l, h, m]: {rows} and {columns}}}",
        "b[16*h + m, 16*g + l] = a[16*g + l, 16*h + m]",
        [lp.GlobalArg("a, b", np.float32, shape="n, n"), lp.ValueArg("n", np.int32)],
        lang_version=(2018, 2),
    )
    return lp.tag_inames(unit, {"g": "g.0", "h": "g.1", "l": "l.1", "m": "l.0"})


def constraints_of(unit: lp.TranslationUnit) -> list[list[str]]:
    return [[str(each) for each in domain.get_constraints()] for domain in unit.default_entrypoint.domains]


def test_content_does_not_depend_on_redundant_domain_constraints():
    unit = transposed()
    before, constraints = content(unit), constraints_of(unit)
    for domain in unit.default_entrypoint.domains:
        domain.remove_redundancies()  # as code generation does, in place
    assert len(constraints_of(unit)[0]) < len(constraints[0])
    assert content(unit) == before == content(transposed())


def test_estimate_does_not_change_the_domains_of_its_program():
    unit = transposed()
    constraints = constraints_of(unit)
    lpp.estimate(unit, device="nvidia-titan-v", model="pipeline", n=256)
    assert constraints_of(unit) == constraints


OTHERS = {
    "size": lambda: doubled(size="m"),
    "group": lambda: doubled(group=32),
    "iname": lambda: lp.rename_iname(doubled(), "i_inner", "lane"),
    "assumption": lambda: lp.assume(doubled(), "n >= 2"),
    "tag": lambda: doubled().with_kernel(lp.untag_inames(doubled().default_entrypoint, "i_inner", LocalInameTag)),
    "index type": lambda: doubled().with_kernel(doubled().default_entrypoint.copy(index_dtype=NumpyType(np.int64))),
    "name": lambda: lp.make_program(doubled().default_entrypoint.copy(name="tripled")),
    "target": lambda: doubled().copy(target=lp.CudaTarget()),
    "bools": lambda: doubled().copy(target=lp.PyOpenCLTarget(use_int8_for_bool=False)),
    "prepared": lambda: lp.preprocess_program(doubled()),
    "scheduled": lambda: lp.linearize(lp.preprocess_program(doubled())),
    "kernel": lambda: doubled().default_entrypoint,
}


def test_different_programs_have_different_content():
    contents = [content(doubled()), *(content(other()) for other in OTHERS.values())]
    assert len(set(contents)) == 1 + len(OTHERS)


# {{{ differences that Loopy's own key ignores


def test_literals_of_different_types_have_different_content():
    """np.int64(5) makes a product wider than 5 does."""
    assert LoopyKeyBuilder()(5) == LoopyKeyBuilder()(np.int64(5))
    literals = [5, 5.0, np.int32(5), np.int64(5), np.uint64(5), np.float32(5), np.float64(5), True, Fraction(5), "5"]
    assert len({content(literal) for literal in literals}) == len(literals)
    assert content(with_literal(5)) != content(with_literal(np.int64(5)))
    assert content(expression("a[i]")) != content(expression("a[i]", a=np.float64))


def test_vector_types_of_equal_size_have_different_content():
    vectors = pytest.importorskip("pyopencl.cltypes")
    types = [vectors.float4, vectors.double2, vectors.int4]
    assert len({LoopyKeyBuilder()(np.dtype(dtype)) for dtype in types}) == 1
    assert len({content(np.dtype(dtype)) for dtype in types}) == len(types)
    assert content(expression("2", a=vectors.float4)) != content(expression("2", a=vectors.double2))


def test_strings_are_distinguished_from_surrounding_syntax():
    assert content(("a", "b")) != content(("a','b",))
    assert content({"a": "b"}) != content({"a:b": ""})
    assert content(None) != content("None")


# }}}


# {{{ devices and fits


@dataclass(frozen=True, kw_only=True)
class OwnDevice(lpp.Device):
    """A user-defined class, which may compute its numbers."""


def test_each_number_and_text_of_a_device_changes_its_content():
    device = lpp.load_device("nvidia-v100")
    words = ("slug", "name", "note", "target", "architecture")
    others = [replace(device, **{word: "other"}) for word in words]
    others += [replace(device, sources=device.sources[1:]), replace(device, memory=device.memory[::-1])]
    for name, quantity in device.known():
        value = getattr(device, name)
        changes = (changed for changed in (value + 1, float(value), None) if repr(changed) != repr(value))
        others += [replace(device, **{name: changed}) for changed in changes]
        others.append(device.stating(**{name: msgspec.structs.replace(quantity, source="other")}))
    assert len({content(each) for each in (device, *others)}) == 1 + len(others)
    assert content(replace(device)) == content(device)


def test_device_of_a_user_defined_class_has_no_key():
    device = lpp.load_device("nvidia-v100")
    own = OwnDevice(**{field.name: getattr(device, field.name) for field in fields(device)})
    assert content_key(own) is None


def test_last_bit_and_type_of_a_weight_change_the_content_of_a_fit(make_fit):
    values = (0.1, math.nextafter(0.1, 1), 1, 1.0, np.float64(0.1), np.float32(0.1), math.inf, -math.inf, math.nan)
    assert len({content(make_fit(weights={"launches": value})) for value in values}) == len(values)
    assert content(make_fit()) == content(make_fit())


def test_fit_that_contains_a_function_has_no_key(make_fit):
    assert content_key(make_fit(options={"solver": sum})) is None


# }}}


# {{{ other processes

KEYS = """
import warnings; warnings.simplefilter("ignore")
from tests.kernels import doubled, outer_product
import loopy as lp
from loopyperf.stages.cache_keys import content_key
for build in (doubled, outer_product):
    print(content_key(build()), content_key(lp.linearize(lp.preprocess_program(build()))))
"""


def keys(seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    run = subprocess.run([sys.executable, "-c", KEYS], env=environment, capture_output=True, text=True, check=True)
    return run.stdout


def test_keys_do_not_depend_on_the_hash_seed():
    assert keys("1") == keys("2") == keys("3")


# }}}


# {{{ programs with user-defined code


@dataclass(frozen=True)
class Harmless(Tag):
    """A tag without meaning to Loopy."""


@dataclass(frozen=True, init=False)
class Reciprocal(ScalarCallable):
    """A function that Loopy does not know."""


def test_user_defined_tags_are_part_of_the_content():
    unit = lp.tag_inames(doubled(), {"i_outer": Harmless()})
    assert "Harmless" in content(unit)
    assert content(unit) != content(doubled())


def test_program_with_user_defined_functions_has_no_key():
    called = lp.register_callable(doubled(), "reciprocal", Reciprocal("reciprocal"))
    named = doubled().with_kernel(doubled().default_entrypoint.copy(symbol_manglers=[lambda kernel, name: None]))
    for unit in (called, named):
        with pytest.raises(ContentError):
            content(unit)
        assert content_key(unit) is None


# }}}
