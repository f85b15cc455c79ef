"""Test where nvcc places private arrays, and how often a warp accesses those on the stack."""

import pickle
from itertools import product
from typing import Any

import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.compiler import lowered
from loopyperf.compiler.private_arrays import private_arrays
from loopyperf.compiler.resources import compiled, library
from loopyperf.counts.sizes import Typical
from loopyperf.kernel import load_kernel
from tests import private_array_kernels as kernels
from tests import sample_and_all
from tests.corpora.titan_v import needs_archive
from tests.profiles import source_profile

from .branch_decisions import around_calls
from .cuda_source import cuda_source
from .instruction_counts import Tally
from .launch import FAST_MATH

SURE = {**kernels.REGISTERS, **kernels.STACK_MEMORY}


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
@sample_and_all(3)
def test_nvcc_stack_frame_matches_arrays_in_stack_memory(subtests: pytest.Subtests, step: int) -> None:
    for name, architecture in list(product(SURE, ["sm_80", "sm_90"]))[::step]:
        with subtests.test(architecture=architecture, name=name):
            unit = SURE[name]()
            sizes = {"n": 3} if "n" in unit.default_entrypoint.arg_dict else {}
            found = private_arrays(source_profile(load_kernel(unit), sizes, Typical({})).graph)
            (machine,) = compiled(cuda_source(unit).code, architecture)
            assert machine.stack_frame == sum(array.nbytes for array in found if array.home == "stack memory")


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
def test_size_of_an_array_with_constant_indices_does_not_matter(subtests: pytest.Subtests) -> None:
    """Arrays of 256 to 288 floats, of which 16 to 272 are used, are in registers."""
    for name, (build, _) in kernels.PARTS_OF_SQUARES.items():
        with subtests.test(name=name):
            (machine,) = compiled(cuda_source(build()).code, "sm_70")
            assert machine.stack_frame == 0


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
def test_sums_beyond_the_registers_are_spilled_one_by_one(subtests: pytest.Subtests) -> None:
    """An array of 242 to 288 registers in a matrix product: NVRTC spills what does not fit, and so does the graph.

    If too many are missing, both take 32 registers.
    """
    for width, dtype, device, registers in (
        (16, np.float32, "nvidia-v100", 255),
        (11, np.float64, "nvidia-a100", 255),
        (12, np.float64, "nvidia-v100", 32),
    ):
        with subtests.test(width=width):
            unit, how = kernels.product_tile(width, dtype), {"n": 128 * width, "device": device}
            (model,) = lpp.machine_program(unit, **how).launches
            (machine,) = compiled(cuda_source(unit).code, f"sm_{lpp.load_device(device).target.replace('.', '')}")
            assert (model.unsure, model.registers, machine.registers) == ({}, registers, registers)
            assert 0.5 < 4 * model.spilled / machine.stack_frame < 1.5
            by_model, by_nvrtc = (
                float(lpp.estimate(unit, model="roofline", compiler=each, **how)) for each in ("model", "nvrtc")
            )
            assert 0.9 < by_model / by_nvrtc < 1.1


# {{{ vectors

VECTORS = [(2, np.float32), (4, np.float32), (2, np.float64)]


@pytest.mark.skipif(library() is None, reason="NVRTC is not installed")
@pytest.mark.parametrize("rows", [4, "r"])
@pytest.mark.parametrize(("width", "dtype"), VECTORS)
def test_nvcc_stack_frame_matches_arrays_of_vectors(width: int, dtype: type, rows: int | str) -> None:
    unit = kernels.vector_sums(width, rows, "n", dtype=dtype)
    (array,) = private_arrays(source_profile(load_kernel(unit), {"n": 8, "r": 4}, Typical({})).graph)
    (machine,) = compiled(cuda_source(unit).code, "sm_80")
    assert machine.stack_frame == (array.nbytes if array.home == "stack memory" else 0)
    assert (array.home == "stack memory") == (rows == "r")


