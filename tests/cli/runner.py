"""Run the command line in this process."""

from click.testing import CliRunner, Result

from loopyperf.cli.command_table import program


def run(*arguments: object) -> Result:
    """Return the result of ``loopyperf`` with *arguments*, converted to strings."""
    return CliRunner().invoke(program, [str(argument) for argument in arguments])
