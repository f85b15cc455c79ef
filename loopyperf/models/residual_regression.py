"""The residual model ``"learned"``: a regression on measured kernels corrects a base model (Dao, section 5.2).

    T = T₀ · exp(f(x)),        f learned from ln(t / T₀) of measured kernels

t is the measured time, T₀ the time of the base: the sampled model, or without samples a fit or a device model. x are
features of the kernel. f is an ε-SVR.

With the sampled model as base it is Dao's equation. With I instructions in the first P₂ of N groups and the throughputs
IPS₀ of the linear model and IPS of the saturated device, which is learned relative to IPS₀,

    t_ML(N) = I·N / (P₂·IPS),        IPS = IPS₀ · exp(-f(x)),        IPS₀ = I·N / (P₂·t_linear(N))

so that I cancels. Because the residual is learned, a kernel unlike all training kernels (where an SVR tends to a
constant) gets nearly the prediction of the base, not nearly the mean throughput of all kernels.

D. Dao, J. Kim, S. Seo, B. Egger, J. Lee: "A Performance Model for GPUs with Caches", IEEE TPDS 26(7), 2015;
docs/errata.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log1p

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ModelInputError
from loopyperf.models.result import Breakdown, BreakdownRow, ModelTime
from loopyperf.models.sampling import SampledProgram, Samples, extrapolated

# {{{ features of a kernel: numbers by name
#
# Every kernel has some features, such as its ILP; other features are amounts that may be absent, such as barriers, and
# are 0 then. No feature names a kernel, an array, an instruction or a transformation: the regression must generalize to
# other kernels.


TICK = 1e-9
"""Unit of times in logarithms, in seconds."""
DIGITS = 9
"""Number of significant digits of a feature."""


@dataclass(frozen=True, slots=True)
class Features:
    """Features of a kernel for the regression; raises :class:`ModelInputError` if one is not finite."""

    told: Mapping[str, float]
    """Features that every kernel has."""
    amounts: Mapping[str, float] = field(default_factory=dict[str, float])
    """Features that may be absent; an absent one is 0."""

    def __post_init__(self) -> None:
        """Check that all values are finite."""
        for name, value in (*self.told.items(), *self.amounts.items()):
            if not np.isfinite(value):
                raise ModelInputError(f"feature {name!r} must be finite, got {value}")

    def __or__(self, other: "Features") -> "Features":
        """Return the union of both."""
        return Features({**self.told, **other.told}, {**self.amounts, **other.amounts})

    def vector(self, told: Sequence[str], amounts: Sequence[str]) -> NDArray[np.float64]:
        """Return the features named *told*, then those named *amounts*, in this order.

        :raises ModelInputError: if a feature in *told* is missing.
        """
        missing = [name for name in told if name not in self.told]
        if missing:
            raise ModelInputError(
                f"the kernel lacks the features {', '.join(missing)} of the residual model; pass the inputs of "
                "the training: device parameters, and samples if it was trained with samples"
            )
        values = [*(self.told[name] for name in told), *(self.amounts.get(name, 0.0) for name in amounts)]
        return np.array(values, dtype=np.float64)

    def rounded(self) -> "Features":
        """Return the features with the digits that a file keeps, so that training and prediction agree."""
        return Features(_rounded(self.told), _rounded(self.amounts))


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in values.items()}


# }}}


# {{{ correction


CORRECTION = "learned correction"
"""Breakdown row of the correction: seconds added to the base, or negative ones."""


def corrected(base: ModelTime, logarithm: float) -> ModelTime:
    """Return *base*, a time of one size, multiplied by exp(*logarithm*), with a row for the difference."""
    more = float(base.seconds) * (exp(logarithm) - 1)
    row = BreakdownRow(CORRECTION, "kernel", 1, more, more)
    breakdown = Breakdown((*base.breakdown.rows, row))
    return replace(base, seconds=breakdown.seconds, breakdown=breakdown, interval=None)


def sampled_features(programs: Sequence[SampledProgram], instructions: float) -> Features:
    """Return the features of the samples of a kernel's *programs*, weighted by their shares of the time.

    *instructions* are those of all warps.

    :raises ModelInputError: if there are no samples, or only one of a program that is not the whole launch.
    """
    if not programs:
        raise ModelInputError("a residual model with base 'sampled' needs samples; pass samples of each launch")
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
    # Time of a further group over the mean time of a group: 1 without start-up or warm-up costs.
    growth = 1.0
    if len(samples.groups) > 1:
        growth = (long - samples.seconds[-2]) / (many - samples.groups[-2]) * many / long
    yield "growth", growth


# }}}
