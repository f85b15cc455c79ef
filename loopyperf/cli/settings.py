"""What several commands take, declared once: the kernel, its sizes, the device, the model, files, the format.

Each is a decorator; two are for a command of a kind: :func:`measuring` for one that runs kernels on a device, and
:func:`fitting` for one that makes a fit.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.shell_completion import CompletionItem

from loopyperf.calibration.choice import devices
from loopyperf.calibration.fit_library import FITTED_MODELS
from loopyperf.cli.completion import folders, names_or_files
from loopyperf.cli.kernel_source import KERNEL_SOURCE
from loopyperf.cli.streams import Form, Output
from loopyperf.counts.execution import COUNTINGS
from loopyperf.measurement import backends
from loopyperf.models.catalog import MODELS
from loopyperf.search.task import BOUNDS
from loopyperf.stages.compiled import COMPILERS

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


def single_value(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> str | None:
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


def parsed_number(text: str) -> Number:
    """Return the number that *text* is, an integer where it is one; raises ValueError if it is not a number."""
    try:
        return int(text)
    except ValueError:
        return float(text)


SIZE = NamedValue("a size", "n=4096", "an integer", int)
TYPICAL = NamedValue("what data decides", "j=27", "a number", parsed_number)


class BackendName(click.ParamType[str]):
    """What kernels run through: a name in the table of backends, but for ``replay``, which runs nothing."""

    name = "backend"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return *value*; fails, as Click has it, where no backend that runs kernels is called so."""
        if value == "replay" or value not in backends.BACKENDS:
            listed = " and ".join(backends.RUNNING)
            self.fail(f"no backend that runs kernels is called {value!r}; there are {listed}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Return the names that begin so."""
        return [CompletionItem(name) for name in backends.RUNNING if name.startswith(incomplete)]


BACKEND = BackendName()


Declared = TypeVar("Declared", bound=Callable[..., Any])
WEIGHTS = {"auto": None, "plain": False, "non-negative": True}
"""Which linear fit is kept: by default the one that generalises better."""
FILE = click.Path(path_type=Path)
MODEL = click.Choice(tuple(MODELS))

# {{{ what is asked about

kernel = click.argument("kernel", type=KERNEL_SOURCE, metavar="FILE.py:FUNCTION")
other_kernel = click.argument("other", type=KERNEL_SOURCE, metavar="[FILE.py:FUNCTION]", required=False)
variants = click.argument("variants", type=KERNEL_SOURCE, metavar="FILE.py:VARIANTS")
sizes = click.option(
    "--set",
    "sizes",
    multiple=True,
    type=SIZE,
    callback=by_name,
    metavar="NAME=VALUE",
    help="A size of the kernel; repeat for more.",
)
sizes_after = click.option(
    "--set-after",
    "sizes_after",
    multiple=True,
    type=SIZE,
    callback=by_name,
    metavar="NAME=VALUE",
    help="A size of the second kernel, in place of that of --set; repeat for more.",
)
device = click.option(
    "--device",
    multiple=True,
    callback=single_value,
    shell_complete=names_or_files(devices),
    help="Short name (see `loopyperf devices`); for models of the device, a description's path too.",
)
typical = click.option(
    "--typical",
    multiple=True,
    type=TYPICAL,
    callback=by_name_if_any,
    metavar="NAME=VALUE",
    help="A value that depends on data, e.g. the trip count of a loop: j=27; repeat for more.",
)
several_devices = click.option(
    "--device",
    "devices",
    multiple=True,
    callback=each_once,
    shell_complete=names_or_files(devices),
    help="Short name, or a description's path; repeat for more.",
)


def _models(what: str, *names: str, one: bool = False) -> Callable[[Declared], Declared]:
    """Declare an option that names models, of *one* or of several, for *what*."""
    callback = single_value if one else each_once
    return click.option(*names, type=MODEL, multiple=True, callback=callback, metavar="MODEL", help=what)


first_model = _models(
    "Model to show first; by default that of --fit, else that of the best fit, else pipeline.", "--model", one=True
)
only = _models("A model to ask; repeat for more. By default all.", "--only", "models")
model = _models("Which model answers; by default that of the best fit, else pipeline.", "--model", one=True)
model_of_both = _models("Which model answers; by default that of --fit, else pipeline.", "--model", one=True)
models = _models("A model to ask; repeat for more. By default all of them.", "--model", "models")
bounds = click.option(
    "--bounds",
    type=click.Choice(BOUNDS),
    multiple=True,
    callback=each_once,
    metavar="BOUND",
    help=f"Lower bound computed before the model is asked: {' or '.join(BOUNDS)}; repeat for both.",
)
fit = click.option(
    "--fit", type=click.Path(), help="Path of a fit or of a learned model, instead of the one for the device."
)
fit_of_one = click.option(
    "--fit", type=click.Path(), help="Path of a fit or learned model to use for its own model and device."
)

# }}}

compiler = click.option(
    "--compiler",
    type=click.Choice(COMPILERS),
    default="model",
    help="What tells registers and where private arrays live; auto: NVRTC where it can.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the whole answer as JSON.")


def form(command: Declared) -> Declared:
    """Declare in which form *command*, whose answer is a table, prints it."""
    forms = click.option(
        "--format",
        "form",
        type=click.Choice(get_args(Form)),
        default="text",
        help="text; json: the whole answer; csv: its rows, numbers in base SI units; md: its tables, as Markdown.",
    )
    return forms(click.option("--json", "form", flag_value="json", help="The same as --format json.")(command))


# {{{ files

fit_file = click.option("--fit", type=FILE, help="Path of a fit file, instead of the one for the device.")
kernels = click.option(
    "--kernels", type=FILE, shell_complete=folders, help="Folder of kernel files; by default the bundled ones."
)
archive = click.option("--archive", type=FILE, help="File for raw samples; an existing one is resumed.")
from_archive = click.option("--from-archive", type=FILE, help="Use the measurements in this archive; measure nothing.")


def output(
    what: str, default: Path | None = None, *, mark: str = "", makes_folders: bool = False
) -> Callable[[Declared], Declared]:
    """Declare the file that a command writes, for *what*; see :class:`Output` for the others."""
    where = Output(makes_folders=makes_folders, mark=mark)
    return click.option("--output", "-o", type=where, default=default, help=what)


# }}}

counting = click.option("--counting", type=click.Choice(COUNTINGS), default="executed", help="How work is counted.")


def explaining(command: Declared) -> Declared:
    """Declare of which kernel, on which devices and by which models *command* shows all that there is to say."""
    findings = click.option(
        "--findings/--no-findings", default=True, help="Whether to simulate changes that may make it faster."
    )
    return kernel(sizes(typical(several_devices(first_model(only(fit_of_one(findings(command))))))))


def measuring(command: Declared) -> Declared:
    """Declare through what, and on which device, *command* runs kernels."""
    backend = click.option("--backend", type=BACKEND, default="opencl", help="What to measure through: opencl or cuda.")
    part = click.option(
        "--device",
        help="Part of the device's name; by default CUDA's first one, or pyopencl's choice (PYOPENCL_CTX).",
    )
    return backend(part(command))


def fitting(command: Declared) -> Declared:
    """Declare which fit *command* makes, of which kernels, and where it goes."""
    where = output("Where to write the fit; by default where estimates look for it.", makes_folders=True)
    fitted = click.option(
        "--model",
        type=click.Choice(FITTED_MODELS),
        help="Which model to fit; by default the better one.",
    )
    weights = click.option(
        "--weights", type=click.Choice(tuple(WEIGHTS)), default="auto", help="Which linear fit to keep."
    )
    return kernels(where(fitted(weights(counting(command)))))
