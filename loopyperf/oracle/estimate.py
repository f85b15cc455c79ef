"""How long will this kernel take? :func:`estimate` finds the fit, counts the kernel and asks the model."""

import os
from collections.abc import Mapping
from typing import Any

from loopyperf.calibration.fits import Fit
from loopyperf.calibration.indistinguishable import doubts
from loopyperf.counts.execution import Counting
from loopyperf.errors import ParameterError
from loopyperf.models import model_card
from loopyperf.models.linear import Shares, linear_time
from loopyperf.models.result import Estimate
from loopyperf.oracle.analysis import Program, count_at
from loopyperf.oracle.choice import chosen_fit
from loopyperf.properties.counted_kernel import KernelCounts

DEFAULT_MODEL = "linear"


def estimate(
    program: Program,
    *,
    device: str | None = None,
    model: str = DEFAULT_MODEL,
    fit: Fit | str | os.PathLike[str] | None = None,
    counting: Counting | None = None,
    parameters: Mapping[str, Any] | None = None,
    **sizes: Any,
) -> Estimate:
    """Return how long *program* runs at *sizes*, in seconds, with the reason why, without running it.

    Sizes are the kernel's integer parameters as keywords; one that collides with an option goes through *parameters*.
    Arrays of sizes broadcast together and give arrays of seconds. *fit* is a fit or the path of one; without it the
    fit of *model* for *device* is looked up (see :func:`loopyperf.oracle.choice.chosen_fit`). *counting* is the fit's
    own unless stated.

    Raises :class:`UnknownModelError`, :class:`UnknownDeviceError`, :class:`FitFileError`, :class:`KernelError`,
    :class:`UncountableError` and :class:`ParameterError`, each saying what to do.
    """
    card = model_card(model)
    weights = fit if isinstance(fit, Fit) else chosen_fit(card.name, device, fit)
    merged = _merged(parameters, sizes)
    return estimate_counted(count_at(program, counting or weights.counting, merged), weights, merged)


def estimate_counted(counted: KernelCounts, fit: Fit, sizes: Mapping[str, Any]) -> Estimate:
    """Return how long a counted kernel runs at *sizes* on the device of *fit*; see :func:`estimate`."""
    shares = _shares(counted, sizes)
    answer = linear_time(fit.weights, shares)
    return Estimate(
        kernel=counted.kernel.name,
        sizes=dict(sizes),
        device=fit.slug,
        model=fit.model,
        counting=counted.counting,
        seconds=answer.seconds,
        breakdown=answer.breakdown,
        notes=tuple(_notes(counted, fit, answer.unfitted, shares)),
    )


def _merged(parameters: Mapping[str, Any] | None, sizes: Mapping[str, Any]) -> dict[str, Any]:
    twice = sorted(set(parameters or {}) & set(sizes))
    if twice:
        raise ParameterError(f"size {', '.join(twice)} is given twice, as a keyword and in parameters")
    return {**(parameters or {}), **sizes}


def _shares(counted: KernelCounts, sizes: Mapping[str, Any]) -> Shares:
    """Return the counts by property and source at one size; by property alone in a batch."""
    if any(hasattr(size, "shape") and size.shape for size in sizes.values()):
        return {name: {"": counts} for name, counts in counted.properties().evaluate(**sizes).items()}
    return counted.shares(sizes)


def _notes(counted: KernelCounts, fit: Fit, unfitted: tuple[str, ...], shares: Shares) -> list[str]:
    explained = {name for group in fit.undetermined for name in group.left_out}
    notes = [f"no weight for {name!r} in the fit: taken as free" for name in unfitted if name not in explained]
    totals = {name: sum(parts.values()) for name, parts in shares.items()}
    if not any(hasattr(total, "shape") for total in totals.values()):
        notes.extend(doubts(fit.undetermined, totals))
    if counted.counting != fit.counting:
        notes.append(f"the fit was made with the {fit.counting!r} counting, this is the {counted.counting!r} counting")
    return notes
