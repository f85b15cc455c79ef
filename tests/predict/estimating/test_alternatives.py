"""Test the alternative times of an estimate if the compiler may place private arrays in registers or in memory."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pytest
from click.testing import CliRunner

import loopyperf as lpp
from loopyperf.calibration.accuracy import Uncertainty
from loopyperf.calibration.fits import Fit
from loopyperf.cli.command_table import program
from loopyperf.compiler.machine_program import MachineProgram, compile_profile
from loopyperf.errors import MissingNumberError, ParameterError
from loopyperf.memory.kernel_profile import KernelProfile
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.models.result import ModelTime
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.on_device import arrays_in_words, batched_alternatives, with_alternatives
from loopyperf.units import duration
from tests import private_array_kernels as kernels
from tests.private_array_kernels import F64
from tests.profiles import timed_on

V100 = lpp.load_device("nvidia-v100")
N = 4096
REASON = "the loop over p has 8 or 16 iterations; nvcc unrolls some such loops"


def unsure() -> lp.TranslationUnit:
    """Return a kernel with an array that is probably in registers."""
    return kernels.UNSURE["8 or 16 passes"]()


def unsure_of_two() -> lp.TranslationUnit:
    """Return a kernel with an array that is probably in registers and one that is probably in memory."""
    sums = [
        f"{{[s{name}, p{name}]: 0<=p{name}<{tile} and 0<=s{name} and {tile}*s{name} + p{name} < {total}}}"
        for name, tile, total in (("a", 16, 328), ("b", 9, 183))
    ]
    unit = lp.make_kernel(
        ["{[t, i, o]: 0<=t<32 and 0<=i,o<9}", *sums],
        """
        a[i] = x[i, t]
        b[i] = x[i, t]
        a[pa] = a[pa] + x[16*sa + pa, t] {id=a}
        b[pb] = b[pb] + x[9*sb + pb, t] {id=b}
        y[o, t] = a[o] + b[o]
        """,
        [
            lp.GlobalArg("x,y", F64, shape=lp.auto),
            lp.TemporaryVariable("a", F64, shape=(16,), address_space=lp.AddressSpace.PRIVATE),
            lp.TemporaryVariable("b", F64, shape=(9,), address_space=lp.AddressSpace.PRIVATE),
        ],
        lang_version=(2018, 2),
        seq_dependencies=True,
    )
    return lp.prioritize_loops(lp.prioritize_loops(lp.tag_inames(unit, {"t": "l.0"}), "sa,pa"), "sb,pb")


def profile(unit: lp.TranslationUnit) -> KernelProfile:
    return lpp.kernel_profile(unit, parameters={"n": N} if "n" in unit.default_entrypoint.arg_dict else {})


def machine(unit: lp.TranslationUnit) -> MachineProgram:
    return compile_profile(profile(unit), V100)


def timed(unit: lp.TranslationUnit, **options: Any) -> TimedProgram:
    return timed_on(profile(unit), V100, **options)


def with_other_places(unit: lp.TranslationUnit, time: Callable[[TimedProgram], ModelTime]) -> ModelTime:
    return with_alternatives(time(timed(unit)), profile(unit), machine(unit), V100, time)


def in_other_places(unit: lp.TranslationUnit) -> list[TimedProgram]:
    return [timed(unit, placement=place) for place in machine(unit).alternatives]


def private_accesses(found: TimedProgram) -> int:
    graphs = (each.graph for launch in found.launches for each in launch.programs.values())
    return sum(each.subsystem == "private" for graph in graphs for each in graph.instructions)


@pytest.mark.parametrize("name", ["pipeline", "roofline", "wfg"])
def test_alternative_time_uses_the_other_placement_of_the_array(name: str) -> None:
    found = lpp.estimate(unsure(), n=N, device=V100, model=name)
    (other,) = found.alternatives
    time = DEVICE_MODELS[name].time
    assert found.is_unsure
    assert found.seconds == time(timed(unsure(), placement="registers")).seconds
    assert other.seconds == time(timed(unsure(), placement="stack memory")).seconds
    assert (other.arrays, other.assumption) == (("a",), "the private array a is in stack memory")
    assert other.reason == REASON


def test_kernel_with_certain_placement_has_one_time() -> None:
    builds = {**kernels.REGISTERS, **kernels.STACK_MEMORY}
    too_large = builds.pop("more than all registers")  # its placement is uncertain before Turing
    assert machine(too_large()).alternatives
    for build in builds.values():
        assert machine(build()).alternatives == ()
    found = lpp.estimate(kernels.copied(8), n=N, device=V100, model="roofline")
    assert not found.is_unsure
    assert found.to_dict()["alternatives"] == found.to_dict()["unsure"] == []
    assert "or:" not in str(found)


def test_arrays_in_memory_are_accessed_and_arrays_in_registers_are_not() -> None:
    (other,) = in_other_places(unsure())
    assert private_accesses(timed(unsure())) == 0 < private_accesses(other)
    assert compile_profile(profile(unsure()), V100, "stack memory").alternatives == ("registers",)
    assert private_accesses(timed(unsure(), placement="registers")) == 0


def test_alternatives_place_all_arrays_in_registers_or_all_in_memory() -> None:
    found = lpp.estimate(unsure_of_two(), device=V100, model="roofline")
    assert [(each.arrays, each.assumption) for each in found.alternatives] == [
        (("b",), "the private array b is in registers"),
        (("a",), "the private array a is in stack memory"),
    ]
    none, both = in_other_places(unsure_of_two())
    assert private_accesses(none) == 0 < private_accesses(timed(unsure_of_two())) < private_accesses(both)


def test_alternative_of_a_batch_is_an_array_over_sizes() -> None:
    found = lpp.estimate(unsure(), n=np.array([N, 64]), device=V100, model="roofline")
    single = [lpp.estimate(unsure(), n=n, device=V100, model="roofline") for n in (N, 64)]
    assert [each.alternatives[0].seconds for each in single] == np.asarray(found.alternatives[0].seconds).tolist()
    assert (
        json.loads(json.dumps(found.to_dict()))["alternatives"][0]["seconds"]
        == np.asarray(found.alternatives[0].seconds).tolist()
    )


def test_alternative_equals_the_time_at_sizes_with_certain_placement() -> None:
    certain = DEVICE_MODELS["roofline"].time(timed(kernels.copied(8)))
    uncertain = with_other_places(unsure(), DEVICE_MODELS["roofline"].time)
    (found,) = batched_alternatives([certain, uncertain, certain], (3,))
    assert np.asarray(found.seconds).tolist() == [certain.seconds, uncertain.alternatives[0].seconds, certain.seconds]
    assert (found.arrays, found.reason) == (("a",), REASON)


WEIGHTS = {"DRAM": 1.0, "local: private": 1.0, "local: global": 1.0, "latency": 1.0}


@pytest.fixture
def fit() -> Fit:
    spread = Uncertainty(tuple(np.arange(1, 100) / 100), (), ((0.0,),))
    return Fit(
        model="linear",
        device="V100",
        slug="nvidia-v100",
        counting="executed",
        weights=WEIGHTS,
        basis="pipelines",
        uncertainty=spread,
    )


def test_interval_of_a_fit_contains_both_times(fit: Fit) -> None:
    found = lpp.estimate(unsure(), n=N, fit=fit)
    (other,) = found.alternatives
    assert found.interval is not None
    assert other.seconds > found.seconds
    # The 80 % quantile of the scores 0.01 to 0.99 is 0.8; the leverage is 0.
    assert found.interval == pytest.approx((found.seconds * np.exp(-0.8), other.seconds * np.exp(0.8)))


def test_estimate_without_alternatives_still_reports_the_uncertain_array(fit: Fit) -> None:
    for how in ({"fit": fit}, {"device": V100, "model": "roofline"}):
        both, one = lpp.estimate(unsure(), n=N, **how), lpp.estimate(unsure(), n=N, alternatives=False, **how)
        assert (one.seconds, one.unsure, one.alternatives) == (both.seconds, ("a",), ())
        assert one.is_unsure
        if both.interval is not None and one.interval is not None:
            assert one.interval[1] < both.interval[1]


def test_kernel_size_named_alternatives_needs_parameters() -> None:
    with pytest.raises(ParameterError, match="alternatives must be True or False, got 3; pass a kernel size of that"):
        lpp.estimate(unsure(), n=N, device=V100, model="roofline", alternatives=3)  # pyright: ignore[reportArgumentType]


def test_missing_alternative_time_is_reported_in_a_note() -> None:
    def only_in_registers(kernel: TimedProgram) -> ModelTime:
        if any(each.subsystem == "private" for launch in kernel.launches for _, each, _ in launch.executed()):
            raise MissingNumberError("no local memory")
        return DEVICE_MODELS["roofline"].time(kernel)

    found = with_other_places(unsure(), only_in_registers)
    assert found.alternatives == ()
    assert found.notes[-1] == "no time if the private array a is in stack memory: no local memory"


def test_text_and_json_contain_both_times(tmp_path: Path) -> None:
    file = tmp_path / "unsure.py"
    file.write_text(
        "from tests.private_array_kernels import in_tiles\n\n\ndef build():\n    return in_tiles(328, 16)\n"
    )
    arguments = ["estimate", f"{file}:build", "--set", f"n={N}", "--device", "nvidia-v100", "--model", "roofline"]
    expected = lpp.estimate(unsure(), n=N, device=V100, model="roofline")
    assert f"or: {expected.alternatives[0]}" in " ".join(str(expected).split())
    printed = " ".join(CliRunner().invoke(program, arguments).stdout.split())
    assert f"or: {expected.alternatives[0]}" in printed
    document = json.loads(CliRunner().invoke(program, [*arguments, "--json"]).stdout)
    assert document["unsure"] == ["a"]
    assert document["alternatives"] == expected.to_dict()["alternatives"]


def test_comparison_shows_both_times() -> None:
    found = lpp.compare(unsure(), n=N, device=V100, models=["roofline", "wfg"])
    for name, each in found.estimates.items():
        assert each == lpp.estimate(unsure(), n=N, device=V100, model=name)
        assert each.time_in_words in str(found)


def test_every_headline_shows_both_times_if_they_differ_much() -> None:
    """The placement of the array decides a factor of nearly 3 here."""
    how: dict[str, Any] = {"device": V100, "model": "roofline"}
    found = lpp.estimate(unsure(), n=N, **how)
    own, other = (duration(float(each.seconds)) for each in (found, *found.alternatives))
    both = f"{own} or {other}"
    assert found.time_in_words == both
    for text in (found, lpp.rank({"it": unsure()}, n=N, **how), lpp.explain(unsure(), n=N, **how)):
        assert both in " ".join(str(text).split())
    assert found.report_text().alone == f"from {own} to {other}"
    alike = replace(found.alternatives[0], seconds=1.4 * float(found))
    assert replace(found, alternatives=(alike,)).time_in_words == own


def test_sentence_names_only_the_first_of_many_arrays() -> None:
    assert arrays_in_words(["a", "b"]) == "the private arrays a, b are"
    assert arrays_in_words(["a", "b", "c", "d", "e"]) == "the private arrays a, b, c and 2 more are"
