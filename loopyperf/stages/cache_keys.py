"""What a Loopy program is, and what is asked of it, as text that is the same for equal programs, in every process.

Loopy's own key (``LoopyKeyBuilder``) does not do for counts. It is equal for a literal ``5`` and ``np.int64(5)``, which
have different types, and for ``float4`` and ``double2``, which have the same size; it follows PYTHONHASHSEED where a
kernel has several parameters, since isl's order of them does; and it takes longer. Which attributes of a Loopy object
make it what it is, is Loopy's to say: ``hash_fields``, ``fields`` and the fields of its dataclasses.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache, singledispatch
from typing import Any, cast

import islpy as isl
import msgspec
import numpy as np
from loopy.kernel import LoopKernel
from loopy.kernel.instruction import VarAtomicity
from loopy.library.reduction import ReductionOperation
from loopy.target import TargetBase
from loopy.tools import Optional as LoopyOptional
from loopy.types import LoopyType
from pytools import RecordWithoutPickling
from pytools.tag import Tag

from loopyperf.device.description import Device
from loopyperf.errors import LoopyperfError
from loopyperf.polyhedral.sets import minimal

TRUSTED = {"builtins", "constantdict", "fractions", "loopy", "loopyperf", "numpy", "pymbolic", "pytools"}
"""packages whose classes do the same in every process that has the same versions of them"""


class ContentError(LoopyperfError):
    """A program has a part, some code perhaps, of which no text says what it does."""


def content_key(value: object) -> str | None:
    """Return the digest of :func:`content`, None where *value* has none."""
    try:
        return hashlib.sha256(content(value).encode()).hexdigest()
    except (ContentError, AttributeError, RecursionError):
        return None


@singledispatch
def content(value: object) -> str:
    """Return *value* as text; equal for equal values only. Raises :class:`ContentError` where code is part of it."""
    return _by_attributes(value, type(value))


def _by_attributes(value: object, cls: type) -> str:
    name, attributes = _shape(cls)
    return _called(name, [content(getattr(value, attribute)) for attribute in attributes])


def _called(name: str, parts: Iterable[str]) -> str:
    return f"{name}({','.join(parts)})"


# {{{ classes


@cache
def _shape(cls: type) -> tuple[str, tuple[str, ...]]:
    """Return the full name of a class and the attributes that tell its values apart."""
    return _name(cls), tuple(_attributes(cls))


@cache
def _name(cls: type) -> str:
    """Return the full name of *cls*. Tags are data; other classes of the user's may do anything."""
    if cls.__module__.partition(".")[0] not in TRUSTED and not issubclass(cls, Tag):
        raise ContentError(f"{cls.__module__}.{cls.__qualname__} is not a class of Loopy's")
    return f"{cls.__module__}.{cls.__qualname__}"


def _attributes(cls: type) -> Iterable[str]:
    if hasattr(cls, "hash_fields"):
        return cast("Any", cls).hash_fields
    if is_dataclass(cls):
        return [field.name for field in fields(cls)]
    raise ContentError(f"what makes a {cls.__module__}.{cls.__qualname__} what it is, is not known")


# }}}


# {{{ plain values


@content.register(str)
@content.register(bytes)
@content.register(bool)
@content.register(int)
@content.register(float)
@content.register(complex)
@content.register(Fraction)
@content.register(type(None))
def _of_literal(value: object) -> str:
    return repr(value) if type(value) in PLAIN else f"{_name(type(value))}({value!r})"


PLAIN = {str, bytes, bool, int, float, complex, type(None)}


@content.register(np.generic)
@content.register(np.ndarray)
def _of_numbers(value: Any) -> str:
    if value.dtype.hasobject:
        raise ContentError("an array of Python objects has their addresses in it")
    return _called("numpy", [content(value.dtype), repr(value.shape), hashlib.sha256(value.tobytes()).hexdigest()])


@content.register(np.dtype)
def _of_dtype(value: Any) -> str:
    return f"dtype({value.str},{value!r})"


@content.register(type)
def _of_class(value: type) -> str:
    return _name(value)


@content.register(Enum)
def _of_enumeration(value: Enum) -> str:
    return f"{_name(type(value))}.{value.name}"


# }}}


# {{{ collections


@content.register(Sequence)
def _of_sequence(values: Sequence[Any]) -> str:
    return f"[{','.join([content(value) for value in values])}]"


@content.register(Set)
def _of_set(values: Set[Any]) -> str:
    return f"{{{','.join(sorted(content(value) for value in values))}}}"


@content.register(Mapping)
def _of_mapping(values: Mapping[Any, Any]) -> str:
    return f"{{{','.join(sorted(f'{content(key)}:{content(value)}' for key, value in values.items()))}}}"


# }}}


# {{{ records of ours


@content.register(msgspec.Struct)
@content.register(Device)
def _of_record_of_ours(value: object) -> str:
    """Return a fit, or a device, by its MessagePack, which tells integers from floats, and all floats apart.

    What has none, as numbers of NumPy's, is in it by its content.
    """
    packed = msgspec.msgpack.encode(value, enc_hook=content)
    return _called(_name(type(value)), [hashlib.sha256(packed).hexdigest()])


# }}}


# {{{ what Loopy is made of


@content.register(LoopKernel)
def _of_kernel(kernel: LoopKernel) -> str:
    if kernel.symbol_manglers or kernel.overridden_get_grid_sizes_for_insn_ids:
        raise ContentError(f"kernel {kernel.name!r} has functions that give names a meaning, or grids a size")
    return _by_attributes(kernel, type(kernel))


@content.register(isl.BasicSet)
def _of_basic_set(basic_set: isl.BasicSet) -> str:
    """Return the set by its minimal constraints, which and the parameters of which are in alphabetical order.

    isl's order follows PYTHONHASHSEED, and isl leaves out constraints in place, whenever Loopy generates code, say.
    """
    names = sorted(basic_set.get_var_names_not_none(isl.dim_type.param))
    space = isl.Space.create_from_names(basic_set.get_ctx(), set=[], params=names).params()
    aligned = minimal(basic_set).align_params(space)
    constraints = sorted(str(constraint) for constraint in aligned.get_constraints())
    return _called("isl", [repr(str(aligned.get_space())), *map(repr, constraints)])


@content.register(RecordWithoutPickling)
def _of_record(value: object) -> str:
    """Return the record with those of its class's fields that it has: related classes share a growing set of names."""
    cls = cast("Any", type(value))
    attributes = vars(value)
    names = sorted(set[str](cls.fields) & attributes.keys())
    return _called(_name(cls), [f"{name}={content(attributes[name])}" for name in names])


@content.register(LoopyType)
@content.register(ReductionOperation)
@content.register(TargetBase)
@content.register(VarAtomicity)
def _of_plain_object(value: object) -> str:
    """Return the object with its public attributes; pytools puts what it remembers into private ones."""
    public = sorted((name, part) for name, part in vars(value).items() if not name.startswith("_"))
    return _called(_name(type(value)), [f"{name}={content(part)}" for name, part in public])


@content.register(LoopyOptional)
def _of_optional(value: Any) -> str:
    return f"some({content(value.value)})" if value.has_value else "none"


# }}}
