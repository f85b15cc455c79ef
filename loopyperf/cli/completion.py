"""Shell completion of names and files."""

from collections.abc import Callable, Iterable
from contextlib import suppress

import click
from click.shell_completion import BashComplete, CompletionItem

from loopyperf.errors import LoopyperfError

OF_PATHS = (".", "/", "~")
"""first characters of a path, which no name starts with"""
BREAKS = frozenset({":", "="})
"""characters that bash treats as separate words"""


def names_or_files(
    names: Callable[[], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a completer for *names*, and for files if none of them matches."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found: list[CompletionItem] = []
        if not incomplete.startswith(OF_PATHS):
            with suppress(LoopyperfError):  # completion must not print errors
                found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return complete


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
