"""Every device model has a time for every device of the catalog, on typical kernels."""

from collections.abc import Callable
from functools import cache

import loopy as lp
import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.device_library import BUNDLED
from loopyperf.models.catalog import DEVICE_MODELS
from tests.profiles import timed_on

SLUGS = sorted(path.stem for path in BUNDLED.glob("*.toml"))
N = 64


def unit_of(domain: str, code: str, size: str, *arrays: lp.GlobalArg) -> lp.TranslationUnit:
    assumptions = f"n >= {size} and n mod {size} = 0"
    return lp.make_kernel(domain, code, [*arrays, ...], assumptions=assumptions, lang_version=(2018, 2))


def grouped(unit: lp.TranslationUnit, **sizes: int) -> lp.TranslationUnit:
    """Return *unit* in groups; *sizes* are their work-items along each iname, of which the last one varies fastest."""
    for axis, (iname, size) in enumerate(reversed(sizes.items())):
        unit = lp.split_iname(unit, iname, size, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")
    return unit


def stencil() -> lp.TranslationUnit:
    u = lp.GlobalArg("u", np.float32, shape="n+2, n+2")
    code = "v[i, j] = u[i, j+1] + u[i+2, j+1] + u[i+1, j] + u[i+1, j+2] - 4*u[i+1, j+1]"
    unit = grouped(unit_of("{[i, j]: 0 <= i, j < n}", code, "16", u), i=16, j=16)
    return lp.add_prefetch(unit, "u", ["i_inner", "j_inner"], fetch_bounding_box=True, default_tag="l.auto")


def multiplication(dtype: type[np.floating]) -> lp.TranslationUnit:
    unit = unit_of(
        "{[i, j, k]: 0 <= i, j, k < n}",
        "c[i, j] = sum(k, a[i, k]*b[k, j])",
        "16",
        lp.GlobalArg("a, b", dtype, shape="n, n"),
    )
    unit = lp.split_iname(grouped(unit, i=16, j=16), "k", 16)
    unit = lp.add_prefetch(unit, "a", ["k_inner", "i_inner"], default_tag="l.auto")
    return lp.add_prefetch(unit, "b", ["j_inner", "k_inner"], default_tag="l.auto")


def bodies() -> lp.TranslationUnit:
    code = "f[i] = sum(j, rsqrt((x[j] - x[i])*(x[j] - x[i]) + eps))"
    arrays = lp.GlobalArg("x", np.float32, shape="n"), lp.ValueArg("eps", np.float32)
    return grouped(unit_of("{[i, j]: 0 <= i, j < n}", code, "64", *arrays), i=64)


def copy() -> lp.TranslationUnit:
    return grouped(unit_of("{[i]: 0 <= i < n}", "b[i] = a[i]", "64", lp.GlobalArg("a", np.float32, shape="n")), i=64)


def integers() -> lp.TranslationUnit:
    code = "b[i] = (a[i]*a[i] + (a[i] >> 3)) ^ (a[i]*7 + 3)"
    return grouped(unit_of("{[i]: 0 <= i < n}", code, "64", lp.GlobalArg("a", np.int32, shape="n")), i=64)


@pytest.mark.parametrize(
    "make",
    [
        *(stencil, bodies, copy, integers),
        *(pytest.param(lambda dtype=dtype: multiplication(dtype), id=name)
          for name, dtype in (("f32", np.float32), ("f64", np.float64))),
    ],
)  # fmt: skip
def test_every_model_has_a_time_for_every_device(make: Callable[[], lp.TranslationUnit]) -> None:
    unit = make()
    graphs = cache(lambda lanes: lpp.kernel_profile(unit, warp_size=lanes, n=N))
    for slug in SLUGS:
        device = lpp.load_device(slug)
        kernel = timed_on(graphs(device.warp_size), device)
        for model in DEVICE_MODELS.values():
            found = model.time(kernel)
            assert 0 < float(found.seconds) < 0.1, (slug, model.name)
            assumed = [note.partition(": ")[0] for note in found.notes if note.startswith("assumed ")]
            assert len(assumed) == len(set(assumed)), (slug, model.name)  # one note of each kind


def test_kernels_have_the_expected_counts() -> None:
    counted = lpp.count(multiplication(np.float64)).properties().evaluate(n=N)
    assert counted["f64 mul"] == N**3
    assert lpp.count(stencil()).properties().evaluate(n=N)["barriers"] == N**2
