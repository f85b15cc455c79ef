"""Each law of :mod:`loopyperf.testing` detects violations, and correct predictors and devices pass."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np
import pytest

import loopyperf as lpp
from loopyperf.device.parts import Quantity
from loopyperf.models.result import Breakdown, BreakdownRow
from loopyperf.stages.case import Case
from loopyperf.testing import Check, check_device, check_predictor, device_checks, predictor_checks

CORRECT = lpp.predictor(device="nvidia-v100", model="roofline")
V100 = lpp.load_device("nvidia-v100")
Alteration = Callable[[lpp.Estimate], lpp.Estimate]
calls = count()


@dataclass(frozen=True, eq=False)
class Altered(lpp.Predictor):
    """A roofline with altered estimates."""

    alter: Alteration = field(kw_only=True)

    def predict(self, case: Case) -> lpp.Estimate:
        return self.alter(CORRECT.predict(case))


class Lenient(Altered):
    """Replaces invalid sizes by 64."""

    def predict(self, case: Case) -> lpp.Estimate:
        try:
            return super().predict(case)
        except lpp.ParameterError:
            return super().predict(replace(case, sizes={**case.sizes, "length": 64}))


class Careless(Altered):
    """Fails without a message."""

    def predict(self, case: Case) -> lpp.Estimate:
        raise ZeroDivisionError


def unaltered(estimate: lpp.Estimate) -> lpp.Estimate:
    return estimate


def seconds(change: Callable[[Any], Any]) -> Alteration:
    return lambda estimate: replace(estimate, seconds=change(estimate.seconds))


def doubled_in_a_batch(found: Any) -> Any:
    return found * (1 + np.ndim(found) // 2)


def altered(alter: Alteration, kind: type[Altered] = Altered) -> lpp.Predictor:
    return kind("roofline", "nvidia-v100", CORRECT.notes, alter=alter)


NOT_PLAIN = Breakdown((BreakdownRow("alu", "insn", object(), None, 0.0),))  # pyright: ignore[reportArgumentType]
BROKEN_PREDICTORS = {
    "a kernel has an estimate or a clear error": altered(unaltered, Careless),
    "seconds are finite and not negative": altered(seconds(lambda found: math.nan * found)),
    "the breakdown adds up to the seconds": altered(seconds(lambda found: found * (1 + 2**-40))),
    "more work takes no less time": altered(seconds(lambda found: 1 / found)),
    "a batch has the shape of its sizes": altered(seconds(np.sum)),
    "the interval contains the seconds": altered(lambda each: replace(each, interval=(2 * each.seconds,) * 2)),
    "an estimate has its inputs": altered(lambda each: replace(each, device="nvidia-a100")),
    "an estimate survives json and pickling": altered(lambda each: replace(each, breakdown=NOT_PLAIN)),
    "errors name the invalid size": altered(unaltered, Lenient),
    "equal inputs have equal estimates": altered(seconds(lambda found: found + next(calls))),
    "a batch has the estimates of its sizes": altered(seconds(doubled_in_a_batch)),
    "a predictor survives pickling": altered(lambda each: each),
}


def with_level(name: str, **numbers: Any) -> lpp.Device:
    levels = tuple(replace(each, **numbers) if each.name == name else each for each in V100.memory)
    return replace(V100, memory=levels)


def with_limits(**numbers: Any) -> lpp.Device:
    return replace(V100, limits=replace(V100.limits, **numbers))


def with_instructions(**numbers: Any) -> lpp.Device:
    return replace(V100, instructions=tuple(replace(each, **numbers) for each in V100.instructions))


BROKEN_DEVICES = {
    "the slug is valid": replace(V100, slug="NVIDIA V100"),
    "numbers are in range": replace(V100, cores=0),
    "numbers have their unit and a source": V100.stating(clock=Quantity(1.4, "GHz", "")),
    "an instruction completes no sooner than the next may issue": with_instructions(issue=4.0, completion=3.0),
    "farther memory levels are slower and larger": with_level("L2", latency=1.0),
    "no memory is measured faster than its published peak": with_level("DRAM", sustained_bandwidth=1e15),
    "published peaks are cores times clock times throughput": replace(V100, cores=40),
    "measured single precision is no faster than the units": with_instructions(issue=0.01),
    "a core has room for the largest group": with_limits(local_memory=1024),
    "a description survives a round trip": replace(V100, vendor=""),
    "models predict or name missing parameters": replace(V100, clock=math.inf),
}


def broken(checks: tuple[Check, ...]) -> dict[str, str]:
    """Return the broken laws with their messages."""
    found: dict[str, str] = {}
    for check in checks:
        try:
            check()
        except AssertionError as error:
            found[check.law] = str(error)
    return found


def test_correct_predictor_and_device_pass() -> None:
    check_predictor(CORRECT)
    check_predictor(Altered("roofline", "nvidia-v100", CORRECT.notes, alter=unaltered))
    check_device(V100)


def test_violations_of_predictor_laws_are_detected(subtests: pytest.Subtests) -> None:
    for law in BROKEN_PREDICTORS:
        with subtests.test(law=law):
            assert law in broken(predictor_checks(BROKEN_PREDICTORS[law]))


def test_violations_of_device_laws_are_detected(subtests: pytest.Subtests) -> None:
    for law in BROKEN_DEVICES:
        with subtests.test(law=law):
            assert law in broken(device_checks(BROKEN_DEVICES[law]))


def test_every_law_has_a_violating_example() -> None:
    assert {check.law for check in predictor_checks(CORRECT)} == set(BROKEN_PREDICTORS)
    assert {check.law for check in device_checks(V100)} == set(BROKEN_DEVICES)


def test_executing_predictor_need_not_be_repeatable() -> None:
    class Executing(Altered):
        executes_kernels = True

    repeatable = {"equal inputs have equal estimates", "a predictor survives pickling"}
    laws = {check.law for check in predictor_checks(altered(unaltered, Executing))}
    assert laws < set(BROKEN_PREDICTORS)
    assert not repeatable & laws


def test_message_shows_kernel_sizes_received_and_expected() -> None:
    wrong = altered(lambda each: replace(each, device="nvidia-a100"))
    with pytest.raises(AssertionError) as found:
        check_predictor(wrong)
    head, first = str(found.value).splitlines()[:2]
    assert head == "roofline on nvidia-v100 breaks the law 'an estimate has its inputs':"
    assert re.fullmatch(r"  scaled\(length=64\): got .*nvidia-a100.*, expected .*nvidia-v100.*", first)


def test_all_broken_laws_are_reported_together() -> None:
    both = replace(with_level("L2", latency=1.0), cores=0)
    with pytest.raises(AssertionError, match="'numbers are in range'") as found:
        check_device(both)
    assert "nvidia-v100 breaks the law 'farther memory levels are slower and larger'" in str(found.value)
