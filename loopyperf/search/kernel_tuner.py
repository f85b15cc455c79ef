"""Kernel Tuner (van Werkhoven, FGCS 90, 2019) with our order of measurements: a strategy for its ``tune_kernel``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loopyperf.errors import LoopyperfError
from loopyperf.search.space import spaced
from loopyperf.search.tuner import Candidates, Tuner, coordinates, parts_of

FAILED = 1e30
"""cost from which a configuration counts as failed; Kernel Tuner returns the largest float"""


class KernelTunerStrategy:
    """Measure the configurations that are predicted to be fastest first, and correct predictions by measurements.

    Pass it in ``kernel_tuner.strategies.wrapper.OptAlgWrapper`` as ``strategy=`` to ``kernel_tuner.tune_kernel``, which
    calls it with its cost function and search space. It ends when no configuration is likely to be faster by more than
    *regret*, or with Kernel Tuner's own budget.

    Parameters
    ----------
    predict : callable
        Takes the tuning parameters of a configuration by name, and returns its predicted seconds, e.g. an
        :class:`Estimate`. A configuration for which it raises :class:`LoopyperfError` is measured last.
    regret, probability : float
        As in :func:`loopyperf.tune`.
    unit : float
        Seconds per unit of the cost; Kernel Tuner's times are in milliseconds.
    """

    costfunc_kwargs: Mapping[str, object] = {"scaling": False, "snap": False}
    """options of Kernel Tuner's cost function: configurations are passed as they are"""

    def __init__(
        self,
        predict: Callable[[Mapping[str, Any]], Any],
        *,
        regret: float = 0.02,
        probability: float = 0.9,
        unit: float = 1e-3,
    ) -> None:
        """Store the options."""
        self.predict, self.regret, self.probability, self.unit = predict, regret, probability, unit

    def __call__(self, func: Callable[[Sequence[Any]], float], searchspace: Any) -> tuple[tuple[Any, ...], float]:
        """Return the best configuration and its cost; Kernel Tuner ends it by an exception if its budget is spent."""
        space = spaced({name: list(values) for name, values in searchspace.tune_params.items()})
        configurations = [tuple(each) for each in searchspace.list]
        choices = [dict(zip(space.choices, configuration, strict=True)) for configuration in configurations]
        estimates = [self._predicted(choice) for choice in choices]
        known = [float(estimate) for estimate in estimates if estimate is not None]
        slowest = max(known, default=1.0)
        candidates = Candidates.of(
            [slowest if estimate is None else float(estimate) for estimate in estimates],
            coordinates(space, map(space.number_of, choices)),
            [parts_of(estimate) for estimate in estimates],
        )
        tuner = Tuner(candidates, self.regret, self.probability)
        costs: dict[int, float] = {}
        while (index := tuner.ask()) is not None and tuner.remaining_regret() > self.regret:
            cost = costs[index] = float(func(configurations[index]))
            tuner.tell(index, cost * self.unit if 0 < cost < FAILED else None)
        best = min(costs, key=costs.__getitem__)
        return configurations[best], costs[best]

    def _predicted(self, choice: Mapping[str, Any]) -> Any:
        try:
            return self.predict(choice)
        except LoopyperfError:
            return None
