"""Tests of tiles in local memory."""

from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.kernel_counts import count_kernel
from loopyperf.errors import MeasurementError
from loopyperf.kernel import load_kernel
from loopyperf.measurement.backends.backend import BenchmarkCase, MeasuredTimes
from loopyperf.measurement.backends.opencl import OpenCLBackend
from loopyperf.measurement.kernel_files import with_local_tile

from .synthetic import configuration

AXES = {"a_row": "l.1", "a_column": "l.0"}


def stencil(columns: int, rows: int, halo: int = 1, divides: bool = False) -> lp.TranslationUnit:
    """b[i,j] = a[i,j] + a[i+halo,j+halo] for i, j < n, in groups of columns × rows work-items."""
    unit = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        f"b[i, j] = a[i, j] + a[i + {halo}, j + {halo}]",
        [
            lp.GlobalArg("a", np.float32, shape=f"n + {halo}, n + {halo}"),
            lp.GlobalArg("b", np.float32, shape="n, n"),
            lp.ValueArg("n", np.int32),
        ],
        assumptions="n >= 48 and n mod 48 = 0" if divides else "n >= 1",
        target=lp.PyOpenCLTarget(),
        lang_version=(2018, 2),
    )
    unit = lp.split_iname(unit, "i", rows, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(unit, "j", columns, outer_tag="g.0", inner_tag="l.0")


def products() -> lp.TranslationUnit:
    """b[i] = Σⱼ a[i] a[j] for i < n, in groups of 16 work-items; the second a is ``a$far``."""
    unit = lp.make_kernel(
        "{[i, j]: 0 <= i, j < n}",
        "b[i] = sum(j, a[i]*a$far[j])",
        [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 16 and n mod 16 = 0",
        lang_version=(2018, 2),
    )
    return lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")


def tiled(unit: lp.TranslationUnit, axes=AXES, **options) -> lp.TranslationUnit:
    return with_local_tile(unit, "a", swept="i_inner, j_inner", outer="i_outer, j_outer", axes=axes, **options)


def axis_of(unit: lp.TranslationUnit, iname: str) -> list[str]:
    return sorted(map(str, unit.default_entrypoint.iname_tags(iname)))


def stencil_arguments(rng, sizes):
    n = sizes["n"]
    return {
        "a": rng.random((n + 1, n + 1), dtype=np.float32),
        "b": np.zeros((n, n), np.float32),
        "n": np.int32(n),
    }


# {{{ distribution of a tile over a group


def test_tile_is_distributed_over_the_group():
    unit = tiled(stencil(16, 8, halo=0))  # one element per work-item
    assert (axis_of(unit, "a_row"), axis_of(unit, "a_column")) == (["l.1"], ["l.0"])
    unit = tiled(stencil(16, 8))  # 9 rows by 17 columns: in a loop
    assert (axis_of(unit, "a_row_inner"), axis_of(unit, "a_column_inner")) == (["l.1"], ["l.0"])
    assert (axis_of(unit, "a_row_outer"), axis_of(unit, "a_column_outer")) == ([], [])
    unit = tiled(stencil(16, 8, halo=0), {"a_row": None, "a_column": "l.0"})  # an axis without a local index
    assert (axis_of(unit, "a_row"), axis_of(unit, "a_column")) == ([], ["l.0"])


def test_axis_of_length_one_has_no_iname():
    unit = with_local_tile(stencil(16, 8, halo=0), "a", swept="j_inner", outer="i_outer, i_inner, j_outer", axes=AXES)
    assert axis_of(unit, "a_column") == ["l.0"]
    assert "a_row" not in unit.default_entrypoint.inames


def test_tile_name_defaults_to_the_array_name():
    assert "a_tile" in tiled(stencil(16, 8)).default_entrypoint.temporary_variables
    assert "block" in tiled(stencil(16, 8), name="block").default_entrypoint.temporary_variables


# }}}


# {{{ contents of a tile


@pytest.mark.parametrize(("columns", "rows"), [(16, 12), (4, 3)])
def test_each_element_of_the_bounding_box_is_fetched_once(columns, rows):
    counts = count_kernel(load_kernel(tiled(stencil(columns, rows, divides=True)))).properties().evaluate(n=96)
    groups = 96**2 // (columns * rows)
    assert sum(number for name, number in counts.items() if name.startswith("global load")) == (
        groups * (columns + 1) * (rows + 1)  # includes corners that are not read
    )
    assert counts["local store 32-bit"] == groups * (columns + 1) * (rows + 1)
    assert counts["local load 32-bit"] == 2 * 96**2


@pytest.mark.parametrize("n", [1, 37])
def test_tile_does_not_exceed_the_array_bounds(n):
    def timed(last: float) -> MeasuredTimes:
        def reference(arguments: dict[str, Any]) -> dict[str, Any]:
            expected = arguments["a"][:-1, :-1] + arguments["a"][1:, 1:]
            expected[-1, -1] += last
            return {"b": expected}

        measured = configuration(build=lambda: tiled(stencil(16, 12)), arguments=stencil_arguments, reference=reference)
        return OpenCLBackend().time(BenchmarkCase("stencil", measured, {"n": n}), 1)

    assert len(timed(0.0).wall) == 1
    with pytest.raises(MeasurementError, match="array b is wrong"):
        timed(1.0)


def test_only_accesses_with_the_tag_read_the_tile():
    unit = lp.split_iname(products(), "j", 16)
    unit = with_local_tile(unit, "a$far", swept="j_inner", outer="i_outer, j_outer", axes={"position": "l.0"})
    unit = lp.prioritize_loops(unit, "j_outer, j_inner")
    counts = count_kernel(load_kernel(unit)).properties().evaluate(n=64)
    assert counts["local load 32-bit"] == 64**2
    assert counts["local store 32-bit"] == 64**2 // 16
    assert "a_tile" in unit.default_entrypoint.temporary_variables


# }}}


# {{{ errors


def test_error_names_the_missing_local_axis():
    with pytest.raises(MeasurementError, match=r"local axis 'l\.2': kernel loopy_kernel has no iname on it"):
        tiled(stencil(16, 8), {"a_row": "l.2", "a_column": "l.0"})


def test_tile_of_variable_length_is_rejected():
    with pytest.raises(MeasurementError, match=r"iname 'position' .* its length is not constant"):
        with_local_tile(products(), "a$far", swept="j", outer="i_outer", axes={"position": "l.0"})


# }}}
