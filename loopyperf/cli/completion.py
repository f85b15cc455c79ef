"""Shell completion: names, files, and the functions in a kernel file."""

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem

from loopyperf.errors import LoopyperfError
from loopyperf.files import below_home

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
OF_PATHS = (".", "/", "~")
"""first characters of a path, which no name starts with"""
BREAKS = frozenset({":", "="})
"""characters that bash treats as separate words"""


def names(words: Callable[[], Iterable[str]]) -> Complete:
    """Return a completer for *words*."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(word) for word in words() if word.startswith(incomplete)]
        except LoopyperfError:  # completion must not print errors
            return []

    return complete


def names_or_files(words: Callable[[], Iterable[str]]) -> Complete:
    """Return a completer for *words*, and for files if none of them matches."""
    by_name = names(words)

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [] if incomplete.startswith(OF_PATHS) else by_name(context, parameter, incomplete)
        return found or [CompletionItem(incomplete, type="file")]

    return complete


def folders(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete a folder."""
    return [CompletionItem(incomplete, type="dir")]


def in_kernel_file(incomplete: str) -> list[CompletionItem]:
    """Return completions of a partial ``FILE.py:FUNCTION``: a file, or the names that the file defines."""
    file, colon, name = incomplete.rpartition(":")
    path = file if colon else incomplete
    defined = [each for each in defined_in(Path(path)) if not colon or each.startswith(name)]
    if colon or defined:
        return [CompletionItem(f"{path}:{each}") for each in defined]
    return [CompletionItem(incomplete, type="file")]


def defined_in(path: Path) -> list[str]:
    """Return the public names that the Python file at *path* defines, functions first; does not execute the file."""
    try:
        with warnings.catch_warnings(action="ignore"):  # completion must not print warnings
            body = ast.parse(below_home(path).read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        return []
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [each for each in dict.fromkeys([*functions, *_assigned(body)]) if not each.startswith("_")]


def _assigned(body: Iterable[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


class BashWords(BashComplete):
    """Completion in bash, which splits ``matmul.py:tiled`` and ``n=64`` into words at ``:`` and ``=``."""

    before = ""
    """the part of the incomplete argument that bash has split off"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the complete arguments as typed, and the incomplete one."""
        split, last = super().get_completion_args()
        words: list[str] = []
        for previous, word in zip(["", *split], [*split, last], strict=True):
            if words and BREAKS & {previous, word}:
                words[-1] += word
            else:
                words.append(word)
        *complete, incomplete = words
        self.before = incomplete if last in BREAKS else incomplete.removesuffix(last)
        return complete, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return the replacement of the word that bash completes."""
        return f"{item.type},{item.value.removeprefix(self.before)}"
