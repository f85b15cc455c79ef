"""Who says how long a variant takes: a model with all that it needs, to be sent to whoever asks it."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.learning.learned import Learned
from loopyperf.counts.quasipolynomial import engine_is_exact
from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice, a_processor, description_or_none
from loopyperf.device.names import is_processor
from loopyperf.device.occupancy import check_fits
from loopyperf.errors import ParameterError
from loopyperf.group_resources import Group, declared_group
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.models import MODELS, find_model
from loopyperf.models.interface import DeviceModel, SampledModel
from loopyperf.models.result import Estimate
from loopyperf.oracle.analysis import count, prepared_group
from loopyperf.oracle.choice import WITHOUT_FIT, FitChoice, chosen_device
from loopyperf.oracle.estimate import chosen_record, estimate
from loopyperf.oracle.ranking.options import check_sizes, check_typical
from loopyperf.oracle.ranking.outcome import LowerBound, Unanswered, refused
from loopyperf.oracle.ranking.sizes_taken import Sizes, sizes_lacking, sizes_taken
from loopyperf.oracle.ranking.variants import Variant
from loopyperf.oracle.throughput import throughput_bounds
from loopyperf.pipeline.machine_code import machine_code

SIMULATED = "pipeline"
"""the model that simulates each variant"""
THROUGHPUT = "throughput"
"""the bound that only counts (:func:`loopyperf.throughput_bounds`)"""

BOUNDS = (THROUGHPUT, "roofline")
"""models whose times are bounds of those of others, the cheapest first"""
BOUNDED = frozenset({"roofline", "volkov", "pipeline"})
"""models whose times these are bounds of: the busiest pipeline of a core is busy that long"""


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that is asked about one variant after the other."""

    model: str
    record: Fit | Learned | None
    """what it was fitted to; None for a model that knows the device"""
    device: Device | None
    """None where nobody has described it"""
    slug: str
    typical: Mapping[str, Any] | None
    sizes: Sizes
    said: tuple[str, ...] = ()
    """of the choice of the model, in sentences"""

    @property
    def limits(self) -> Device | None:
        """Return whose limits the groups of a variant have to keep, of processors PoCL's; None where none are known."""
        return self.device or (a_processor() if is_processor(self.slug) else None)

    @property
    def ready(self) -> Callable[[], object] | None:
        """Return what a worker does once before it is asked: the simulator becomes machine code, in seconds."""
        base = self.record.record.base if isinstance(self.record, Learned) else self.model
        return machine_code if base == SIMULATED else None

    def __call__(self, variant: Variant) -> Estimate | LowerBound | Unanswered:
        """Return how long *variant* takes, the seconds that it takes at least, or why nobody knows."""
        try:
            program = variant.program()
            taken = sizes_taken(program, self.sizes)
        except Exception as error:  # whatever goes wrong with one variant, the others are ranked
            return refused(error)
        try:
            self._check_fits(program)
        except Exception as error:
            return refused(error, taken)
        try:
            return self._time(program, taken)
        except Exception as error:
            lacks = sizes_lacking(program, taken) if isinstance(error, ParameterError) else frozenset[str]()
            return refused(error, taken, lacks, is_final=bool(lacks))

    def _time(self, program: Program, sizes: Sizes) -> Estimate | LowerBound:
        if self.model == THROUGHPUT:
            bounds = throughput_bounds(program, device=self.device, typical=self.typical)
            return LowerBound(bounds.at_least(**sizes), sizes)
        asked: dict[str, Any] = {"typical": self.typical, "alternatives": False, "parameters": sizes}
        if self.record is not None:
            return estimate(program, fit=self.record, **asked).without_sources()
        return estimate(program, model=self.model, device=self.device, **asked).without_sources()

    def _check_fits(self, program: Program) -> None:
        """Raise :class:`OccupancyError` for a *program* that the device cannot run."""
        limits = self.limits
        if limits is not None:
            check_fits(declared_group(as_translation_unit(program).default_entrypoint), limits)
            check_fits(self._prepared_group(program), limits)

    def _prepared_group(self, program: Program) -> Group:
        """Return what a group takes once Loopy has prepared *program*; counts say it too, which may be known already.

        So a program that was counted, or seen, before is not given to Loopy again.
        """
        if isinstance(self.record, Fit) and self.record.basis == "counts" and engine_is_exact():
            return count(program, self.record.counting, typical=self.typical).kernel.group
        return prepared_group(program)


def judge_of(
    model: str | None,
    device: DeviceChoice | None,
    fit: FitChoice | Learned | None,
    typical: Mapping[str, Any] | None,
    sizes: Sizes,
) -> Judge:
    """Return the judge that is meant; raises what :func:`loopyperf.estimate` raises for one that does not exist.

    Raises :class:`ParameterError` for sizes that are not integers, and for typical values that state nothing.
    """
    _check(model, device, fit)
    check_sizes(sizes)
    check_typical(typical)
    asked = None if model is None else find_model(model)
    if isinstance(asked, SampledModel):
        raise ParameterError(f"the model {model!r} runs each kernel, and ranking runs none: see Ranking.measure")
    if isinstance(asked, DeviceModel):
        if fit is not None:
            raise ParameterError(f"the model {asked.name!r} is not fitted: leave fit out, and name the device")
        chosen = chosen_device(device)
        return Judge(asked.name, None, chosen, chosen.slug, typical, sizes)
    record, said = chosen_record(asked, device, fit)
    if isinstance(record, Device):
        return Judge(WITHOUT_FIT, None, record, record.slug, typical, sizes, said)
    if isinstance(record, Learned):
        origin = record.record
        return Judge(origin.model, record, description_or_none(origin.slug), origin.slug, typical, sizes)
    slim = structs.replace(record, residuals=(), coverage=(), cross_validation=None)
    return Judge(record.model, slim, description_or_none(record.slug), record.slug, typical, sizes, said)


def _check(model: object, device: object, fit: object) -> None:
    """Raise :class:`ParameterError` for options of other types than :func:`loopyperf.estimate` takes."""
    for option, what, value, types in (
        ("model", "a name", model, str),
        ("device", "a name", device, (str, os.PathLike, Device)),
        ("fit", "a fit, a learned model, or the path of one", fit, (str, os.PathLike, Fit, Learned)),
    ):
        if value is not None and not isinstance(value, types):
            raise ParameterError(f"{option} is {what}, received {value!r:.80}")


def bound_of(judge: Judge, name: str) -> "Judge":
    """Return who says how long a variant takes at least: *name* is one of :data:`BOUNDS`.

    Raises :class:`ParameterError` for another name, and where the judge's device is not described.
    """
    if name not in BOUNDS:
        what = "is a model, but not a bound of others" if name in MODELS else "is unknown"
        raise ParameterError(f"there is no bound {name!r}, which {what}; there are: {', '.join(BOUNDS)}")
    if judge.device is None:
        raise ParameterError(f"bounds need a description of the device, and {judge.slug!r} has none: leave them out")
    return replace(judge, model=name, record=None)


def said_of_bounds(judge: Judge, bounds: Sequence[str]) -> tuple[str, ...]:
    """Return, where *bounds* are not known to be bounds of the model's times, that they are not."""
    if not bounds or judge.model in BOUNDED:
        return ()
    return (
        f"{' and '.join(map(repr, bounds))} need not be bounds of {judge.model!r}: some that were left out may be "
        "faster by it",
    )
