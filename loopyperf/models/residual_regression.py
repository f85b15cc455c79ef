"""The learned model: what another model leaves over is learned from kernels that were measured (Dao, section 5.2).

    T = T₀ · exp(f(x)),        f learned from ln(t / T₀) of measured kernels

t is the measured time, T₀ the time of the base: the sampled model, or where nothing is run a fit or a model of the
device. x are features of the kernel. f is an ε-SVR, or boosters of trees beside it.

Of the sampled model it is Dao's equation. With I instructions in the first P₂ of N groups and the throughputs IPS₀ of
the linear model and IPS of the saturated device, which is learned relative to IPS₀,

    t_ML(N) = I·N / (P₂·IPS),        IPS = IPS₀ · exp(-f(x)),        IPS₀ = I·N / (P₂·t_linear(N))

so that I cancels. Learned so, where the training set has nothing alike (an SVR tends to a constant there) the answer is
near that of the base, and not near the mean throughput of all kernels.

D. Dao, J. Kim, S. Seo, B. Egger, J. Lee: "A Performance Model for GPUs with Caches", IEEE TPDS 26(7), 2015;
docs/errata.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log1p

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ModelInputError
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime, adding_up
from loopyperf.models.sampling import SampledProgram, Samples, extrapolated

# {{{ what a learned model is told of a kernel: numbers by name
#
# Some every kernel has, as its ILP; of others a kernel may have nothing, as of barriers, and then they are 0. Neither
# names a kernel, an array, an instruction of it, or a transformation: what is learned is to hold for other kernels.


TICK = 1e-9
"""seconds that logarithms of times are relative to"""
DIGITS = 9
"""significant ones that are kept of a number"""


@dataclass(frozen=True, slots=True)
class Features:
    """A kernel as a learned model sees it. Raises :class:`ModelInputError` for a number that is not finite."""

    told: Mapping[str, float]
    """those that every kernel has"""
    amounts: Mapping[str, float] = field(default_factory=dict[str, float])
    """those of which it may have none; an absent one is 0"""

    def __post_init__(self) -> None:
        """Refuse values that are not finite."""
        for name, value in (*self.told.items(), *self.amounts.items()):
            if not np.isfinite(value):
                raise ModelInputError(f"the feature {name!r} is {value}: a feature must be a finite number")

    def __or__(self, other: "Features") -> "Features":
        """Return both together."""
        return Features({**self.told, **other.told}, {**self.amounts, **other.amounts})

    def vector(self, told: Sequence[str], amounts: Sequence[str]) -> NDArray[np.float64]:
        """Return the features called *told*, then those called *amounts*, in this order.

        Raises :class:`ModelInputError` if one of those is missing that every kernel has.
        """
        missing = [name for name in told if name not in self.told]
        if missing:
            raise ModelInputError(
                f"the learned model asks for the features {', '.join(missing)}, which the kernel comes without; give "
                "what the model was trained with: the device's description, and samples if it saw samples"
            )
        values = [*(self.told[name] for name in told), *(self.amounts.get(name, 0.0) for name in amounts)]
        return np.array(values, dtype=np.float64)

    def rounded(self) -> "Features":
        """Return the features with as many digits as a file keeps, so that trained and asked ones are the same."""
        return Features(_rounded(self.told), _rounded(self.amounts))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


# }}}


# {{{ learned


CORRECTION = "learned correction"
"""the row of what is learned: seconds more than the base says, or less"""


def corrected(base: ModelTime, logarithm: float) -> ModelTime:
    """Return the time of *base* at one size times exp(*logarithm*), with a row for what that adds."""
    more = float(base.seconds) * (exp(logarithm) - 1)
    row = BreakdownRow(CORRECTION, "kernel", 1, more, more)
    seconds, parts = adding_up([*(each.seconds for each in base.breakdown.rows), more])
    rows = [
        BreakdownRow(each.property, each.source, each.count, each.weight, part)
        for each, part in zip((*base.breakdown.rows, row), parts, strict=True)
    ]
    return replace(base, seconds=seconds, breakdown=Breakdown(tuple(rows)), interval=None)


def sampled_features(programs: Sequence[SampledProgram], instructions: float) -> Features:
    """Return what samples of a kernel's *programs* tell; of several, each counts by its share of the time.

    *instructions* are those of all warps. Raises :class:`ModelInputError` where there are no samples, or a single one
    of a program that is not the whole launch.
    """
    if not programs:
        raise ModelInputError("a learned model that corrects the sampled one sees samples: give some of each launch")
    linear = [extrapolated(each).seconds for each in programs]
    told: dict[str, float] = {}
    for program, seconds in zip(programs, linear, strict=True):
        for name, value in _of_samples(program.samples):
            told[name] = told.get(name, 0.0) + value * seconds / sum(linear)
    return Features({**told, "throughput of the linear model": log1p(instructions / sum(linear))})


def _of_samples(samples: Samples) -> Iterator[tuple[str, float]]:
    many, long = samples.groups[-1], samples.seconds[-1]
    yield "saturation", log1p(samples.saturation)
    yield "runs sampled", many / samples.saturation
    yield "runs of the device", log1p(samples.total_groups / samples.saturation)
    yield "share sampled", many / samples.total_groups
    yield "seconds of a run", log1p(long / many * samples.saturation / TICK)
    # What a group more takes, over what a group takes on average: 1 where nothing is begun or warmed up.
    growth = 1.0
    if len(samples.groups) > 1:
        growth = (long - samples.seconds[-2]) / (many - samples.groups[-2]) * many / long
    yield "growth", growth


# }}}
