"""The command line as somebody types it, in this process."""

from click.testing import CliRunner, Result

from loopyperf.cli.command_table import program


def run(*arguments: object) -> Result:
    """Return what ``loopyperf`` does with *arguments*, each in words."""
    return CliRunner().invoke(program, [str(argument) for argument in arguments])
