"""Arguments and options that several commands share: kernel, sizes, device, model, files, output format.

Each is a decorator. Three declare a set of options: :func:`predicting` for commands that predict,
:func:`measuring` for commands that run kernels, and :func:`fitting` for commands that make a fit.
"""

import re
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, cast

import click

from loopyperf.calibration.choice import devices
from loopyperf.calibration.fit_library import FITTED_MODELS
from loopyperf.cli.kernel_source import ARGUMENTS, KERNEL_SOURCE
from loopyperf.cli.options import Declared, Output, form, names_or_files
from loopyperf.counts.execution import COUNTINGS
from loopyperf.measurement import backends
from loopyperf.models.catalog import MODELS
from loopyperf.stages.compile import COMPILERS

Number = int | float


class NamedValue(click.ParamType[tuple[str, Any]]):
    """A setting NAME=VALUE, parsed into a pair of name and value.

    The last ``=`` separates them, since the name may be a condition that contains ``=``.
    """

    name = "name=value"

    def __init__(self, what: str, example: str, number: str, read: Callable[[str], Any]) -> None:
        """Store the words for errors: *what* is set, an *example*, the kind of *number*; *read* parses the number."""
        self.what, self.example, self.number, self.read = what, example, number, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        """Return the name and the value in *value*; raises :class:`click.BadParameter` if it is not a setting."""
        name, _, text = str(value).rpartition("=")
        if not name:
            self.fail(f"{self.what} must be NAME=VALUE, e.g. {self.example}; got {value!r}", param, ctx)
        try:
            return name, self.read(text)
        except ValueError:
            self.fail(f"{self.what} must be {self.number}, got {value!r}", param, ctx)


