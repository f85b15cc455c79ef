"""What several commands take, declared once: the kernel, its sizes, the device, the model, files, the format.

Each is a decorator; two are for a command of a kind: :func:`measuring` for one that runs kernels on a device, and
:func:`fitting` for one that makes a fit.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from loopyperf.calibration.library import FITTED_MODELS
from loopyperf.cli import named_values
from loopyperf.cli.backend_name import BACKEND
from loopyperf.cli.completion import folders, names_or_files
from loopyperf.cli.console import Form
from loopyperf.cli.kernel_source import KERNEL_SOURCE
from loopyperf.cli.output import Output
from loopyperf.counts.execution import COUNTINGS
from loopyperf.models.catalog import MODELS
from loopyperf.oracle.ranking.task import BOUNDS
from loopyperf.predict.choice import devices
from loopyperf.predict.compiled import COMPILERS

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
    type=named_values.SIZE,
    callback=named_values.by_name,
    metavar="NAME=VALUE",
    help="A size of the kernel; repeat for more.",
)
sizes_after = click.option(
    "--set-after",
    "sizes_after",
    multiple=True,
    type=named_values.SIZE,
    callback=named_values.by_name,
    metavar="NAME=VALUE",
    help="A size of the second kernel, in place of that of --set; repeat for more.",
)
device = click.option(
    "--device",
    multiple=True,
    callback=named_values.once,
    shell_complete=names_or_files(devices),
    help="Short name (see `loopyperf devices`); for models of the device, a description's path too.",
)
typical = click.option(
    "--typical",
    multiple=True,
    type=named_values.TYPICAL,
    callback=named_values.by_name_if_any,
    metavar="NAME=VALUE",
    help="A value that depends on data, e.g. the trip count of a loop: j=27; repeat for more.",
)
several_devices = click.option(
    "--device",
    "devices",
    multiple=True,
    callback=named_values.each_once,
    shell_complete=names_or_files(devices),
    help="Short name, or a description's path; repeat for more.",
)


def _models(what: str, *names: str, one: bool = False) -> Callable[[Declared], Declared]:
    """Declare an option that names models, of *one* or of several, for *what*."""
    callback = named_values.once if one else named_values.each_once
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
    callback=named_values.each_once,
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
