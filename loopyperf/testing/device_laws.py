"""Laws of every device."""

import math
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loopyperf.device.description import AnyPart, Device
from loopyperf.device.device_files import SUFFIX, description_text, device_slug, load_description
from loopyperf.device.occupancy import occupancy
from loopyperf.device.parts import base_unit
from loopyperf.device.substitutes import completed, lacking
from loopyperf.display import called
from loopyperf.errors import LoopyperfError, MissingNumberError, OccupancyError
from loopyperf.models.catalog import DEVICE_MODELS
from loopyperf.predict.estimate import predictor
from loopyperf.testing.predictor_laws import Check, broken_laws, check_all, example_program, law_in_words


def device_checks(device: Device) -> tuple[Check, ...]:
    """Return the laws of devices, each as a check of *device*."""
    return tuple(Check(law_in_words(law), device.slug, partial(law, device)) for law in DEVICE_LAWS)


def check_device(device: Device) -> None:
    """Check that *device* obeys the laws of devices; raises :class:`AssertionError` with all violated laws."""
    check_all(device_checks(device))


PUBLISHED = 0.02
"""Relative tolerance of published peaks: two digits (33.45 Tflop/s are published as 34 for an H200)."""
REGISTERS = 255
"""Maximum registers of a work-item if the device parameters give none."""


def _the_slug_is_valid(device: Device) -> Iterator[str]:
    if device.slug != device_slug(device.slug):
        yield broken_laws("slug", device.slug, device_slug(device.slug))


def _numbers_are_in_range(device: Device) -> Iterator[str]:
    for part in device.parts:
        for name, number in part.declared().items():
            value = getattr(part, name)
            least = ">= 0" if number.may_be_zero else "> 0"
            if value is None:
                continue
            if not math.isfinite(value) or value < 0 or (value == 0 and not number.may_be_zero):
                yield broken_laws(_place(part, name), value, f"a finite number {least} in {number.unit}")
            elif number.is_whole and value != int(value):
                yield broken_laws(_place(part, name), value, f"a whole number of {number.unit}")


def _numbers_have_their_unit_and_a_source(device: Device) -> Iterator[str]:
    for part in device.parts:
        for name, quantity in part.known():
            unit = part.declared()[name].unit
            if base_unit(quantity.unit) != unit or not quantity.source:
                received = f"{quantity} from {quantity.source!r}"
                yield broken_laws(_place(part, name), received, f"a number in {unit} with a source")


def _an_instruction_completes_no_sooner_than_the_next_may_issue(device: Device) -> Iterator[str]:
    for each in device.instructions:
        if each.issue is not None and each.completion is not None and each.completion < each.issue:
            yield broken_laws(each.place, f"Λ = {each.completion} cycles", f">= λ = {each.issue} cycles")


def _farther_memory_levels_are_slower_and_larger(device: Device) -> Iterator[str]:
    for name in ("latency", "size"):
        known = [(level.name, value) for level in device.memory if (value := getattr(level, name)) is not None]
        for (near, one), (far, other) in pairwise(known):
            if other < one:
                yield broken_laws(f"memory.{far}.{name}", other, f">= {one}, that of {near}")


def _no_memory_is_measured_faster_than_its_published_peak(device: Device) -> Iterator[str]:
    for level in device.memory:
        peak, measured = level.bandwidth, level.sustained_bandwidth
        if peak is not None and measured is not None and measured > peak:
            yield broken_laws(_place(level, "sustained_bandwidth"), f"{measured} B/s", f"at most {peak} B/s")


def _published_peaks_are_cores_times_clock_times_throughput(device: Device) -> Iterator[str]:
    for dtype in ("f32", "f64"):
        peak = getattr(device, f"peak_{dtype}")
        try:
            expected = device.peak_flops(dtype)
        except MissingNumberError:
            continue
        if peak is not None and not math.isclose(peak, expected, rel_tol=PUBLISHED):
            yield broken_laws(f"peak_{dtype}", f"{peak} flop/s", f"{expected} flop/s")


