"""Variants of a kernel, by name: programs, or callables that build one when its turn comes."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, cast
from uuid import uuid4

import numpy as np
from loopy.kernel import LoopKernel

from loopyperf.counts.sizes import check_typical_values
from loopyperf.errors import KernelError, ParameterError, one_line
from loopyperf.executors import as_number, is_number
from loopyperf.kernel.loopy_passes import Program, checked_program, without_dumps
from loopyperf.polyhedral.evaluation import integer_size


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


def is_iterable(value: object) -> bool:
    """Return whether one can go through *value*."""
    return isinstance(value, Iterable)


def check_share(regret: object, probability: object) -> None:
    """Raise :class:`ParameterError` unless *regret* is not negative and *probability* between 0 and 1."""
    slower, sure = as_number(regret), as_number(probability)
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
        check_typical_values(typical)


Build = Program | Callable[[], Program]
Variants = Mapping[str, Build] | Iterable[Program | tuple[str, Build]]
"""names with what they stand for; programs without a name are called by their place, ``"variant 0"`` and so on"""


@dataclass(frozen=True, slots=True)
class Variant:
    """A program, or how it is built, under a name."""

    name: str
    """what it is called in the ranking"""
    build: Build
    """the program, or a function that returns it"""
    key: str = field(default="", compare=False)
    """under which a process keeps the program for a while, when it will be asked for it again; empty: it does not"""

    def program(self) -> Program:
        """Return the program, which is built now if it was not; raises :class:`KernelError` if it cannot be built."""
        if isinstance(self.build, Program):
            return self.build
        if self.key in _kept:
            return _kept[self.key]
        built = self._built(self.build)
        if self.key:
            _keep(self.key, built)
        return built

    @staticmethod
    def _built(build: Callable[[], Program]) -> Program:
        try:
            with without_dumps():
                built = build()
        except (Exception, SystemExit) as error:  # a builder is the user's, and may raise anything
            raise KernelError(f"it cannot be built ({type(error).__name__}): {one_line(error)}") from error
        return checked_program(built)


KEPT = 64
"""programs that a process keeps, with what is known of them: some 20 MB"""
_kept: dict[str, Program] = {}


def _keep(key: str, program: Program) -> None:
    """Keep *program*, and no more of the earliest ones than there is room for."""
    _kept[key] = program
    for each in list(_kept)[:-KEPT]:
        _kept.pop(each, None)


def named(variants: Variants, *, are_kept: bool = False) -> tuple[Variant, ...]:
    """Return *variants* with their names; nothing is built. A process keeps programs for a while if they *are_kept*.

    Raises :class:`ParameterError` for none at all, for a name that two have, and for what is neither a program nor a
    callable.
    """
    if isinstance(variants, Program) or callable(variants) or isinstance(variants, str):
        received = f"one program, {_name(variants)}" if isinstance(variants, Program) else f"{variants!r:.80}"
        raise ParameterError(
            f"give several variants, as a list or a mapping of names, {{'small tiles': program, ...}}; received "
            f"{received}; ask estimate about a single one"
        )
    if not is_iterable(variants):
        raise ParameterError(
            f"variants are programs, or pairs of a name and what builds one; received {variants!r:.80}"
        )
    pairs = cast("Mapping[Any, Any]", variants).items() if isinstance(variants, Mapping) else variants
    found = tuple(_variant(place, each) for place, each in enumerate(pairs))
    if not found:
        raise ParameterError("there are no variants to rank: give programs, or pairs of a name and what builds one")
    repeated = [name for name, number in Counter(each.name for each in found).items() if number > 1]
    if repeated:
        raise ParameterError(f"several variants are called {repeated[0]!r}: each needs a name of its own")
    token = uuid4().hex
    return tuple(replace(each, key=f"{token} {each.name}") for each in found) if are_kept else found


def _name(program: Program) -> str:
    return program.name if isinstance(program, LoopKernel) else ", ".join(map(str, sorted(program.entrypoints)))


def _variant(place: int, given: object) -> Variant:
    if isinstance(given, Program):
        return Variant(f"variant {place}", given)
    if isinstance(given, tuple) and len(cast("tuple[Any, ...]", given)) == 2:
        name, build = cast("tuple[Any, Any]", given)
        if isinstance(name, str) and (isinstance(build, Program) or callable(build)):
            return Variant(name, cast("Build", build))
    raise ParameterError(
        f"variant number {place} is neither a loopy program nor a pair of a name and a program, or a function that "
        f"builds one; a function needs a name; received {given!r:.80}"
    )
