"""Sizes as they are written on the command line: ``--set n=4096``."""

from collections.abc import Iterable

from loopyperf.errors import ParameterError


def sizes_of(settings: Iterable[str]) -> dict[str, int]:
    """Return the sizes of *settings*; raises :class:`ParameterError` for what is none, and for one given twice."""
    sizes: dict[str, int] = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator or not name.isidentifier():
            raise ParameterError(f"a size is written NAME=VALUE, for example n=4096; received {setting!r}")
        if name in sizes:
            raise ParameterError(f"size {name} is given twice")
        try:
            sizes[name] = int(value)
        except ValueError as error:
            raise ParameterError(f"size {name} must be an integer, received {value!r}") from error
    return sizes
