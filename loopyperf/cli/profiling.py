"""The command ``profile``, which runs a program and predicts its kernels on other devices."""

import json
import os
import runpy
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import click

import loopyperf as lpp
from loopyperf.applications.record import SUFFIX
from loopyperf.applications.recorder import Recorder, rank_and_ranks
from loopyperf.applications.traces import chrome_trace, speedscope
from loopyperf.cli import settings
from loopyperf.cli.console import print_answer
from loopyperf.cli.options import Form, Output, is_quiet, no_answer_yet
from loopyperf.cli.progress import counting_bar
from loopyperf.errors import KernelFileError, one_line
from loopyperf.executors import Processes
from loopyperf.files import write_file


@click.command(
    "profile",
    context_settings={"allow_interspersed_args": False},
    epilog="\b\nExample: loopyperf profile --device nvidia-v100 --parallelize app.py",
)
@settings.predicting("devices", *settings.MODEL, "typical")
@click.option("--module", "-m", "is_module", is_flag=True, help="PROGRAM is a module, as for `python -m`.")
@click.option("--record", type=settings.FILE, help="File for the record; default: the program's name with .lpp.")
@click.option(
    "--transform",
    metavar="MODULE:FUNCTION",
    help="Function from program to program, such as arraycontext's transform_loopy_program, for sequential programs.",
)
@click.option(
    "--scale",
    multiple=True,
    type=settings.NamedValue("a scale", "n=10", "a number", settings.parsed_number),
    callback=settings.by_name_if_any,
    metavar="NAME=FACTOR",
    help="Multiply this size of each kernel, for a larger problem than the recorded one; repeat for more.",
)
@click.option("--parallelize", is_flag=True, help="Run the outermost parallel loop of sequential programs in groups.")
@click.option(
    "--page", type=Output(), help="Write an HTML page with flame graphs, and why the slowest kernels are slow."
)
@click.option("--workers", type=click.IntRange(min=1), default=1, help="Number of processes that predict kernels.")
@click.option(
    "--time-limit", type=click.FloatRange(min=0, min_open=True), help="Time limit for each kernel, in seconds."
)
@click.option(
    "--speedscope", "flames", type=Output(), help="Write the times by call chain to this file for speedscope."
)
@click.option(
    "--chrome-trace", "timeline", type=Output(), help="Write the launches in order to this file for Perfetto."
)
@click.argument("program")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def profile_command(
    program: str,
    arguments: tuple[str, ...],
    device: tuple[str, ...],
    is_module: bool,
    record: Path | None,
    transform: str | None,
    parallelize: bool,
    workers: int,
    page: Path | None,
    flames: Path | None,
    timeline: Path | None,
    form: Form,
    **options: Any,
) -> None:
    """Run a Python program that uses Loopy, and predict the run time of its kernels on other devices.

    The program runs as usual; its kernels, launches and transfers are recorded in a file. PROGRAM may also be such a
    file, for predictions without running the program again.
    """
    devices = list(device) or [None]
    for each in devices:  # before the program runs
        lpp.predictor(device=each, **{name: options[name] for name in settings.MODEL})
    applied = _function(transform) if transform else lpp.parallelized if parallelize else None
    path, status = Path(program), 0
    if is_module or path.suffix != SUFFIX:
        path = record or Path(program.rpartition(".")[2] if is_module else Path(program).stem).with_suffix(SUFFIX)
        with nullcontext() if form == "text" and not is_quiet() else no_answer_yet():
            status = _run(program, arguments, is_module, path)
        if not is_quiet():
            words = f"recorded {path}; for other devices: loopyperf profile --device NAME {path}"
            click.echo(words, err=True)
    with counting_bar("predicting") as report:
        answer = lpp.project(
            path, devices, transform=applied, executor=Processes(workers) if workers > 1 else None,
            progress=report, **options,
        )  # fmt: skip
    for name, file, write in (("speedscope", flames, speedscope), ("Chrome trace", timeline, chrome_trace)):
        if file is not None:
            write_file(f"the {name} file", file, json.dumps(write(answer)))
    if page is not None:
        page_of = import_module("loopyperf.applications.page").page_of  # needs Jinja2
        write_file("the page", page, page_of(answer, devices, applied))
    print_answer(answer, form)
    raise SystemExit(status)


def _run(program: str, arguments: tuple[str, ...], is_module: bool, path: Path) -> int:
    """Run *program* in this process and record it in *path*; return its exit status."""
    if not is_module and not Path(program).is_file():
        raise KernelFileError(f"there is no file {program}")
    before, folder = (sys.argv, sys.path[0]), str(Path.cwd() if is_module else Path(program).resolve().parent)
    sys.argv, sys.path[0] = [program, *arguments], folder
    rank, _ = rank_and_ranks()
    recorder = Recorder(Path(os.devnull) if rank else path, sys.argv, owns_queues=True)
    recorder.start()
    how, status, process = "complete", 0, os.getpid()
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if status:
            how = f"the program exited with status {status}"
    except KeyboardInterrupt:
        recorder.stop("interrupted")
        raise
    except BaseException as error:
        how, status = f"the program raised {type(error).__name__}: {one_line(error)}", 1
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.argv, sys.path[0] = before
    recorder.stop(how)
    if rank or os.getpid() != process:  # another rank, or a child that the program forked and that returned from it
        os._exit(status)
    return status


def _function(name: str) -> Any:
    """Return the function ``MODULE:FUNCTION``; raises :class:`click.BadParameter` if there is none."""
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise click.BadParameter(f"cannot import {name}: {error}") from error
    finally:
        del sys.path[0]
    return found
