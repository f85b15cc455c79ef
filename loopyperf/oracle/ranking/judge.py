"""Who says how long a variant takes: a model with all that it needs, to be sent to whoever asks it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.learned import Learned
from loopyperf.counts.quasipolynomial import engine_is_exact
from loopyperf.device.description import Device
from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.group import Group, declared_group
from loopyperf.kernel import Program, as_translation_unit
from loopyperf.models import DEVICE_MODELS, find_model
from loopyperf.models.interface import DeviceModel, SampledModel
from loopyperf.models.result import Estimate
from loopyperf.oracle.analysis import count, prepared_group
from loopyperf.oracle.choice import DeviceChoice, FitChoice, chosen_device
from loopyperf.oracle.estimate import chosen_record, estimate
from loopyperf.oracle.observation import described
from loopyperf.oracle.ranking.answer import Unanswered
from loopyperf.oracle.ranking.feasibility import check_fits
from loopyperf.oracle.ranking.variants import Variant
from loopyperf.oracle.throughput import throughput_bounds
from loopyperf.pipeline.machine_code import machine_code

SIMULATED = "pipeline"
"""the model that simulates each variant"""
THROUGHPUT = "throughput"
"""the bound that only counts (:func:`loopyperf.throughput_bounds`)"""

Sizes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judge:
    """A model that is asked about one variant after the other."""

    model: str
    record: Fit | Learned | None
    """what it was fitted to; None for a model that knows the device"""
    device: Device | None
    """whose limits a variant has to keep; None where nobody has described it"""
    slug: str
    typical: Mapping[str, Any] | None
    sizes: Sizes

    @property
    def ready(self) -> Callable[[], object] | None:
        """Return what a worker does once before it is asked: the simulator becomes machine code, in seconds."""
        base = self.record.record.base if isinstance(self.record, Learned) else self.model
        return machine_code if base == SIMULATED else None

    def __call__(self, variant: Variant) -> Estimate | float | Unanswered:
        """Return how long *variant* takes, the seconds that it takes at least, or why nobody knows."""
        try:
            program = self._checked(variant)
            if self.model == THROUGHPUT:
                return throughput_bounds(program, device=self.device, typical=self.typical).at_least(**self.sizes)
            if self.record is not None:
                found = estimate(
                    program, fit=self.record, typical=self.typical, alternatives=False, parameters=self.sizes
                )
            else:
                found = estimate(
                    program,
                    model=self.model,
                    device=self.device,
                    typical=self.typical,
                    alternatives=False,
                    parameters=self.sizes,
                )
            return found.without_sources()
        except Exception as error:  # whatever goes wrong with one variant, the others are ranked
            return _refused(error)

    def _checked(self, variant: Variant) -> Program:
        """Return the program; raises :class:`OccupancyError` for one that the device cannot run."""
        program = variant.program()
        if self.device is not None:
            check_fits(declared_group(as_translation_unit(program).default_entrypoint), self.device)
            check_fits(self._prepared_group(program), self.device)
        return program

    def _prepared_group(self, program: Program) -> Group:
        """Return what a group takes once Loopy has prepared *program*; counts say it too, which may be known already.

        So a program that was counted, or seen, before is none of Loopy's business.
        """
        if isinstance(self.record, Fit) and self.record.basis == "counts" and engine_is_exact():
            return count(program, self.record.counting, typical=self.typical).kernel.group
        return prepared_group(program)


def _refused(error: Exception) -> Unanswered:
    """Return *error* in words; what is not an error of ours has its name before it."""
    said = " ".join(str(error).split())
    return Unanswered(said if isinstance(error, LoopyperfError) else f"{type(error).__name__}: {said}")


def judge_of(
    model: str | None,
    device: DeviceChoice | None,
    fit: FitChoice | Learned | None,
    typical: Mapping[str, Any] | None,
    sizes: Sizes,
) -> Judge:
    """Return the judge that is meant; raises what :func:`loopyperf.estimate` raises for one that does not exist."""
    asked = None if model is None else find_model(model)
    if isinstance(asked, SampledModel):
        raise ParameterError(f"the model {model!r} runs each kernel, and ranking runs none: see Ranking.measure")
    if isinstance(asked, DeviceModel):
        if fit is not None:
            raise ParameterError(f"the model {asked.name!r} is not fitted: leave fit out, and name the device")
        chosen = chosen_device(device)
        return Judge(asked.name, None, chosen, chosen.slug, typical, sizes)
    record = chosen_record(asked, device, fit)
    if isinstance(record, Learned):
        origin = record.record
        return Judge(origin.model, record, described(origin.slug), origin.slug, typical, sizes)
    slim = structs.replace(record, residuals=(), coverage=(), cross_validation=None)
    return Judge(record.model, slim, described(record.slug), record.slug, typical, sizes)


def bound_of(judge: Judge, name: str) -> "Judge":
    """Return who says how long a variant takes at least: *name* is that of a model, or :data:`THROUGHPUT`.

    Raises :class:`ParameterError` for another name, and where the judge's device is not described.
    """
    if name != THROUGHPUT and name not in DEVICE_MODELS:
        raise ParameterError(f"there is no bound {name!r}; there are: {', '.join((THROUGHPUT, *DEVICE_MODELS))}")
    if judge.device is None:
        raise ParameterError(f"bounds need a description of the device, and {judge.slug!r} has none: leave them out")
    return Judge(name, None, judge.device, judge.slug, judge.typical, judge.sizes)
