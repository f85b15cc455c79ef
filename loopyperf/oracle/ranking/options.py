"""What :func:`loopyperf.rank` and :func:`loopyperf.search` may be told: looked at before anything is built."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeGuard, cast

import numpy as np

from loopyperf.counts.typical import check_stated
from loopyperf.errors import ParameterError
from loopyperf.oracle.ranking.own_processes import Processes
from loopyperf.polyhedral.closed_forms.evaluation import integer_size

LONGEST = 1e7
"""seconds that a time limit is at most, which is four months: clocks and threads take no more than so many"""


def check_executor(executor: object) -> None:
    """Raise :class:`ParameterError` if *executor* is not a :mod:`concurrent.futures` executor, or one like it."""
    if executor is None or isinstance(executor, Processes):
        return
    if callable(getattr(executor, "get_executor", None)):  # dask's clients have both, and futures of their own
        raise ParameterError(
            f"an executor is needed, received {executor!r:.80}; give its get_executor(), which is one of "
            "concurrent.futures"
        )
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ParameterError(
            f"an executor is one of concurrent.futures, such as ProcessPoolExecutor(4), or one with its interface; "
            f"received {executor!r:.80}"
        )


def check_time_limit(seconds: object) -> None:
    """Raise :class:`ParameterError` if *seconds* is neither None nor a time limit."""
    limit = None if seconds is None else _number(seconds)
    if seconds is not None and (limit is None or not 0 < limit <= LONGEST):
        advice = "; leave it out for no limit" if limit is not None and limit > LONGEST else ""
        raise ParameterError(
            f"a time limit is a number of seconds above 0, up to {LONGEST:,.0f}, received {seconds!r:.80}{advice}"
        )


def _number(value: object) -> float | None:
    """Return *value* as a number; None if it is not a number."""
    if isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool):
        return float(cast("float", value))
    return None


def check_top(top: object, bounds: object) -> None:
    """Raise :class:`ParameterError` unless *top* is a number, *bounds* a list of names, and *top* stated with them."""
    if isinstance(bounds, str) or not isinstance(bounds, Sequence):
        raise ParameterError(f"bounds is a list of names, the cheapest first; received {bounds!r:.80}")
    for name in cast("Sequence[object]", bounds):
        if not isinstance(name, str):
            raise ParameterError(f"bounds is a list of names, the cheapest first; one of these is {name!r:.80}")
    if top is None and bounds:
        raise ParameterError("with bounds, the model is asked only about the fastest variants: say how many, top=...")
    if top is not None and not is_number(top):
        raise ParameterError(f"top is how many of the fastest are wanted, 1 or more; received {top!r:.80}")


def is_number(value: object) -> TypeGuard[int]:
    """Return whether *value* is a number of things, 1 or more."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def is_iterable(value: object) -> bool:
    """Return whether one can go through *value*."""
    return isinstance(value, Iterable)


def check_share(regret: object, probability: object) -> None:
    """Raise :class:`ParameterError` unless *regret* is not negative and *probability* between 0 and 1."""
    slower, sure = _number(regret), _number(probability)
    if slower is None or sure is None or not (0 <= slower < inf and 0 < sure < 1):
        raise ParameterError(
            f"regret is not negative and probability between 0 and 1; received {regret!r:.80} and {probability!r:.80}"
        )


def check_mapping(name: str, what: str, value: object) -> None:
    """Raise :class:`ParameterError` unless *value* is a mapping, or None; *name* is the option's, *what* it maps."""
    if value is not None and not isinstance(value, Mapping):
        raise ParameterError(f"{name} is a mapping from {what}, received {value!r:.80}")


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Raise :class:`ParameterError` for a size that is not an integer: variants are ranked at one size."""
    for name, size in sizes.items():
        if isinstance(size, np.ndarray | list | tuple | range):
            raise ParameterError(
                f"variants are ranked at one size at a time, received {name}={size!r:.80}; rank once for each size"
            )
        integer_size(name, size)


def check_typical(typical: object) -> None:
    """Raise :class:`ParameterError` if *typical* does not map what the source leaves open to its values."""
    if typical is not None:
        check_stated(typical)
