"""Groups of commands whose help has the whole summary of each, where click would cut it off at the end of a line."""

import click

LONGEST = 1000
"""letters of a summary: more than any has"""


class Summaries(click.Group):
    """A group of commands that are listed with their whole summaries."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a row for each command, as many lines as its summary takes."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, command.get_short_help_str(limit=LONGEST)) for name, command in sorted(self.commands.items())]
            )
