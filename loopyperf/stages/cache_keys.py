"""Content keys: canonical text of Loopy programs and options, equal for equal values in every process.

Loopy's own key (``LoopyKeyBuilder``) does not work for counts. It is equal for a literal ``5`` and ``np.int64(5)``,
which have different types, and for ``float4`` and ``double2``, which have the same size. For a kernel with several
parameters it depends on PYTHONHASHSEED, because isl's order of parameters does. It is also slower. Loopy defines the
attributes that identify its objects: ``hash_fields``, ``fields``, and the fields of its dataclasses.
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
"""packages whose classes behave the same in every process with the same versions"""


class ContentError(LoopyperfError):
    """A part of a program, such as user code, has no canonical text."""


def content_key(value: object) -> str | None:
    """Return the digest of :func:`content`; None if *value* has no content text."""
    text = content_text(value)
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def content_text(value: object) -> str | None:
    """Return the :func:`content` of *value*; None if it has none."""
    try:
        return content(value)
    except (ContentError, AttributeError, RecursionError, ValueError):  # the last for integers of thousands of digits
        return None


@singledispatch
def content(value: object) -> str:
    """Return the canonical text of *value*, equal only for equal values.

    Raises :class:`ContentError` if *value* contains code.
    """
    return _by_attributes(value, type(value))


def _by_attributes(value: object, cls: type) -> str:
    name, attributes = _shape(cls)
    return _called(name, [content(getattr(value, attribute)) for attribute in attributes])


def _called(name: str, parts: Iterable[str]) -> str:
    return f"{name}({','.join(parts)})"


# {{{ classes


@cache
def _shape(cls: type) -> tuple[str, tuple[str, ...]]:
    """Return the full name of a class and the attributes that identify its instances."""
    return _name(cls), tuple(_attributes(cls))


@cache
def _name(cls: type) -> str:
    """Return the full name of *cls*. User-defined tags are allowed since they are data; other user classes are not."""
    if cls.__module__.partition(".")[0] not in TRUSTED and not issubclass(cls, Tag):
        raise ContentError(f"{cls.__module__}.{cls.__qualname__} is not a Loopy class")
    return f"{cls.__module__}.{cls.__qualname__}"


def _attributes(cls: type) -> Iterable[str]:
    if hasattr(cls, "hash_fields"):
        return cast("Any", cls).hash_fields
    if is_dataclass(cls):
        return [field.name for field in fields(cls)]
    raise ContentError(f"the identifying attributes of {cls.__module__}.{cls.__qualname__} are unknown")


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
        raise ContentError("an array of Python objects contains their addresses")
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


# {{{ loopyperf's records


@content.register(msgspec.Struct)
@content.register(Device)
def _of_record_of_ours(value: object) -> str:
    """Return the digest of a fit's or device's MessagePack, which distinguishes integers and all floats.

    Values without a MessagePack form, such as NumPy numbers, are encoded by their content.
    """
    packed = msgspec.msgpack.encode(value, enc_hook=content)
    return _called(_name(type(value)), [hashlib.sha256(packed).hexdigest()])


# }}}


# {{{ Loopy objects


@content.register(LoopKernel)
def _of_kernel(kernel: LoopKernel) -> str:
    if kernel.symbol_manglers or kernel.overridden_get_grid_sizes_for_insn_ids:
        raise ContentError(f"kernel {kernel.name!r} has symbol manglers or overridden grid sizes, which are functions")
    return _by_attributes(kernel, type(kernel))


@content.register(isl.BasicSet)
def _of_basic_set(basic_set: isl.BasicSet) -> str:
    """Return the minimal constraints of the set, with constraints and parameters in alphabetical order.

    isl's order depends on PYTHONHASHSEED, and isl drops redundant constraints in place, e.g. during code generation.
    """
    names = sorted(basic_set.get_var_names_not_none(isl.dim_type.param))
    space = isl.Space.create_from_names(basic_set.get_ctx(), set=[], params=names).params()
    aligned = minimal(basic_set).align_params(space)
    constraints = sorted(str(constraint) for constraint in aligned.get_constraints())
    return _called("isl", [repr(str(aligned.get_space())), *map(repr, constraints)])


@content.register(RecordWithoutPickling)
def _of_record(value: object) -> str:
    """Return the record by its class's fields as far as it has them; related classes share a growing set of names."""
    cls = cast("Any", type(value))
    attributes = vars(value)
    names = sorted(set[str](cls.fields) & attributes.keys())
    return _called(_name(cls), [f"{name}={content(attributes[name])}" for name in names])


@content.register(LoopyType)
@content.register(ReductionOperation)
@content.register(TargetBase)
@content.register(VarAtomicity)
def _of_plain_object(value: object) -> str:
    """Return the object by its public attributes; pytools stores caches in private ones."""
    public = sorted((name, part) for name, part in vars(value).items() if not name.startswith("_"))
    return _called(_name(type(value)), [f"{name}={content(part)}" for name, part in public])


@content.register(LoopyOptional)
def _of_optional(value: Any) -> str:
    return f"some({content(value.value)})" if value.has_value else "none"


# }}}
