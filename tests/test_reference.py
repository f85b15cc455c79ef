"""The reference documents all public names, the classes that functions return, and all their fields.

Sphinx is not run. It omits members without a docstring, inherited members unless requested, and everything without a
directive. These tests find such omissions.
"""

import doctest
import inspect
import re
import typing
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from pkgutil import resolve_name
from types import MappingProxyType

import pytest
from sphinx.pycode import ModuleAnalyzer

import loopyperf as lpp
from loopyperf import errors
from loopyperf.device.parts import DescriptionTable
from loopyperf.display import Shown
from tests.documents import SITE

TEXT = "\n".join(path.read_text(encoding="utf-8") for path in sorted((SITE / "reference").glob("*.md")))
SHOWN = ":members:"
DIRECTIVE = re.compile(r"^\.\. auto(class|module):: (loopyperf\S*)\n((?:(?: {3}.*)?\n)*)", re.MULTILINE)
# Optuna's class and the backends are imported only for type checkers.
UNSEEN = MappingProxyType(
    dict.fromkeys(
        ("BackendChoice", "BaseSampler", "Counting", "Fit", "FitChoice", "ResidualModel", "Resources", "Uncertainty"),
        object,
    )
)


def documented_classes() -> Iterator[tuple[type, str]]:
    """Yield the classes that the reference documents, each with the options and the lines below its directive."""
    for kind, name, below in DIRECTIVE.findall(TEXT):
        thing = resolve_name(re.sub(r"\.(\w+)$", r":\1", name) if kind == "class" else name)
        if kind == "class":
            yield thing, below
        else:
            (members,) = re.findall(r"^   :members: *(.*)$", below, re.MULTILINE) or [""]
            for each in members.split(", ") if members else getattr(thing, "__all__", vars(thing)):
                found = getattr(thing, each)
                if isinstance(found, type) and (members or found.__module__.startswith(thing.__name__)):
                    yield found, SHOWN


DOCUMENTED = dict(documented_classes())


def own_classes(hint: object) -> Iterator[type]:
    """Yield the classes of loopyperf in the type *hint*."""
    if isinstance(hint, type) and hint.__module__.startswith("loopyperf"):
        yield hint
    for part in typing.get_args(hint):
        yield from own_classes(part)


def return_type(function: object) -> object:
    return typing.get_type_hints(function, localns=dict(UNSEEN)).get("return")


def public_classes() -> set[type]:
    """Return the public classes, and those that public functions return."""
    things = [getattr(lpp, name) for name in lpp.__all__]
    results = {each for thing in things if inspect.isfunction(thing) for each in own_classes(return_type(thing))}
    return {thing for thing in things if isinstance(thing, type)} | results


def fields(of: type) -> dict[str, type]:
    """Return the public fields and properties of a class of loopyperf, with the class that declares each."""
    found: dict[str, type] = {}
    for base in of.__mro__:
        if base.__module__.startswith("loopyperf") and base is not Shown:
            declared = [*inspect.get_annotations(base), *vars(base)]
            held = (name for name in declared if not name.startswith("_") and is_field(base, name))
            found.update({name: base for name in held if name not in found})
    return found


def is_field(base: type, name: str) -> bool:
    held = isinstance(vars(base).get(name), property | cached_property)
    return held or name in inspect.get_annotations(base)


def type_of(base: type, name: str) -> object:
    thing = vars(base).get(name)
    if isinstance(thing, property | cached_property):
        return return_type(thing.fget if isinstance(thing, property) else thing.func)
    return typing.get_type_hints(base, localns=dict(UNSEEN)).get(name)


def parts(of: type) -> Iterator[type]:
    """Yield the classes of loopyperf in the public fields of a class."""
    for name, base in fields(of).items():
        yield from own_classes(type_of(base, name))


def is_documented(base: type, name: str) -> bool:
    """Return whether a field has a docstring: that of a property, or a string below its declaration."""
    thing = vars(base).get(name)
    if isinstance(thing, property | cached_property):
        return bool(thing.__doc__)
    if issubclass(base, DescriptionTable) and name in base.declared():
        return True
    return (base.__qualname__, name) in ModuleAnalyzer.for_module(base.__module__).find_attr_docs()


def by_name(classes: set[type]) -> list[type]:
    return sorted(classes, key=lambda each: (each.__module__, each.__qualname__))


def test_public_and_returned_classes_are_documented() -> None:
    assert len(public_classes()) > 20
    assert by_name(public_classes() - set(DOCUMENTED)) == []


def test_classes_of_their_fields_are_documented() -> None:
    held, new = public_classes(), public_classes()
    while new:
        new = {part for each in new for part in parts(each)} - held
        held |= new
    assert len(held) > 100
    assert by_name(held - set(DOCUMENTED)) == []


def test_every_public_field_is_documented(subtests: pytest.Subtests) -> None:
    for documented in by_name(set(DOCUMENTED)):
        with subtests.test(documented=str(documented)):
            below = DOCUMENTED[documented]
            on_the_page = re.findall(r"^   \.\. py:attribute:: (\w+)$", below, re.MULTILINE)
            undocumented = [name for name, base in fields(documented).items() if not is_documented(base, name)]
            assert SHOWN in below or set(on_the_page) >= set(fields(documented))
            assert ":undoc-members:" in below or [name for name in undocumented if name not in on_the_page] == []


def test_inherited_fields_are_documented(subtests: pytest.Subtests) -> None:
    for documented in by_name(public_classes() & set(DOCUMENTED)):
        with subtests.test(documented=str(documented)):
            inherited = {name for name, base in fields(documented).items() if base is not documented}
            assert not inherited or ":inherited-members:" in DOCUMENTED[documented]


def test_device_parameters_are_documented_with_units() -> None:
    assert str(lpp.Device.declared()["clock"]) == "clock of the cores under load, to which all cycles refer, in Hz"
    assert str(lpp.Device.declared()["cores"]) == "cores of the device"


def test_every_error_is_public():
    of_ours = [
        name for name, each in vars(errors).items() if isinstance(each, type) and each.__module__ == errors.__name__
    ]
    assert len(of_ours) > 20
    assert [name for name in of_ours if getattr(lpp, name, None) is not getattr(errors, name)] == []


def test_the_examples_of_public_names_run(subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in lpp.__all__:
        for example in doctest.DocTestFinder(recurse=False).find(getattr(lpp, name), name, globs={}):
            with subtests.test(name=name):
                runner = doctest.DebugRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
                runner.run(example)


def test_public_functions_have_examples():
    functions = [name for name in lpp.__all__ if inspect.isfunction(getattr(lpp, name))]
    assert [name for name in functions if ">>> " not in (getattr(lpp, name).__doc__ or "")] == []
