"""Groups of commands whose help has the whole summary of each, where click would cut it off at the end of a line."""

from collections.abc import Mapping

import click
from click.shell_completion import CompletionItem

LONGEST = 1000
"""letters of a summary: more than any has"""


class Summaries(click.Group):
    """A group of commands that are listed with their whole summaries."""

    def summaries(self) -> Mapping[str, str]:
        """Return what each command does, by its name."""
        return {name: command.get_short_help_str(limit=LONGEST) for name, command in self.commands.items()}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a row for each command, as many lines as its summary takes."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self.summaries().items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the names of commands, or of options, that begin so."""
        named = [(name, does) for name, does in self.summaries().items() if name.startswith(incomplete)]
        # Group's own would ask for each command, and not only for its summary.
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*(CompletionItem(name, help=does) for name, does in named), *options]
