"""Loopy programs as plain JSON, so that a record can be read on another machine without executing what is in it.

A pickle would run code when it is read. Here an object is its class and its attributes; the reader creates instances of
classes of Loopy, pymbolic, pytools and NumPy only, and of tags that users defined, if their module is loaded. Sets of
isl are their text.
"""

import importlib
import sys
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import cache
from math import isfinite
from typing import Any, cast

import islpy as isl
import loopy as lp
import msgspec
import numpy as np
from loopy.tools import LazilyUnpicklingList
from loopy.tools import Optional as LoopyOptional
from numpy.typing import NDArray
from pytools import RecordWithoutPickling
from pytools.tag import Tag

from loopyperf.errors import LoopyperfError

TRUSTED = frozenset({"constantdict", "fractions", "loopy", "numpy", "pymbolic", "pytools"})
"""packages whose classes may occur in a record"""
LEFT_OUT = ("_cached", "_hash", "_memoize", "_pytools_persistent_hash", "compiler")
"""first letters of attributes that do not belong to an object's value: what pytools and Loopy remember of earlier
computations, and the compiler of an executable C target"""
COLLECTIONS: Mapping[str, Any] = {each.__name__: each for each in (list, tuple, set, frozenset)}


class ProgramTextError(LoopyperfError):
    """A program has a part that has no plain form, such as a function, or a text has a class that is not allowed."""


def program_text(program: lp.TranslationUnit) -> str:
    """Return *program* as JSON; raises :class:`ProgramTextError` if it contains functions or classes of users.

    Tags of classes that a reader does not know are dropped there.
    """
    return msgspec.json.encode(_plain(program)).decode()


def program_of(text: str) -> lp.TranslationUnit:
    """Return the program of a *text* of :func:`program_text`; raises :class:`ProgramTextError`."""
    try:
        program = _made(msgspec.json.decode(text))
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, ValueError, isl.Error) as error:
        raise ProgramTextError(f"the text of a program is damaged: {error}") from error
    if not isinstance(program, lp.TranslationUnit):
        raise ProgramTextError(f"this is the text of a {type(program).__name__}, not of a program")
    return program


# {{{ writing


def _plain(value: Any) -> Any:
    kind = cast("Any", type(value))
    if kind in (type(None), bool, int, str) or (kind is float and isfinite(value)):
        return value
    if kind.__name__ in COLLECTIONS and kind is COLLECTIONS[kind.__name__]:
        members = map(_plain, value)
        return [kind.__name__, *(members if kind in (list, tuple) else sorted(members, key=repr))]
    if isinstance(value, LoopyOptional):
        return ["optional", *([_plain(value.value)] if value.has_value else [])]
    if isinstance(value, LazilyUnpicklingList):
        return ["list", *map(_plain, cast("Any", value))]
    if kind is dict or kind.__name__ == "constantdict":
        return [kind.__name__, *([_plain(key), _plain(part)] for key, part in value.items())]
    if kind.__module__.partition(".")[0] in {"islpy", "namedisl"}:
        return ["isl", kind.__name__, str(value)]
    if isinstance(value, np.dtype):
        return ["dtype", value.descr if value.names else value.str]
    if isinstance(value, np.generic | np.ndarray):
        array: NDArray[Any] = np.asarray(cast("Any", value))
        return ["array", kind is not np.ndarray, array.dtype.str, array.shape, b64encode(array.tobytes()).decode()]
    if isinstance(value, Enum):
        return ["enum", _name(kind), value.name]
    if isinstance(value, type):
        return ["class", _name(value)]
    if kind in (float, complex, Fraction):
        return [kind.__name__, str(value)]
    return _taken_apart(value, kind)


def _taken_apart(value: Any, kind: type[Any]) -> list[Any]:
    name = _name(kind)
    attributes: dict[str, Any]
    if is_dataclass(kind):
        attributes = {each.name: getattr(value, each.name) for each in fields(kind)}
    elif hasattr(value, "__dict__"):
        everything = cast("dict[str, Any]", vars(value))
        names = everything.keys() & kind.fields if isinstance(value, RecordWithoutPickling) else everything
        attributes = {key: everything[key] for key in sorted(names) if not key.startswith(LEFT_OUT)}
    else:
        raise ProgramTextError(f"an object of class {name} has no plain form")
    return ["object", name, *([key, _plain(part)] for key, part in attributes.items())]


@cache
def _name(kind: type[Any]) -> str:
    if kind.__module__.partition(".")[0] not in TRUSTED and not issubclass(kind, Tag):
        raise ProgramTextError(f"{kind.__module__}.{kind.__qualname__} is not a class of Loopy")
    if "<locals>" in kind.__qualname__:
        raise ProgramTextError(f"class {kind.__qualname__} is local to a function")
    return f"{kind.__module__}:{kind.__qualname__}"


# }}}


# {{{ reading


def _made(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, *parts = cast("list[Any]", value)
    if kind in COLLECTIONS:
        made = [_made(each) for each in parts]
        return COLLECTIONS[kind](made if kind in ("list", "tuple") else (each for each in made if each is not DROPPED))
    match kind, parts:
        case "dict", _:
            return {_made(key): _made(part) for key, part in parts}
        case "constantdict", _:
            return _class_of("constantdict:constantdict")({_made(key): _made(part) for key, part in parts})
        case "isl", [("BasicSet" | "Set" | "BasicMap" | "Map") as name, str(text)]:
            return getattr(isl, name)(text)
        case "dtype", [described]:
            return np.dtype(described if isinstance(described, str) else [tuple(each) for each in described])
        case "array", [is_scalar, dtype, shape, data]:
            array = np.frombuffer(b64decode(data), dtype).reshape(shape)
            return array[()] if is_scalar else array.copy()
        case "enum", [str(name), str(member)]:
            return _class_of(name)[member]
        case "optional", _:
            return LoopyOptional(*map(_made, parts))
        case "class", [str(name)]:
            return _class_of(name)
        case (("float" | "complex" | "Fraction"), [str(text)]):
            return {"float": float, "complex": complex, "Fraction": Fraction}[kind](text)
        case "object", [str(name), *attributes]:
            return _put_together(name, attributes)
        case _:
            raise ValueError(f"unknown entry {kind!r:.40}")


DROPPED = object()
"""stands for a tag of which the class is not loaded"""


def _put_together(name: str, attributes: list[Any]) -> Any:
    kind = _class_of(name)
    if kind is None:
        return DROPPED
    found = kind.__new__(kind)
    if isinstance(found, RecordWithoutPickling):
        found.register_fields({key for key, _ in attributes})  # otherwise its class learns them from its first instance
    for key, part in attributes:
        object.__setattr__(found, key, _made(part))
    return found


@cache
def _class_of(name: str) -> Any:
    """Return a class of a trusted package, or a user's tag; None for a tag of a module that is not loaded."""
    module, _, path = name.partition(":")
    if module.partition(".")[0] not in TRUSTED and module not in sys.modules:
        return None
    found: Any = importlib.import_module(module)
    for each in path.split("."):
        found = getattr(found, each)
    if not isinstance(found, type):
        raise TypeError(f"{name} is not a class")
    _name(cast("type[Any]", found))
    return found


# }}}
