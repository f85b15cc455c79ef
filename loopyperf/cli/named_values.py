"""What is named on the command line: NAME=VALUE, sizes and what data decides, and what is named once."""

from collections.abc import Callable
from typing import Any

import click

Number = int | float


class NamedValue(click.ParamType[tuple[str, Number]]):
    """A setting NAME=VALUE, read as the pair of both.

    What stands before the last ``=`` is the name, since conditions on data have such signs of their own.
    """

    name = "name=value"

    def __init__(self, what: str, example: str, number: str, read: Callable[[str], Number]) -> None:
        """Take *what* is named, an *example* of it, and what *number* it has to be, as *read* makes of a text."""
        self.what, self.example, self.number, self.read = what, example, number, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Number]:
        """Return name and number of *value*, a text; fails, as Click has it, if it is not a setting."""
        name, _, text = str(value).rpartition("=")
        if not name:
            self.fail(f"{self.what} is written NAME=VALUE, as in {self.example}; received {value!r}", param, ctx)
        try:
            return name, self.read(text)
        except ValueError:
            self.fail(f"{self.what} is {self.number}, received {value!r}", param, ctx)


def by_name(
    context: click.Context, option: click.Parameter, settings: tuple[tuple[str, Number], ...]
) -> dict[str, Number]:
    """Return name -> number of *settings*; raises :class:`click.BadParameter` for a name that is given twice."""
    each_once(context, option, tuple(name for name, _ in settings))
    return dict(settings)


def by_name_if_any(
    context: click.Context, option: click.Parameter, settings: tuple[tuple[str, Number], ...]
) -> dict[str, Number] | None:
    """Return name -> number of *settings* as :func:`by_name` does, None if there are no settings."""
    return by_name(context, option, settings) or None


def once(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the only one of *values*, None without any; raises :class:`click.BadParameter` for several."""
    if len(values) > 1:
        raise click.BadParameter(f"give only one; received {' and '.join(values)}", context, option)
    return values[0] if values else None


def each_once(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return *names*; raises :class:`click.BadParameter` for one that is given twice."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice} is given twice", context, option)
    return names


def number(text: str) -> Number:
    """Return the number that *text* is, an integer where it is one; raises ValueError if it is not a number."""
    try:
        return int(text)
    except ValueError:
        return float(text)


SIZE = NamedValue("a size", "n=4096", "an integer", int)
TYPICAL = NamedValue("what data decides", "j=27", "a number", number)
