"""What a shell is told that completes a word: which names there are, that a file goes here, what a kernel file has."""

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
"""what the path of a file begins with, and no name of ours"""
BREAKS = frozenset({":", "="})
"""what is a word of its own for bash, though no blanks are around it"""


def names(words: Callable[[], Iterable[str]]) -> Complete:
    """Return what completes a beginning to one of *words*."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        try:
            return [CompletionItem(word) for word in words() if word.startswith(begun)]
        except LoopyperfError:  # who only completes a word is told of nothing
            return []

    return complete


def names_or_files(words: Callable[[], Iterable[str]]) -> Complete:
    """Return what completes a beginning to one of *words*, or to a file where none of them begins so."""
    by_name = names(words)

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
        found = [] if begun.startswith(OF_PATHS) else by_name(context, parameter, begun)
        return found or [CompletionItem(begun, type="file")]

    return complete


def folders(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return that the shell completes to a folder."""
    return [CompletionItem(begun, type="dir")]


def in_kernel_file(begun: str) -> list[CompletionItem]:
    """Return to what the beginning of ``FILE.py:FUNCTION`` is completed: a file, or what is defined in it."""
    file, colon, name = begun.rpartition(":")
    path = file if colon else begun
    defined = [each for each in defined_in(Path(path)) if not colon or each.startswith(name)]
    if colon or defined:
        return [CompletionItem(f"{path}:{each}") for each in defined]
    return [CompletionItem(begun, type="file")]


def defined_in(path: Path) -> list[str]:
    """Return the public names that the Python file at *path* defines, without executing it: its functions first."""
    try:
        with warnings.catch_warnings(action="ignore"):  # who only completes a word is told of nothing
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
    """Completion in bash, for which ``matmul.py:tiled`` and ``n=64`` are three words each; it completes the last."""

    before = ""
    """what bash has in words of its own before what it completes"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words as they were typed, and the one that is begun."""
        split, last = super().get_completion_args()
        words: list[str] = []
        for previous, word in zip(["", *split], [*split, last], strict=True):
            if words and BREAKS & {previous, word}:
                words[-1] += word
            else:
                words.append(word)
        *complete, begun = words
        self.before = begun if last in BREAKS else begun.removesuffix(last)
        return complete, begun

    def format_completion(self, item: CompletionItem) -> str:
        """Return what is to stand in place of the word that bash completes."""
        return f"{item.type},{item.value.removeprefix(self.before)}"
