"""Variants of a kernel, by name: programs, or callables that build a program on demand."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, cast
from uuid import uuid4

import numpy as np

from loopyperf.counts.sizes import check_typical_values
from loopyperf.errors import KernelError, ParameterError, one_line
from loopyperf.executors import as_number, is_number
from loopyperf.kernel.loopy_passes import Program, checked_program, without_dumps
from loopyperf.polyhedral.evaluation import integer_size

VARIANTS = "Loopy kernels, or pairs of a name and a function that builds one"
"""what an error asks for"""


def check_top(top: object, bounds: object) -> None:
    """Raise :class:`ParameterError` unless *top* is a number, *bounds* a list of names, and *top* given with bounds."""
    if isinstance(bounds, str) or not isinstance(bounds, Sequence):
        raise ParameterError(f"bounds must be a list of names, cheapest first; got {bounds!r:.80}")
    for name in cast("Sequence[object]", bounds):
        if not isinstance(name, str):
            raise ParameterError(f"bounds must be a list of names, cheapest first; got the item {name!r:.80}")
    if top is None and bounds:
        raise ParameterError("bounds= requires top=N, the number of fastest variants to find")
    if top is not None and not is_number(top):
        raise ParameterError(f"top must be an integer >= 1, got {top!r:.80}")


def is_iterable(value: object) -> bool:
    """Return whether *value* is iterable."""
    return isinstance(value, Iterable)


def check_share(regret: object, probability: object) -> None:
    """Raise :class:`ParameterError` unless *regret* is not negative and *probability* between 0 and 1."""
    slower, sure = as_number(regret), as_number(probability)
    if slower is None or sure is None or not (0 <= slower < inf and 0 < sure < 1):
        raise ParameterError(
            f"regret must be >= 0 and probability between 0 and 1, got {regret!r:.80} and {probability!r:.80}"
        )


def check_mapping(name: str, what: str, value: object) -> None:
    """Raise :class:`ParameterError` unless *value*, the option *name*, is None or a mapping from *what*."""
    if value is not None and not isinstance(value, Mapping):
        raise ParameterError(f"{name} must be a mapping from {what}, got {value!r:.80}")


def check_sizes(sizes: Mapping[str, Any]) -> None:
    """Raise :class:`ParameterError` for a size that is not an integer: variants are ranked at one size."""
    for name, size in sizes.items():
        if isinstance(size, np.ndarray | list | tuple | range):
            raise ParameterError(
                f"variants are ranked at one size at a time, got {name}={size!r:.80}; rank once for each size"
            )
        integer_size(name, size)


def check_typical(typical: object) -> None:
    """Raise :class:`ParameterError` unless *typical* is None or a mapping from names to values."""
    if typical is not None:
        check_typical_values(typical)


OfChoice = Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None
"""values by name, or a function that returns them from the choices of a point, passed as keyword arguments"""
Build = Program | Callable[[], Program]
Variants = Mapping[str, Build] | Iterable[Program | tuple[str, Build]]
"""name -> program or builder; programs without a name are called ``"variant 0"``, ``"variant 1"`` and so on"""


@dataclass(frozen=True, slots=True)
class Variant:
    """A named program, or a named function that builds one."""

    name: str
    """name in the ranking"""
    build: Build
    """the program, or a function that returns it"""
    key: str = field(default="", compare=False)
    """key in the process's cache of programs, for a variant that is needed again; empty: not cached"""
    choice: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)
    """name of the space -> choice, for a point of a space"""

    def given(self, values: "OfChoice") -> Mapping[str, Any] | None:
        """Return *values*, or those of this point if they are a function of the choices.

        Raises :class:`ParameterError` if the function fails.
        """
        if not callable(values):
            return values
        try:
            return values(**self.choice)
        except Exception as error:  # the user's code may raise anything
            name = getattr(values, "__name__", type(values).__name__)
            raise ParameterError(f"{name} failed ({type(error).__name__}): {one_line(error)}") from error

    def program(self) -> Program:
        """Return the program, built if necessary; raises :class:`KernelError` if building fails."""
        if isinstance(self.build, Program):
            return self.build
        if self.key in _kept:
            return _kept[self.key]
        try:
            with without_dumps():
                built = checked_program(self.build())
        except (Exception, SystemExit) as error:  # the user's code may raise anything
            raise KernelError(f"building failed ({type(error).__name__}): {one_line(error)}") from error
        if self.key:
            _kept[self.key] = built
            for each in list(_kept)[:-MAX_PROGRAMS]:
                _kept.pop(each, None)
        return built


MAX_PROGRAMS = 64
"""largest number of programs in a process's cache; with their analyses, about 20 MB"""
_kept: dict[str, Program] = {}


def named(variants: Variants, *, are_kept: bool = False) -> tuple[Variant, ...]:
    """Return *variants* with their names, without building them; processes cache their programs if they *are_kept*.

    Raises :class:`ParameterError` for no variants, for duplicate names, and for items that are neither programs nor
    callables.
    """
    if isinstance(variants, Program) or callable(variants) or isinstance(variants, str):
        received = "one program" if isinstance(variants, Program) else f"{variants!r:.80}"
        raise ParameterError(
            f"variants must be a list, or a mapping {{'small tiles': program, ...}}; got {received}; for a single "
            "program, use estimate"
        )
    if not is_iterable(variants):
        raise ParameterError(f"variants must be {VARIANTS}; got {variants!r:.80}")
    pairs = cast("Mapping[Any, Any]", variants).items() if isinstance(variants, Mapping) else variants
    found = tuple(_variant(index, pair) for index, pair in enumerate(pairs))
    if not found:
        raise ParameterError(f"no variants to rank; give {VARIANTS}")
    repeated = [name for name, number in Counter(each.name for each in found).items() if number > 1]
    if repeated:
        raise ParameterError(f"several variants have the name {repeated[0]!r}; make the names unique")
    token = uuid4().hex
    return tuple(replace(each, key=f"{token} {each.name}") for each in found) if are_kept else found


def _variant(place: int, given: object) -> Variant:
    if isinstance(given, Program):
        return Variant(f"variant {place}", given)
    if isinstance(given, tuple) and len(cast("tuple[Any, ...]", given)) == 2:
        name, build = cast("tuple[Any, Any]", given)
        if isinstance(name, str) and (isinstance(build, Program) or callable(build)):
            return Variant(name, cast("Build", build))
    raise ParameterError(
        f"variant number {place} must be a Loopy program, or a pair of a name and a program or builder; got "
        f"{given!r:.80}"
    )
