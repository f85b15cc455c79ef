"""Kernels named on the command line as ``FILE.py:FUNCTION``."""

import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from click.shell_completion import CompletionItem

from loopyperf.cli.options import no_answer_yet
from loopyperf.errors import KernelFileError, one_line
from loopyperf.files import is_file, why_no_file
from loopyperf.kernel.loopy_passes import Program, without_dumps


class KernelSource(click.ParamType[str]):
    """A function in a file that builds a kernel, or several."""

    name = "file.py:function"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return *value*; raises :class:`click.BadParameter` unless it names a file and a function."""
        file, _, name = str(value).rpartition(":")
        if not file or not name:
            self.fail(f"a kernel must be FILE.py:FUNCTION, e.g. matmul.py:tiled; got {value!r}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell complete a file."""
        return [CompletionItem(incomplete, type="file")]


KERNEL_SOURCE = KernelSource()
ARGUMENTS = f"{__name__}.arguments"
"""key of the builder's arguments in Click's context: name -> values"""


def given_arguments() -> Mapping[str, tuple[Any, ...]]:
    """Return the values of ``--arg``, by name."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(ARGUMENTS, {})


def load_program(source: str) -> Program:
    """Return the Loopy kernel that FUNCTION in FILE.py returns, or that is the attribute of that name.

    Raises :class:`KernelFileError` if it is not a Loopy kernel, and what :func:`load_built` raises.
    """
    built = load_built(source)
    if not isinstance(built, Program):
        what = "None (missing return statement?)" if built is None else f"{type(built).__name__}"
        what += "; `loopyperf rank` compares variants" if isinstance(built, Mapping | list) else ""
        raise KernelFileError(f"{source} must be a Loopy kernel, as loopy.make_kernel(...) returns it; got {what}")
    return built


def load_variants(source: str) -> Any:
    """Return the variants that VARIANTS in FILE.py holds, or that the function of that name returns.

    With several values of ``--arg``, FUNCTION builds a variant for each combination. Raises :class:`KernelFileError`
    if it is a single kernel, and what :func:`load_built` raises.
    """
    given = given_arguments()
    if any(len(values) > 1 for values in given.values()):
        function = _named(source)
        choices = [dict(zip(given, values, strict=True)) for values in product(*given.values())]
        return {
            ", ".join(f"{name}={value}" for name, value in choice.items() if len(given[name]) > 1): partial(
                function, **choice
            )
            for choice in choices
        }
    built = load_built(source)
    if isinstance(built, Program):
        raise KernelFileError(
            f"{source} is a single kernel; give several values of an argument, e.g. --arg tile=8,16, or name a mapping "
            f"in {source.rpartition(':')[0]}, e.g. variants = {{'small': partial(f, 8), 'large': partial(f, 16)}}"
        )
    return built


def load_built(source: str) -> Any:
    """Return what FUNCTION in FILE.py returns, or the module attribute of that name if it is not a function.

    Raises :class:`KernelFileError` if there is no such file or attribute, or the function fails or needs arguments.
    """
    name, given = source.rpartition(":")[2], given_arguments()
    built = _named(source)
    if not callable(built) or hasattr(built, "entrypoints"):
        if given:
            raise KernelFileError(f"{source} is not a function; drop --arg")
        return built
    if several := [name for name, values in given.items() if len(values) != 1]:
        raise KernelFileError(f"{' and '.join(several)} must have one value here; `loopyperf rank` compares several")
    arguments = {name: value for name, (value,) in given.items()}
    if missing := [name for name in _needed(built) if name not in arguments]:
        raise KernelFileError(
            f"{source}() needs arguments: {', '.join(missing)}; give --arg {missing[0]}=VALUE, or default values"
        )
    try:
        with no_answer_yet(), without_dumps():
            return built(**arguments)
    except (Exception, SystemExit) as error:  # the user's code may raise anything
        where = _place(error, source.rpartition(":")[0])
        raise KernelFileError(f"{where}: {name}() failed with {type(error).__name__}: {one_line(error)}") from error


def load_builder(source: str) -> Callable[..., Any]:
    """Return FUNCTION in FILE.py with the values of ``--arg``.

    Raises :class:`KernelFileError` if it is not a function, or if ``--arg`` has several values of a name.
    """
    function, given = _named(source), given_arguments()
    if not callable(function) or isinstance(function, Program):
        raise KernelFileError(f"{source} is not a function; name one that takes the arguments of --choose")
    if several := [name for name, values in given.items() if len(values) != 1]:
        raise KernelFileError(f"--arg {several[0]} has several values; use --choose {several[0]}=...")
    return partial(function, **{name: value for name, (value,) in given.items()}) if given else function


def _named(source: str) -> Any:
    """Return the attribute FUNCTION of FILE.py; raises :class:`KernelFileError` if there is none."""
    file, _, name = source.rpartition(":")
    module = _imported(Path(file))
    if not hasattr(module, name):
        defined = ", ".join(_defined(module)) or "no kernels, functions or variants"
        raise KernelFileError(f"{file} has no {name!r}; it defines: {defined}")
    return getattr(module, name)


def _place(error: BaseException, file: str) -> str:
    """Return *file* with the number of its line that was executed last when *error* was raised."""
    own = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename) == Path(file).absolute()
    ]
    return f"{file}:{own[-1]}" if own else file


def words_on(source: str) -> str:
    """Return the docstring of FUNCTION in FILE.py, which :func:`load_program` has loaded; empty if it has none."""
    file, _, name = source.rpartition(":")
    built = getattr(_imported(Path(file)), name)
    return (inspect.getdoc(built) or "") if inspect.isfunction(built) else ""


def _defined(module: ModuleType) -> list[str]:
    """Return the names in *module* that a command accepts: kernels, functions, and possible variants."""
    public = {name: value for name, value in vars(module).items() if not name.startswith("_")}
    return [name for name, value in public.items() if _may_be_named(value, module)]


def _may_be_named(value: object, module: ModuleType) -> bool:
    if isinstance(value, Program | Mapping | list | tuple | partial):
        return True
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _needed(function: Callable[..., Any]) -> list[str]:
    """Return the required arguments of *function*, as far as its signature is known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in optional
    ]


def _imported(path: Path) -> ModuleType:
    """Return the module in the file at *path*; it is imported once, as any module is."""
    origin = str(path.absolute())
    name = _module_name(path.stem, origin)
    if _is_from(sys.modules.get(name), origin):
        return sys.modules[name]
    spec = spec_from_file_location(name, origin)
    if not is_file(path):
        raise KernelFileError(f"no Python file at {path}{why_no_file(path)}; give the path of the file with the kernel")
    if spec is None or spec.loader is None:
        raise KernelFileError(f"{path} is not a Python file: its name must end with .py")
    # Loopy's disk cache pickles objects that a kernel refers to, so the module must be importable by its name.
    module = sys.modules[name] = module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    try:
        with no_answer_yet(), without_dumps():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        where = _place(error, str(path))
        raise KernelFileError(f"{where}: cannot be imported: {type(error).__name__}: {one_line(error)}") from error
    return module


def _module_name(stem: str, origin: str) -> str:
    """Return the file's stem, or another name if a module of that name is loaded (a kernel file ``copy.py``)."""
    loaded = sys.modules.get(stem)
    return stem if loaded is None or _is_from(loaded, origin) else f"loopyperf_kernel_in_{stem}"


def _is_from(module: ModuleType | None, origin: str) -> bool:
    return getattr(module, "__file__", None) == origin
