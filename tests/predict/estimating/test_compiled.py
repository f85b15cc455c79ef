"""Test ``compiler="nvrtc"``: registers, spills and placement of private arrays come from machine code."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.compiler import resources
from loopyperf.compiler.machine_program import MachineProgram, compile_profile
from loopyperf.compiler.resources import Resources, library
from loopyperf.device.occupancy import occupancy
from loopyperf.errors import CompilerError, ParameterError
from loopyperf.stages import nvrtc
from loopyperf.stages.compile import UNSURE
from loopyperf.stages.nvrtc import compiled_kernel
from test_kernels.finite_difference import finite_difference
from tests import private_array_kernels as kernels

V100 = lpp.load_device("nvidia-v100")
N = 4096
needs_nvrtc = pytest.mark.skipif(library() is None, reason="NVRTC is not installed (the extra cuda-compiler)")


def unsure() -> lp.TranslationUnit:
    """Return a kernel with an array whose placement the compiler model cannot determine."""
    return kernels.UNSURE["8 or 16 passes"]()


def resources_of_launches(
    unit: lp.TranslationUnit, registers: int, stack_frame: int, spilled: int = 0
) -> Mapping[str, Resources]:
    return {
        each.name: Resources(each.name, registers, stack_frame, spilled, 2 * spilled, each.local_memory or 0)
        for each in profile(unit).launches
    }


def profile(unit: lp.TranslationUnit) -> Any:
    return lpp.kernel_profile(unit, parameters={"n": N} if "n" in unit.default_entrypoint.arg_dict else {})


def private_accesses(found: MachineProgram) -> int:
    graphs = (each.graph for launch in found.launches for each in launch.classes)
    return sum(each.subsystem == "private" for graph in graphs for each in graph.instructions)


def test_compiled_register_count_determines_the_occupancy() -> None:
    unit = finite_difference()
    for registers in (32, 64, 200):
        machine = compile_profile(profile(unit), V100, compiled=resources_of_launches(unit, registers, 0))
        (launch,) = machine.launches
        assert (launch.registers, launch.spilled) == (registers, 0)
        assert launch.room == occupancy(V100, launch.work_items, registers, launch.local_memory)


@pytest.mark.parametrize(("is_on_stack", "place"), [(True, "stack memory"), (False, "registers")])
def test_stack_frame_determines_an_uncertain_placement(is_on_stack: bool, place: Any) -> None:
    unit = unsure()
    (array,) = compile_profile(profile(unit), V100).unsure.values()
    found = compile_profile(
        profile(unit), V100, compiled=resources_of_launches(unit, 40, array.nbytes if is_on_stack else 0)
    )
    assert found.unsure == {}
    assert private_accesses(found) == private_accesses(compile_profile(profile(unit), V100, place))
    assert bool(private_accesses(found)) == is_on_stack


@pytest.mark.parametrize("is_on_stack", [True, False])
def test_another_compiler_changes_only_the_more_probable_placement(is_on_stack: bool) -> None:
    unit = unsure()
    (array,) = compile_profile(profile(unit), V100).unsure.values()
    found = resources_of_launches(unit, 40, array.nbytes if is_on_stack else 0)
    found = {name: replace(each, is_by_another=True) for name, each in found.items()}
    machine = compile_profile(profile(unit), V100, compiled=found)
    assert [each.is_in_memory for each in machine.unsure.values()] == [is_on_stack]
    assert {launch.registers for launch in machine.launches} == {40}


@needs_nvrtc
@pytest.mark.parametrize("target", [lp.CudaTarget(), lp.OpenCLTarget()])
def test_nvrtc_determines_placement_for_cuda_but_not_for_opencl(target: lp.TargetBase) -> None:
    unit = unsure().copy(target=target)
    arguments = {"device": V100, "model": "roofline", "parameters": profile(unit).sizes}
    by_model, by_nvrtc = (lpp.estimate(unit, compiler=each, **arguments) for each in ("model", "nvrtc"))
    is_opencl = isinstance(target, lp.OpenCLTarget)
    assert (len(by_model.alternatives), len(by_nvrtc.alternatives)) == (1, int(is_opencl))
    assert bool(by_nvrtc.unsure) == is_opencl
    assert UNSURE in by_model.notes
    assert UNSURE not in by_nvrtc.notes


@needs_nvrtc
def test_estimate_with_nvrtc_has_no_alternatives() -> None:
    unit = unsure().copy(target=lp.CudaTarget())
    arguments = {"device": V100, "model": "pipeline", "parameters": profile(unit).sizes}
    by_model, by_nvrtc = lpp.estimate(unit, **arguments), lpp.estimate(unit, compiler="nvrtc", **arguments)
    assert (len(by_model.alternatives), by_nvrtc.alternatives, by_nvrtc.unsure) == (1, (), ())
    assert any(note.startswith("compiled by NVRTC in ") for note in by_nvrtc.notes)


@needs_nvrtc
def test_each_launch_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    unit = lp.make_kernel(
        "{[i, j]: 0<=i,j<n}",
        "<> a[i] = 2*x[i] {id=first}\n... gbarrier {id=all, dep=first}\ny[j] = a[j] + a[n-1-j] {dep=all}",
        [lp.GlobalArg("x,y", "f8", shape="n"), ...],
        lang_version=(2018, 2),
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(lp.split_iname(unit, "i", 64, outer_tag="g.0", inner_tag="l.0"), "j", 64)
    unit = lp.tag_inames(lp.set_temporary_address_space(unit, "a", "global"), {"j_outer": "g.0", "j_inner": "l.0"})
    found = compiled_kernel(unit, V100)
    assert found.keys() == {each.name for each in profile(unit).launches}
    assert min(each.registers for each in found.values()) > 0
    monkeypatch.setattr(nvrtc, "compiled", lambda *_: pytest.fail("it is compiled again"))
    assert compiled_kernel(unit.copy(), V100) == found


def test_device_unknown_to_nvrtc_is_refused_only_with_compiler_nvrtc() -> None:
    arguments = {"device": "amd-mi210", "model": "roofline", "parameters": {"n": 512}}
    with pytest.raises(CompilerError, match="CUDA compute capability"):
        lpp.estimate(finite_difference(), compiler="nvrtc", **arguments)
    by_model, found = (lpp.estimate(finite_difference(), compiler=each, **arguments) for each in ("model", "auto"))
    assert (found.seconds, found.notes[:-1]) == (by_model.seconds, by_model.notes)
    assert "compiler model" in found.notes[-1]


def test_error_without_nvrtc_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "library", lambda wheels=(): None)
    with pytest.raises(CompilerError, match="cuda-compiler"):
        compiled_kernel(finite_difference(), V100)


def test_invalid_combinations_of_model_and_compiler_are_refused() -> None:
    for options in ({"model": "linear", "compiler": "nvrtc"}, {"model": "roofline", "compiler": "gcc"}):
        with pytest.raises(ParameterError, match="compiler"):
            lpp.predictor(device="amd-r9-fury" if options["model"] == "linear" else V100, **options)
