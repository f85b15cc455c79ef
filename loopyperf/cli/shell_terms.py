"""What messages say to write in Python, in the words of the command line.

Messages name what to state as a keyword with its value, ``device=...`` or ``typical={'j': 10}``, which is what a caller
writes. Whoever typed a command writes ``--device ...`` and ``--typical j=10``. This is the one place where the one is
made of the other, by the options that the command has, so that no message need know of both.
"""

import re
import shlex
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from inspect import signature

import click

ASKED: Mapping[str, str] = {
    "estimate": "loopyperf.predict.estimate",
    "rank": "loopyperf.oracle.ranking.rank",
    "compare": "loopyperf.oracle.comparison",
    "explain": "loopyperf.oracle.explanation.explain",
}
"""what takes options and sizes in Python, with the module of each: imported for an error that names a keyword alone"""
TYPICAL = re.compile(r"typical=\{(?P<name>'[^']*'|\"[^\"]*\"): (?P<value>'[^']*'|[^{}'\"]+)\}")
KEYWORD = re.compile(r"(?<![\w.-])(?<!--set )(?P<name>[A-Za-z_]\w*)=(?P<value>\.\.\.|'[^']*'|\"[^\"]*\")")
PATHS: Mapping[str, re.Pattern[str]] = {
    "--fit": re.compile(r"\bgive (?=the path of a (?:fit|learned model)\b)"),
    "--kernels": re.compile(r"\bgive (?=the folder (?:of kernels|that)\b)"),
}
"""by option: where a message asks for a file or a folder in words, without naming a keyword"""


def in_shell_terms(text: str, command: click.Command | None = None) -> str:
    """Return *text* with keywords and their values as options of *command*, by default the one that is being run.

    What it has no option for stays as it is. A keyword that is not an option in Python either is a size, where its
    value is left out. A file or a folder that is asked for in words gets the name of its option.
    """
    context = click.get_current_context(silent=True)
    asked = command or (None if context is None else context.command)
    known = frozenset[str]() if asked is None else frozenset(each for param in asked.params for each in param.opts)
    if "--typical" in known:
        text = TYPICAL.sub(_typical, text)
    for option in PATHS.keys() & known:
        text = PATHS[option].sub(f"give {option}, ", text)

    def of_shell(found: re.Match[str]) -> str:
        name, value = found["name"], found["value"]
        if f"--{name}" in known:
            return f"--{name} {value if value == '...' else shlex.quote(value[1:-1])}"
        is_size = "--set" in known and value == "..." and name not in _keywords()
        return f"--set {found[0]}" if is_size else found[0]

    return KEYWORD.sub(of_shell, text)


def _typical(found: re.Match[str]) -> str:
    name, value = found["name"][1:-1], found["value"].strip("'")
    return f"--typical {shlex.quote(f'{name}={value}')}"


@cache
def _keywords() -> frozenset[str]:
    """Return the options that have names in Python: what else has one is a size."""
    asked = (getattr(import_module(module), name) for name, module in ASKED.items())
    return frozenset(name for each in asked for name in signature(each).parameters)
