"""Closed forms evaluated together: exact on integers, vectorised on arrays.

Evaluating the properties of a kernel costs a few microseconds at one size and a few nanoseconds a size in a batch.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from math import lcm, prod
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from loopyperf.errors import ParameterError
from loopyperf.polyhedral.affine import Affine, Atom, Floor
from loopyperf.polyhedral.closed_forms import closed_form as cf
from loopyperf.polyhedral.closed_forms.closed_form import (
    SCALAR,
    VECTOR,
    ClosedForm,
    Compilation,
    Least,
    Output,
    compiled,
)
from loopyperf.polyhedral.closed_forms.formula import text
from loopyperf.units import number_in_words

IntegerArray = NDArray[Any]
"""int64, or object where an exact value needs more than 63 bits"""

CHUNK = 8192
"""sizes evaluated at once, so that intermediate arrays stay in cache"""

INT64_SAFE = 2**62


class Assumptions(Protocol):
    """What a kernel assumes of its sizes."""

    @property
    def parameters(self) -> frozenset[str]:
        """Return the names of all sizes that the kernel takes."""
        ...

    def on(self, parameters: Collection[str]) -> ClosedForm:
        """Return a closed form that is 1 where the assumptions admit *parameters*, whatever the others, else 0."""
        ...


class Evaluator:
    """Several closed forms, and sums and minima of them, as one function of the sizes.

    The sizes of :attr:`parameters` are needed. Others that the kernel takes may be given too, and are checked.
    """

    def __init__(self, forms: Sequence[ClosedForm], outputs: Sequence[Output], assumptions: Assumptions) -> None:
        """Evaluate *outputs* made of *forms*, refusing sizes that *assumptions* do not admit."""
        self.forms = tuple(forms)
        self.outputs = tuple(outputs)
        self.assumptions = assumptions
        self.parameters = tuple(sorted(cf.parameters(forms)))
        self._functions: dict[frozenset[str], _Function] = {}

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the exact value of each output at *sizes*; raises :class:`ParameterError`."""
        return self._function(frozenset(sizes)).at(sizes)

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        """Return each output at arrays of sizes, in their broadcast shape; raises :class:`ParameterError`."""
        return self._function(frozenset(sizes)).at_arrays(sizes)

    def weighted(self, weights: Sequence[float | None], sizes: Mapping[str, int | IntegerArray]) -> NDArray[np.float64]:
        """Return Σ weight · output at arrays of sizes, added in their order; outputs without a weight are left out.

        Raises :class:`ParameterError`.
        """
        return self._function(frozenset(sizes)).weighted(weights, sizes)

    def _function(self, names: frozenset[str]) -> "_Function":
        """Return the function of exactly *names*."""
        if names not in self._functions:
            self._check(names)
            parameters = tuple(sorted(names))
            source = Compilation(parameters, self.forms, self.outputs, self.assumptions.on(names))
            self._functions[names] = _Function(source)
        return self._functions[names]

    def _check(self, names: frozenset[str]) -> None:
        missing = [name for name in self.parameters if name not in names]
        if missing:
            needed = ", ".join(self.parameters)
            raise missing_sizes(missing, f"; the sizes needed are: {needed}")
        strangers = sorted(names - self.assumptions.parameters)
        if strangers:
            known = ", ".join(sorted(self.assumptions.parameters)) or "none"
            raise ParameterError(
                f"superfluous size {', '.join(strangers)}; the sizes that the kernel takes are: {known}"
            )


