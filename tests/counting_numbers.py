"""Numbers without values that count the real operations applied to them, by type.

Complex numbers execute the operations of the functions in ``pyopencl-complex.h``, which Loopy's OpenCL code calls.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import add, mod, mul, truediv
from typing import Any, Union

import numpy as np

Tally = Counter[tuple[str, np.dtype[Any]]]
"""kind of operation, type -> number"""


@dataclass(frozen=True)
class Real:
    """A real number; its tally counts the operations applied to it."""

    dtype: np.dtype[Any]
    tally: Tally

    def _counted(self, kind: str, *others: object) -> Any:
        if any(isinstance(other, (Complex, Vector)) for other in others):
            return NotImplemented
        result = self.with_others(*others)
        self.tally[kind, result.dtype] += 1
        return result

    def with_others(self, *others: object) -> "Real":
        """Return a number of the type to which C converts this one and *others*; Python numbers have no type."""
        dtype = self.dtype
        for other in others:
            dtype = common(dtype, other.dtype) if isinstance(other, Real) else dtype
        return Real(dtype, self.tally)

    def converted(self, dtype: np.dtype[Any]) -> "Real":
        """Return this number, converted to type *dtype*."""
        return Real(dtype, self.tally)

    def __add__(self, other: object) -> Any:
        return self._counted("add", other)

    def __mul__(self, other: object) -> Any:
        return self._counted("mul", other)

    def __truediv__(self, other: object) -> Any:
        return self._counted("div", other)

    def __pow__(self, other: object) -> Any:
        return self._counted("pow", other)

    __radd__ = __sub__ = __rsub__ = __add__
    __rmul__ = __mul__
    __floordiv__ = __mod__ = __truediv__

    def __neg__(self) -> "Real":
        return self

    def special(self, *others: object) -> "Real":
        """Return the value of a special function, which costs more than arithmetic."""
        return self._counted("special", *others)

    sqrt = exp = log = sin = cos = sinh = cosh = atan2 = hypot = special


@dataclass(frozen=True)
class Complex:
    """A complex number; its parts count their operations."""

    real: Real
    imag: Real

    def converted(self, dtype: np.dtype[Any]) -> "Complex":
        """Return this number with parts of type *dtype*."""
        return Complex(self.real.converted(dtype), self.imag.converted(dtype))

    # {{{ arithmetic

    def __add__(self, other: Union["Complex", Real]) -> "Complex":
        if isinstance(other, Complex):
            return Complex(self.real + other.real, self.imag + other.imag)
        return Complex(self.real + other, self.imag)

    def __mul__(self, other: Union["Complex", Real]) -> "Complex":
        if isinstance(other, Complex):
            real = self.real * other.real - self.imag * other.imag
            return Complex(real, self.real * other.imag + self.imag * other.real)
        return Complex(self.real * other, self.imag * other)

    __radd__, __rmul__ = __add__, __mul__

    def __truediv__(self, other: Union["Complex", Real]) -> "Complex":
        if isinstance(other, Complex):
            ratio = other.real / other.imag
            denominator = other.imag * (1 + ratio * ratio)
            real = (self.imag + self.real * ratio) / denominator
            return Complex(real, (-self.real + self.imag * ratio) / denominator)
        return Complex(self.real / other, self.imag / other)

    def __rtruediv__(self, other: Real) -> "Complex":
        ratio = self.real / self.imag
        denominator = self.imag * (1 + ratio * ratio)
        return Complex((other * ratio) / denominator, -other / denominator)

    def __pow__(self, other: Union["Complex", Real]) -> "Complex":
        logarithm, angle = self.abs().log(), self.imag.atan2(self.real)
        if isinstance(other, Complex):
            length = (logarithm * other.real - angle * other.imag).exp()
            turned = logarithm * other.imag + angle * other.real
        else:
            length, turned = (logarithm * other).exp(), angle * other
        return Complex(length * turned.cos(), length * turned.sin())

    def __rpow__(self, other: Real) -> "Complex":
        return Complex(other, other) ** self

    # }}}

    # {{{ functions

    def abs(self) -> Real:
        return self.real.hypot(self.imag)

    def sqrt(self) -> "Complex":
        real = (0.5 * (self.abs() + self.real)).sqrt()
        return Complex(real, self.imag / real / 2)

    def exp(self) -> "Complex":
        length = self.real.exp()
        return Complex(length * self.imag.cos(), length * self.imag.sin())

    def log(self) -> "Complex":
        return Complex(self.abs().log(), self.imag.atan2(self.real))

    def sin(self) -> "Complex":
        return Complex(self.real.sin() * self.imag.cosh(), self.real.cos() * self.imag.sinh())

    cos = sinh = cosh = sin

    def tan(self) -> "Complex":
        twice, twice_imag = 2 * self.real, 2 * self.imag
        denominator = twice.cos() + twice_imag.cosh()
        return Complex(twice.sin() / denominator, twice_imag.sinh() / denominator)

    tanh = tan

    # }}}


@dataclass(frozen=True)
class Vector:
    """An OpenCL vector; an operation applies to each member."""

    members: tuple[Real, ...]

    def converted(self, dtype: np.dtype[Any]) -> "Vector":
        """Return this vector with members of type *dtype*."""
        return Vector(tuple(member.converted(dtype) for member in self.members))

    def _pairs(self, other: Union["Vector", Real]) -> Iterator[tuple[Any, Any]]:
        others = other.members if isinstance(other, Vector) else [other] * len(self.members)
        return zip(self.members, others, strict=True)

    def __add__(self, other: Union["Vector", Real]) -> "Vector":
        return self._each(add, other)

    def __mul__(self, other: Union["Vector", Real]) -> "Vector":
        return self._each(mul, other)

    def __truediv__(self, other: Union["Vector", Real]) -> "Vector":
        return self._each(truediv, other)

    def __mod__(self, other: Union["Vector", Real]) -> "Vector":
        return self._each(mod, other)

    __radd__, __rmul__, __rtruediv__, __floordiv__ = __add__, __mul__, __truediv__, __truediv__

    def _each(self, operator: Callable[[Any, Any], Any], other: Union["Vector", Real]) -> "Vector":
        return Vector(tuple(operator(left, right) for left, right in self._pairs(other)))

    def special(self, *others: object) -> "Vector":
        return Vector(tuple(member.special() for member in self.members))

    def __pow__(self, other: Union["Vector", Real]) -> "Vector":
        return Vector(tuple(left**right for left, right in self._pairs(other)))


Number = Real | Complex | Vector


def number(dtype: np.dtype[Any], tally: Tally) -> Number:
    """Return a number of type *dtype* that counts into *tally*."""
    if dtype.names:
        return Vector(tuple(Real(member, tally) for member in _members(dtype)))
    part = Real(real_type(dtype), tally)
    return Complex(part, part) if dtype.kind == "c" else part


def common(left: np.dtype[Any], right: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type to which C converts operands of two types: the larger one, or the larger float if there is one.

    NumPy differs: it converts int64 and uint64 to a float.
    """
    floats = [dtype for dtype in (left, right) if dtype.kind == "f"]
    return max(floats or (left, right), key=lambda dtype: dtype.itemsize)


def real_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of the real components of *dtype*."""
    if dtype.names:
        (member,) = set(_members(dtype))
        return member
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def _members(dtype: np.dtype[Any]) -> list[np.dtype[Any]]:
    return [dtype[name] for name in dtype.names or () if not name.startswith("padding")]