def _measured_single_precision_is_no_faster_than_the_units(device: Device) -> Iterator[str]:
    # Not in double precision: Lemeire has 7.5 cycles on the K620 for 32/4 = 8, and 8 on the R9 380 for 64/4 = 16.
    for kind, results in (("mul", device.throughput.f32), ("special", device.throughput.special)):
        if results is not None and device.warp_size is not None:
            received, least = device.issue_latency(kind, "f32"), device.warp_size / results
            if received < least:
                yield broken_laws(f"{kind} f32", f"λ = {received} cycles", f"at least {least} cycles")


def _a_core_has_room_for_the_largest_group(device: Device) -> Iterator[str]:
    if lacking(device):
        return
    whole, (work_items, registers, local_memory) = completed(device), largest_group(device)
    for group in ((work_items, 16, 0), (warp := whole.needed("warp_size"), registers, 0), (warp, 1, local_memory)):
        try:
            occupancy(whole, *group)
        except OccupancyError as error:
            yield broken_laws("its limits", str(error), "room for one group, because no request exceeds its limit")


def _a_description_survives_a_round_trip(device: Device) -> Iterator[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{device.slug}{SUFFIX}")
        try:
            path.write_text(description_text(device), encoding="utf-8")
            again = load_description(path)
        except LoopyperfError as error:
            yield broken_laws("description_text", repr(error), "text that load_description reads")
            return
    for what, received in (("text", again), ("pickle", pickle.loads(pickle.dumps(device)))):
        if _as_published(received) != _as_published(device):
            differing = set(received.statements) ^ set(device.statements)
            yield broken_laws(f"as {what}", differing or received, "the original")


def _models_predict_or_name_missing_parameters(device: Device) -> Iterator[str]:
    for model in DEVICE_MODELS:
        question = f"{called('scaled', {'length': 1000})}, model {model}"
        try:
            seconds = float(predictor(device=device, model=model)(example_program("scaled"), length=1000))
        except MissingNumberError as error:
            if not lacking(device):
                yield broken_laws(question, repr(error), "an estimate, because no required parameter is missing")
            continue
        if not (math.isfinite(seconds) and seconds > 0):
            yield broken_laws(question, f"{seconds} s", "finite seconds > 0")


DEVICE_LAWS: tuple[Callable[[Device], Iterator[str]], ...] = (
    _the_slug_is_valid,
    _numbers_are_in_range,
    _numbers_have_their_unit_and_a_source,
    _an_instruction_completes_no_sooner_than_the_next_may_issue,
    _farther_memory_levels_are_slower_and_larger,
    _no_memory_is_measured_faster_than_its_published_peak,
    _published_peaks_are_cores_times_clock_times_throughput,
    _measured_single_precision_is_no_faster_than_the_units,
    _a_core_has_room_for_the_largest_group,
    _a_description_survives_a_round_trip,
    _models_predict_or_name_missing_parameters,
)


def _place(part: AnyPart, name: str) -> str:
    return ".".join(filter(None, (part.place, name)))


def _as_published(device: Device) -> Device:
    """Return *device* with each number as a quantity with its source, as in a device file."""

    def stated(part: Any) -> Any:
        return part.stating(**dict(part.known()))

    return replace(
        stated(device),
        limits=stated(device.limits),
        throughput=stated(device.throughput),
        memory=tuple(map(stated, device.memory)),
        instructions=tuple(map(stated, device.instructions)),
    )


def largest_group(device: Device) -> tuple[int, int, int]:
    """Return the most work-items, registers per work-item, and bytes of local memory of a group."""
    limits = completed(device).limits
    work_items = limits.work_items_per_group or completed(device).needed("warp_size")
    local_memory = limits.local_memory_per_group or limits.needed("local_memory")
    return work_items, limits.registers_per_work_item or REGISTERS, local_memory
