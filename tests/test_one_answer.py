"""Tests that all functions give one answer: numbers that are shown twice are equal, and none contradict."""

from collections.abc import Callable, Iterator
from inspect import signature
from itertools import cycle, product
from math import inf
from typing import Any

import click
import loopy as lp
import pytest

import loopyperf as lpp
from loopyperf.calibration.accuracy import ClassErrors, CrossValidation
from loopyperf.calibration.fits import save_fit
from loopyperf.cli.command_table import COMMANDS
from loopyperf.device.vocabulary import ISSUE
from loopyperf.explain.explanation import shares_of_peak
from loopyperf.explain.findings import FULL
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import measurement_kernels, unseen_kernels
from loopyperf.models.workload import LAUNCHING
from tests.kernels import doubled, outer_product, triangle, two_launches
from tests.slow_kernels import PLANTED

DEVICES = ("nvidia-h200", "nvidia-v100", "nvidia-a100", "amd-r9-fury")
"""a fit of pipelines, two devices without a fit, and a fit of counts"""
LIMITS = DeviceLimits(256, 48 * 2**10, 2**30)
Built = tuple[Callable[[], lp.TranslationUnit], dict[str, int]]


def _kernels() -> Iterator[tuple[str, Built]]:
    """Yield kernels with sizes: written for tests, with a planted cause of slowness, and measured ones."""
    yield "doubled", (lambda: doubled(group=256), {"n": 2**20})
    yield "outer product", (outer_product, {"n": 1024, "m": 1024})
    yield "triangle", (triangle, {"n": 1024})
    yield "two launches", (two_launches, {"n": 2**18})
    yield from PLANTED.items()
    for file in (*measurement_kernels(), *unseen_kernels()):
        made = file.configurations(LIMITS)[-1]
        yield file.name, (made.build, made.sizes[len(made.sizes) // 2])


KERNELS = dict(_kernels())


def test_there_are_enough_kernels():
    assert len(KERNELS) >= 30


def check(name: str, device: str, **options: Any) -> None:
    """Compare all numbers that several functions return for a kernel on a device."""
    build, sizes = KERNELS[name]
    knl, where = build(), {"device": device, "parameters": sizes, **options}
    estimate = lpp.estimate(knl, **where)
    explanation = lpp.explain(knl, **where)
    (on,) = explanation.devices
    answers = {
        "explain": on.estimate,
        "rank": lpp.rank({name: knl}, **where).estimates[name],
        "advise": (advice := lpp.advise(knl, **where)).estimate,
        "compare": next(iter(lpp.compare(knl, models=[estimate.model, "roofline"], **where).estimates.values())),
        "trace": (trace := lpp.trace(knl, events=1000, **where)).estimate,
    }
    if device.startswith("nvidia"):
        counters = lpp.counters(knl, **where)
        answers["counters"] = counters.estimate
        for launch, review in zip(counters.launches, on.diagnosis.launches, strict=True):
            active = launch["smsp__cycles_active.avg.pct_of_peak_sustained_elapsed"]
            assert active == pytest.approx(100 * review.balance)
            assert launch["launch__registers_per_thread"] == review.residents.registers
    for function, answer in answers.items():
        assert (answer.model, answer.seconds) == (estimate.model, estimate.seconds), function
        assert answer.interval == estimate.interval, function
    assert advice.diagnosis == on.diagnosis
    longer = {name: (size, 2 * size) if name == next(iter(sizes)) else size for name, size in sizes.items()}
    difference = lpp.diff(knl, **{**where, "parameters": longer})
    assert (difference.model, difference.before) == (estimate.model, estimate.seconds)
    first = {each.source: each.before for each in difference.lines}
    for cost in explanation.lines(on):
        assert first.get(cost.line.source, cost.seconds) == cost.seconds
    check_screen(explanation, on)
    heads = (on, advice, trace, lpp.compare(knl, models=[estimate.model, "roofline"], **where))
    assert all(on.estimate.time_in_words in each.report_text().head for each in heads)


def check_screen(explanation: lpp.Explanation, on: Any) -> None:
    """Check that no two numbers of an explanation's first screen contradict."""
    estimate, diagnosis, roofline = on.estimate, on.diagnosis, on.estimates["roofline"]
    seconds = float(estimate)
    assert (diagnosis.model, diagnosis.seconds) == (estimate.model, pytest.approx(seconds))
    assert sum(each.seconds for each in explanation.lines(on)) == pytest.approx(seconds)
    assert sum(each.seconds for each in diagnosis.launches) <= seconds * (1 + 1e-9)
    if estimate.interval is not None:
        low, high = estimate.interval
        assert low <= seconds <= high
        if low < min(seconds, float(roofline)) * (1 - 1e-9):
            assert estimate.columns == "counts", "counts do not know the roofline"
            assert "roofline: at least" not in str(on.report_text())
    for review in diagnosis.launches:
        bars = {each.name: each for each in shares_of_peak(review, diagnosis.words)}
        assert all(0 <= each.share <= 1 for each in bars.values())
        levels = {*review.traffic.moved, "atomics"}
        on_cores = [share for name, share in review.utilization.items() if name not in levels and name != ISSUE]
        assert max(on_cores, default=0.0) <= review.balance + 1e-9
        assert [each.binds for each in bars.values()].count(True) == (review.utilization[review.busiest] >= FULL)
        if review.waiting is not None and review.waiting.total:
            assert sum(review.waiting.total.values()) == pytest.approx(1)
    bound = diagnosis.cause.startswith("bound by") and ": busy for" in diagnosis.cause
    longest = diagnosis.longest
    assert not bound or longest.utilization[longest.busiest] >= FULL or longest.waiting is None
    executing = float(roofline) - sum(row.seconds for row in roofline.breakdown.rows if row.property in LAUNCHING)
    if len(diagnosis.launches) == 1:  # the busiest part is busy for as long as the roofline says
        busy = longest.utilization[longest.busiest] * longest.seconds
        assert busy == pytest.approx(min(executing, longest.seconds), rel=0.01) or longest.balance < 1
    assert all(each.seconds < seconds for each in diagnosis.findings if each.seconds is not None)
    assert 0 < seconds < inf


PAIRS = tuple(zip([*KERNELS][::2], cycle(DEVICES), strict=False))
"""every other kernel, on one device each"""


@pytest.mark.parametrize("pairs", [PAIRS, pytest.param(tuple(product(KERNELS, DEVICES)), marks=pytest.mark.slow)])
def test_functions_agree(subtests: pytest.Subtests, pairs: tuple[tuple[str, str], ...]):
    for name, device in pairs:
        with subtests.test(name=name, device=device):
            check(name, device)


def test_scaled_numbers_add_up_to_a_fit_of_counts():
    check("copy", "nvidia-h200", model="linear")


def test_devices_with_different_defaults_are_compared_by_device_parameters():
    found = lpp.diff(doubled(), n=2**20, device=["nvidia-v100", "nvidia-h200"])
    assert found.model == "pipeline"
    assert found.after == lpp.estimate(doubled(), n=2**20, device="nvidia-h200", model="pipeline").seconds


def validated(error: float) -> CrossValidation:
    """Return a cross-validation of a linear fit with this *error* on each of two classes."""
    errors = {"linear, plain": error}
    classes = tuple(ClassErrors(name, 4, 4, errors) for name in ("copies", "products"))
    return CrossValidation(classes, ("copies", "products"), errors)


@pytest.mark.parametrize(("error", "model"), [(0.1, "linear"), (0.2, "linear"), (0.3, "pipeline")])
def test_a_fit_worse_than_published_parameters_is_no_default(make_fit, own_data, error: float, model: str):
    fit = make_fit(slug="nvidia-v100", candidate="linear, plain", cross_validation=validated(error))
    save_fit(fit, own_data / "fits" / "nvidia-v100" / "linear.json")
    where = {"device": "nvidia-v100", "n": 4096}
    estimate = lpp.estimate(doubled(), **where)
    assert estimate.model == model
    assert ("30 % on held-out kernel classes" in estimate.notes[0]) == (model == "pipeline")
    answers = (lpp.explain(doubled(), **where).devices[0], lpp.advise(doubled(), **where))
    assert [each.estimate.seconds for each in answers] == [estimate.seconds] * 2
    assert lpp.estimate(doubled(), model="linear", **where).model == "linear"


PREDICTING = ("advise", "compare", "counters", "diff", "estimate", "explain", "rank", "report", "trace")


def test_options_of_models_mean_the_same_in_all_commands_and_functions(subtests: pytest.Subtests):
    shared = {"--model", "--fit", "--compiler", "--set", "--typical"}
    for name in PREDICTING:
        with subtests.test(name=name):
            options = {each.opts[0]: each for each in COMMANDS[name].params if isinstance(each, click.Option)}
            expected = {each.opts[0]: each for each in COMMANDS["explain"].params if isinstance(each, click.Option)}
            # `estimate` takes several sizes.
            same = shared - {"--set"} if name == "estimate" else shared
            assert {option: options[option].help for option in same} == {each: expected[each].help for each in same}
            assert {"model", "fit", "compiler", "device", "typical"} <= set(signature(getattr(lpp, name)).parameters)


def test_every_command_has_all_output_formats_and_quiet(subtests: pytest.Subtests):
    for name, command in COMMANDS.items():
        with subtests.test(name=name):
            options = {option: each for each in command.params for option in each.opts}
            assert options["--format"].type.choices == ("text", "json", "csv", "md")
            assert {"--json", "--quiet"} <= set(options)