class _Function:
    """Closed forms as a function of given sizes, compiled when first used."""

    def __init__(self, source: Compilation) -> None:
        self.source = source

    def __getstate__(self) -> dict[str, Compilation]:
        """Leave out what is compiled, which no pickle holds."""
        return {"source": self.source}

    @cached_property
    def _scalar(self) -> Callable[..., tuple[bool, tuple[int, ...]]]:
        return compiled(self.source, SCALAR)

    @cached_property
    def _vector(self) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
        return compiled(self.source, VECTOR)

    def at(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        values = [integer_size(name, sizes[name]) for name in self.source.parameters]
        admissible, results = self._scalar(*values)
        if not admissible:
            raise self._violation(values)
        return results

    def at_arrays(self, sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
        shape, dtype, chunks = self._chunks(sizes)
        results = [np.empty(prod(shape), dtype) for _ in self.source.outputs]
        for place, values in chunks:
            for result, value in zip(results, values, strict=True):
                result[place] = value
        return tuple(result.reshape(shape) for result in results)

    def weighted(self, weights: Sequence[float | None], sizes: Mapping[str, int | IntegerArray]) -> NDArray[np.float64]:
        shape, _, chunks = self._chunks(sizes)
        total = np.zeros(prod(shape))
        for place, values in chunks:
            here = total[place]
            for value, weight in zip(values, weights, strict=True):
                if weight is not None:
                    here += weight * np.asarray(value, np.float64)
        return total.reshape(shape)

    def _chunks(
        self, sizes: Mapping[str, int | IntegerArray]
    ) -> tuple[tuple[int, ...], Any, Iterator[tuple[slice, tuple[Any, ...]]]]:
        """Return the shape of *sizes*, the type of numbers, and the values of all outputs at some of them each."""
        arrays = broadcast({name: sizes[name] for name in self.source.parameters})
        shape = arrays[0].shape if arrays else ()
        dtype = self._dtype(arrays)
        flat = [np.ravel(array).astype(dtype) for array in arrays]
        starts = range(0, prod(shape), CHUNK)
        places = (slice(start, start + CHUNK) for start in starts)
        return shape, dtype, ((place, self._evaluated([array[place] for array in flat])) for place in places)

    def _evaluated(self, chunk: list[IntegerArray]) -> tuple[Any, ...]:
        admissible, values = self._vector(*chunk)
        if not np.all(admissible):
            worst = int(np.argmin(admissible))
            raise self._violation([array[worst] for array in chunk])
        return values

    def _dtype(self, arrays: Sequence[IntegerArray]) -> Any:
        """Return int64 where no intermediate value can overflow, else object (exact Python integers)."""
        largest = {
            name: max(abs(int(array.max())), abs(int(array.min()))) if array.size else 0
            for name, array in zip(self.source.parameters, arrays, strict=True)
        }
        bound = largest_intermediate([*self.source.forms, self.source.assumptions], largest)
        return np.int64 if bound * max(map(_weight, self.source.outputs), default=1) < INT64_SAFE else object

    def _violation(self, values: Sequence[int]) -> ParameterError:
        return not_admitted(dict(zip(self.source.parameters, values, strict=True)), self.source.assumptions)


# {{{ sizes


def missing_sizes(names: Sequence[str], why: str) -> ParameterError:
    """Return the error that the sizes *names* are not stated, and *why* they are needed: each is a keyword."""
    return ParameterError(f"missing size {', '.join(names)}{why}; give {', '.join(f'{name}=...' for name in names)}")


def not_admitted(sizes: Mapping[str, int], assumptions: ClosedForm) -> ParameterError:
    """Return the error that a kernel's *assumptions* do not admit *sizes*."""
    given = ", ".join(f"{name}={number_in_words(int(value))}" for name, value in sizes.items())
    assumed = text(assumptions).removeprefix("1 if ")
    return ParameterError(f"{given} is outside what the kernel assumes: {assumed}")


def integer_size(name: str, value: Any) -> int:
    """Return the size *name* as a plain integer; raises :class:`ParameterError` for what is none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, np.integer):
        return int(cast("np.integer[Any]", value))
    raise ParameterError(f"size {name} must be an integer, received {value!r:.80} ({type(value).__name__})")


def integer_array(name: str, value: object) -> IntegerArray:
    """Return the sizes *name* as an array of integers; raises :class:`ParameterError` for what is none."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(f"sizes {name} must be integers, received a masked array; pass its .compressed()")
    array = np.asarray(value)
    if array.dtype.kind in "iu":
        return array
    if array.dtype != object:
        raise ParameterError(f"sizes {name} must be integers, received an array of {array.dtype}")
    return np.array([integer_size(name, element) for element in array.flat], object).reshape(array.shape)


def broadcast(sizes: Mapping[str, int | IntegerArray]) -> tuple[IntegerArray, ...]:
    """Return *sizes* as integer arrays of one shape; raises :class:`ParameterError` if they are not, or have none."""
    arrays = {name: integer_array(name, size) for name, size in sizes.items()}
    try:
        return tuple(np.broadcast_arrays(*arrays.values()))
    except ValueError as error:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ParameterError(f"the shapes of the sizes do not broadcast together: {shapes}") from error


# }}}


# {{{ bounds


def largest_intermediate(forms: Sequence[ClosedForm], largest: Mapping[str, int]) -> int:
    """Return a bound of every integer that evaluation meets when parameters are at most *largest* in magnitude."""
    bounds: dict[Atom, int] = {**largest}
    reached = max(largest.values(), default=0)
    for atom in cf.atoms(forms):
        if isinstance(atom, Floor):
            top = _affine_bound(atom.numerator, bounds)
            bounds[atom] = top // atom.denominator + 1
            reached = max(reached, top)
    for piece in (piece for form in forms for piece in form):
        terms = piece.polynomial.terms
        denominator = lcm(*(value.denominator for _, value in terms))
        total = sum(
            abs(value) * denominator * prod(max(bounds[atom], 1) for atom in product) for product, value in terms
        )
        reached = max(reached, int(total))
        for constraint in chain.from_iterable(piece.conditions):
            reached = max(reached, _affine_bound(constraint.expression, bounds))
    return reached


def _weight(output: Output) -> int:
    if isinstance(output, Least):
        return max(_weight(output.left), _weight(output.right))
    return sum(abs(multiplicity) for _, multiplicity in output.terms) + output.denominator


def _affine_bound(expression: Affine[Atom], bounds: Mapping[Atom, int]) -> int:
    return abs(expression.constant) + sum(abs(value) * bounds[atom] for atom, value in expression.terms) + 1


# }}}
