"""Why is this kernel slow, and what would help? GPUPerf's advisor, as users ask for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from loopyperf.device.library import DeviceChoice
from loopyperf.kernel import Program
from loopyperf.models.literature.advice import Advice, advice_on
from loopyperf.predict.case import Case, merged_sizes
from loopyperf.predict.choice import chosen_device
from loopyperf.predict.stages import timed_kernel
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
    merged = merged_sizes(parameters, sizes)
    kernel = timed_kernel(Case(program, merged, typical), described)
    launches = tuple(advice_on(launch) for launch in kernel.launches)
    return AdviceOnKernel(kernel.kernel, dict(merged), described.slug, launches, dict(typical or {}))