def by_name(context: click.Context, option: click.Parameter, settings: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return name -> value; raises :class:`click.BadParameter` for a repeated name."""
    each_once(context, option, tuple(name for name, _ in settings))
    return dict(settings)


def by_name_if_any(context: click.Context, option: click.Parameter, settings: tuple[tuple[str, Any], ...]) -> Any:
    """Return name -> value as :func:`by_name` does, None without settings."""
    return by_name(context, option, settings) or None


def listed_once(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names in comma-separated *values*; raises :class:`click.BadParameter` for a repeated name."""
    return each_once(context, option, tuple(name for value in values for name in value.split(",")))


def each_once(context: click.Context, option: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return *names*; raises :class:`click.BadParameter` for a repeated name."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise click.BadParameter(f"{twice} is given twice", context, option)
    return names


def parsed_number(text: str) -> Number:
    """Parse *text* as an integer, else as a float; raises ValueError if it is neither."""
    try:
        return int(text)
    except ValueError:
        return float(text)


FACTOR = re.compile(r"(\d+)(?:\*\*(\d{1,3})|e(\d{1,3})|([kMG]))?")
"""a factor of a size: 4096, 2**12, 1e6, 4k"""
PREFIXES = {"k": 2**10, "M": 2**20, "G": 2**30}
MOST_VALUES = 10_000
"""maximum number of values of one size"""


def whole_number(text: str) -> int:
    """Return the integer in *text*, a product of factors such as 3, 2**12, 1e6 or 4k (4096); raises ValueError."""
    sign, found = (-1, text[1:]) if text.startswith("-") else (1, text)
    if not re.fullmatch(rf"{FACTOR.pattern}(?:\*{FACTOR.pattern})*", found) or len(found) > 60:
        raise ValueError(text)
    return sign * prod(
        int(base) ** int(power or 1) * 10 ** int(decimal or 0) * PREFIXES.get(prefix, 1)
        for base, power, decimal, prefix in FACTOR.findall(found)
    )


def size_values(text: str) -> int | list[int]:
    """Return one integer, or the integers of a list and of ranges FIRST:LAST:STEP, FIRST:LAST:*FACTOR."""
    values = [value for part in text.split(",") for value in _values_of(part)]
    return values[0] if len(values) == 1 and not set(text) & {",", ":"} else values


def _values_of(text: str) -> Iterator[int]:
    first, *rest = text.split(":")
    value = whole_number(first)
    if not rest:
        yield value
        return
    last, step = rest  # ValueError for another number of parts
    factor, addend = (whole_number(step[1:]), 0) if step.startswith("*") else (1, whole_number(step))
    if not (factor > 1 and value > 0) and not (factor == 1 and addend > 0):
        raise ValueError(text)
    for _ in range(MOST_VALUES):
        if value > whole_number(last):
            return
        yield value
        value = value * factor + addend
    raise ValueError(text)


INTEGER = "an integer, e.g. 4096, 2**12, 4k or 1e6"
SIZE = NamedValue("a size", "n=4096", INTEGER, whole_number)
SIZES = NamedValue("a size", "n=4096", f"{INTEGER}, a list 1k,2k or a range 256:8k:*2 or 256:8k:256", size_values)
TYPICAL = NamedValue("a typical value", "j=27", "a number", parsed_number)


BACKEND = click.Choice(backends.RUNNING)


FILE = click.Path(path_type=Path)

# {{{ the options of predictions; a command passes their values on to the function of its name, by keyword


def argument_values(text: str) -> tuple[Any, ...]:
    """Return the values of a builder's argument: Python literals or words, separated by commas."""
    try:
        value: Any = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return tuple(value for part in text.split(",") for value in argument_values(part)) if "," in text else (text,)
    return cast("tuple[Any, ...]", value if isinstance(value, tuple) and text[0] != "(" else (value,))


def _remembered(context: click.Context, option: click.Parameter, settings: tuple[tuple[str, Any], ...]) -> None:
    context.meta[ARGUMENTS] = by_name(context, option, settings)


def single_name(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
    """Return the only name in comma-separated *values*, if any; raises :class:`click.BadParameter` for several."""
    names = listed_once(context, option, values)
    if len(names) > 1:
        raise click.BadParameter(f"give only one, got {' and '.join(names)}", context, option)
    return names[0] if names else None


def _once(*names: str, **words: Any) -> Callable[[Declared], Declared]:
    """Declare an option that takes one name and may be given only once."""
    return click.option(*names, multiple=True, callback=single_name, **words)


def _sizes(option: str, name: str, words: str, each: NamedValue = SIZE) -> Callable[[Declared], Declared]:
    """Declare an *option* that sets sizes, with the help text *words*; *each* parses one."""
    return click.option(option, name, multiple=True, type=each, callback=by_name, metavar="NAME=VALUE", help=words)


def _of_builder(name: str, metavar: str) -> Callable[[Declared], Declared]:
    """Declare a kernel or variants, and the arguments of the function that builds them."""
    source = click.argument(name, type=KERNEL_SOURCE, metavar=metavar)
    arguments = click.option(
        "--arg",
        multiple=True,
        type=NamedValue("an argument", "tile=16", "a Python literal or a word", argument_values),
        callback=_remembered,
        expose_value=False,
        metavar="NAME=VALUE",
        help="Pass an argument to the function; repeat for more. `rank` takes several values: tile=8,16,32.",
    )
    return lambda command: source(arguments(command))


def _choices(text: str) -> tuple[Any, ...]:
    if not text:
        raise ValueError("no choices")
    return argument_values(text)


CHOICES = NamedValue("choices", "tile=8,16,32", "Python literals or words, separated by commas", _choices)
A_DEVICE = "Device name (see `loopyperf devices`) or, for models that need no fit, path of a device file"
PREDICTIONS: Mapping[str, Callable[[Any], Any]] = {
    "kernel": _of_builder("kernel", "FILE.py:FUNCTION"),
    "other": click.argument("other", type=KERNEL_SOURCE, metavar="[FILE.py:FUNCTION]", required=False),
    "variants": _of_builder("variants", "FILE.py:VARIANTS"),
    "sizes": _sizes("--set", "parameters", "Set a size of the kernel; repeat for more."),
    "several sizes": _sizes(
        "--set",
        "parameters",
        "Set a size of the kernel, or several: `n=1k,2k` or `n=256:8k:*2`; repeat for more sizes.",
        SIZES,
    ),
    "sizes after": _sizes(
        "--set-after", "after", "Set a size of the second kernel, overriding --set; repeat for more."
    ),
    "typical": click.option(
        "--typical",
        multiple=True,
        type=TYPICAL,
        callback=by_name_if_any,
        metavar="NAME=VALUE",
        help="Set a typical value for something that depends on data, e.g. a trip count: j=27; repeat for more.",
    ),
    "device": _once("--device", help=f"{A_DEVICE}.", shell_complete=names_or_files(devices)),
    "devices": click.option(
        "--device",
        multiple=True,
        callback=listed_once,
        help=f"{A_DEVICE}; for several, repeat it or write A,B.",
        shell_complete=names_or_files(devices),
    ),
    "model": _once(
        "--model",
        help="Model of the run time; default: that of --fit, else of the best fit for the device, else pipeline.",
        type=click.Choice(tuple(MODELS)),
        metavar="MODEL",
    ),
    "models": click.option(
        "--only",
        "models",
        multiple=True,
        callback=each_once,
        help="Run only this model; repeat for more. Default: all models.",
        type=click.Choice(tuple(MODELS)),
        metavar="MODEL",
    ),
    "fit": click.option(
        "--fit", type=click.Path(), help="Path of a fit or residual model; replaces the fit of its model and device."
    ),
    "compiler": click.option(
        "--compiler",
        type=click.Choice(COMPILERS),
        default="model",
        help="Source of register counts and of the placement of private arrays; auto: NVRTC if available.",
    ),
    "findings": click.option(
        "--findings/--no-findings", default=True, help="Simulate changes that may make the kernel faster."
    ),
}
"""name -> declaration; each occurs only here, so that it means the same in all commands"""
MODEL = "model", "fit", "compiler"
OF_KERNEL = "kernel", "sizes", "typical", "device", *MODEL
"""options of a prediction of one kernel on one device"""
EXPLAINING = "kernel", "sizes", "typical", "devices", *MODEL, "models", "findings"
"""options of an explanation"""


def predicting(*names: str) -> Callable[[Declared], Declared]:
    """Declare the options *names* of :data:`PREDICTIONS`, and the output format."""

    def declared(command: Declared) -> Declared:
        command = form(command)
        for name in reversed(names):
            command = PREDICTIONS[name](command)
        return command

    return declared


# }}}

# {{{ files

fit_file = click.option("--fit", type=FILE, help="Path of a fit file to use instead of the one for the device.")
kernels = click.option("--kernels", type=FILE, help="Folder of kernel files; default: the bundled ones.")
archive = click.option("--archive", type=FILE, help="Archive file for raw samples; an existing one is resumed.")
from_archive = click.option("--from-archive", type=FILE, help="Use the measurements in this archive; do not measure.")


def output(
    what: str, default: Path | None = None, *, mark: str = "", makes_folders: bool = False
) -> Callable[[Declared], Declared]:
    """Declare the output file of a command, with the help text *what*; see :class:`Output` for the other parameters."""
    where = Output(makes_folders=makes_folders, mark=mark)
    return click.option("--output", "-o", type=where, default=default, help=what)


# }}}

HOW_TO_COUNT = (
    "executed: count instructions as often as the hardware executes them; paper: once per iteration of their own loops"
)
counting = click.option("--counting", type=click.Choice(COUNTINGS), default="executed", help=f"{HOW_TO_COUNT}.")


def measuring(command: Declared) -> Declared:
    """Declare the backend and the device on which *command* runs kernels."""
    backend = click.option("--backend", type=BACKEND, default="opencl", help="Backend to measure with: opencl or cuda.")
    part = click.option(
        "--device",
        help="Part of the device's name; default: the first CUDA device, or pyopencl's choice (PYOPENCL_CTX).",
    )
    return backend(part(command))


def fitting(command: Declared) -> Declared:
    """Declare the kernels, the model and the output file of *command*, which makes a fit."""
    where = output("Output file for the fit; default: where predictions look for it.", makes_folders=True)
    fitted = click.option(
        "--model",
        type=click.Choice(FITTED_MODELS),
        help="Model to fit; default: the one that predicts held-out kernel classes better.",
    )
    return kernels(where(fitted(counting(command))))