@pytest.mark.parametrize(("width", "dtype"), VECTORS)
def test_graph_of_vectors_matches_executed_instructions(launch: Any, width: int, dtype: type) -> None:
    unit = kernels.vector_sums(width, 4, 8, dtype=dtype)
    graph = lowered(source_profile(load_kernel(unit), {"n": 8, "r": 4}, Typical({})).graph, capability=(8, 0))
    tally = launch(unit, "sm_80").run({"n": 8, "r": 4})
    classes = kinds_of(graph)
    assert classes == {name: tally[name] for name in classes}


def kinds_of(graph: Any) -> dict[str, Any]:
    """Return how many loads, stores and multiply-adds *graph* executes, by opcode."""
    names = {"load": "LDG", "store": "STG", "fma": "FFMA"}
    found: dict[str, Any] = {}
    for each in graph.instructions:
        if each.kind in names:
            width = f".{each.bits}" if each.kind != "fma" and each.bits > 32 else ""
            name = "DFMA" if (each.kind, each.dtype) == ("fma", "f64") else f"{names[each.kind]}{width}"
            found[name] = found.get(name, 0) + each.executions
    return found


# }}}

# {{{ measured kernels

ON_THE_STACK = {1301: 168, 1677: 432, 1748: 192, 2074: 576, 8726: 80, 7977: 0, 2208: 0, 1786: 0, 8945: 0, 8697: 0}
"""bytes by the kernel's number in the archive: "stack frame" in the report of ptxas 13.0.88 for sm_80, fast math"""
LIKELY = {2343: 0, 2415: 0, 2825: 0, 3446: 0, 2843: 0, 5917: 256, 6172: 512, 6178: 256}
"""the same, for arrays in loops with several constant trip counts"""
EXACT = (1301, 1523, pytest.param(1748, marks=pytest.mark.slow), 8726)
"""kernels in which nvcc loads and stores each element of stack memory as often as the graph"""


@needs_archive
@sample_and_all(3)
def test_arrays_in_stack_memory_match_ptxas_stack_frame(subtests: pytest.Subtests, rows: Any, step: int) -> None:
    for number in list(ON_THE_STACK)[::step]:
        with subtests.test(number=number):
            kernel = load_kernel(pickle.loads(rows[number]["kernel"]))
            found = private_arrays(source_profile(kernel, rows[number]["sizes"], Typical({})).graph)
            assert "unsure" not in {array.home for array in found}
            assert ON_THE_STACK[number] == sum(array.nbytes for array in found if array.home == "stack memory")


@needs_archive
@sample_and_all(3)
def test_likelier_home_of_unsure_arrays_matches_ptxas_stack_frame(
    subtests: pytest.Subtests, rows: Any, step: int
) -> None:
    for number in list(LIKELY)[::step]:
        with subtests.test(number=number):
            kernel = load_kernel(pickle.loads(rows[number]["kernel"]))
            found = private_arrays(source_profile(kernel, rows[number]["sizes"], Typical({})).graph)
            assert "unsure" in {array.home for array in found}
            assert LIKELY[number] == sum(array.nbytes for array in found if array.is_in_memory)


@needs_archive
@pytest.mark.parametrize("number", EXACT)
def test_stack_loads_and_stores_match_the_graph(launch: Any, rows: Any, number: int) -> None:
    unit, sizes = pickle.loads(rows[number]["kernel"]), rows[number]["sizes"]
    graphs = source_profile(load_kernel(unit), sizes, Typical({})).graph
    example = graphs.launches[0].representative.example
    group = tuple(example.groups.get(axis, 0) for axis in range(3))
    tally = launch(unit, "sm_80", FAST_MATH).run(sizes, group, example.number, decide=around_calls)
    private = [each for each in lowered(graphs).instructions if each.subsystem == "private"]
    for kind, opcode in (("load", "LDL"), ("store", "STL")):
        assert doubles(tally, opcode) == sum(each.executions for each in private if each.kind == kind) > 0


def doubles(tally: Tally, opcode: str) -> int:
    """Return the number of accessed 64-bit elements, of which an access has one or two."""
    return tally[f"{opcode}.64"] + 2 * tally[f"{opcode}.128"]


# }}}
