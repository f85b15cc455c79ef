"""Why is this kernel slow, and what would help? GPUPerf's advisor, as users ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, overload

from loopyperf.device.description import Device
from loopyperf.device.library import DeviceChoice
from loopyperf.kernel import Program
from loopyperf.models.literature.advice import Advice, Benefit, advice_on
from loopyperf.models.literature.gpuperf import Analysis, Inputs, Parameters
from loopyperf.pipeline.timed_program import TimedProgram
from loopyperf.predict.cache.recent import Kind, kind_of_json
from loopyperf.predict.case import Case, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.stages import found_on_device
from loopyperf.sheet import Sheet, Shown, Table, called
from loopyperf.units import duration


@dataclass(frozen=True, slots=True, repr=False)
class AdviceOnKernel(Shown, Sequence[Advice]):
    """The advice on each launch of a kernel, in the order of the program: a sequence of :class:`Advice`."""

    kernel: str
    """name of the kernel"""
    sizes: Mapping[str, Any]
    """values of its parameters, by name"""
    device: str
    """short name of the device, e.g. ``"nvidia-v100"``"""
    launches: tuple[Advice, ...]
    """one for each device program, in the order of the program"""
    typical: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """what was stated of what the source does not tell"""

    @overload
    def __getitem__(self, place: int) -> Advice: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Advice, ...]: ...
    def __getitem__(self, place: int | slice) -> Advice | tuple[Advice, ...]:
        """Return the advice at *place*, or those there."""
        return self.launches[place]

    def __len__(self) -> int:
        """Return how many launches there are."""
        return len(self.launches)

    def sheet(self) -> Sheet:
        """Return what may be gained of each launch, and what to try."""
        rows = [(each.launch, each.bound, *gain) for each in self.launches for gain in each.gains()]
        return Sheet(
            asked=f"{called(self.kernel, self.sizes, self.typical)} on {self.device}, by GPUPerf",
            answer=duration(sum(each.seconds for each in self.launches)),
            tables=[Table(("launch", "bound", "what would help", "", "at most"), rows, text=4)],
            remarks=self._remarks(),
        )

    def _remarks(self) -> Sequence[str]:
        """Return what to try of a lone launch; of several, where it is: their own advice says what to try."""
        if len(self.launches) == 1:
            return self.launches[0].what_to_try()
        where = [sentence for each in self.launches for benefit in each.worth for sentence in benefit.evidence]
        return [*dict.fromkeys(where), "the advice on each launch says what to try: advice[0] for the first"]


def advise(
    program: Program,
    /,
    *,
    device: DeviceChoice | None = None,
    typical: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> AdviceOnKernel:
    """Return for each launch of *program* where its time goes and what may be gained, in seconds, and what to try.

    There is an :class:`Advice` for each launch, in the order of the program. Sizes are single integers; other options
    are those of :func:`loopyperf.estimate` with a model of a device.

    Raises :class:`KernelError`, :class:`UncountableError`, :class:`ParameterError`, :class:`UnknownDeviceError`,
    :class:`MissingNumberError` and :class:`OccupancyError` as :func:`loopyperf.estimate` does. Source: Sim, section 3.
    """
    described = chosen_device(device)
    case = Case(program, merged_sizes(parameters, sizes), typical)
    kernel, launches = advice_at(case, described)
    return AdviceOnKernel(kernel, dict(case.sizes), described.slug, launches, dict(typical or {}))


Number = int | float
_Written = tuple[str, Number, dict[str, Number], dict[str, Number], tuple[Benefit, ...], tuple[str, ...]]
ADVICE: Kind[tuple[str, tuple[_Written, ...]]] = kind_of_json("advice", 256, tuple[str, tuple[_Written, ...]])
"""the kernel's name, and the fields of each advice; of its analysis, the inputs that are stated and the parameters"""


def advice_at(case: Case, device: Device) -> tuple[str, tuple[Advice, ...]]:
    """Return the name of the kernel of *case*, and the advice on each of its launches; see :func:`advise`."""
    kernel, launches = found_on_device(ADVICE, case, device, _written)
    return kernel, tuple(
        Advice(launch, clock, Analysis(Inputs(**inputs), Parameters(**parameters)), benefits, scattered)
        for launch, clock, inputs, parameters, benefits, scattered in launches
    )


def _written(kernel: TimedProgram) -> tuple[str, tuple[_Written, ...]]:
    return kernel.kernel, tuple(
        (
            each.launch,
            each.clock,
            {name: number for name, number in asdict(each.analysis.inputs).items() if number is not None},
            asdict(each.analysis.parameters),
            each.benefits,
            each.scattered,
        )
        for each in map(advice_on, kernel.launches)
    )
