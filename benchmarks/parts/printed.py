"""Insert the output of a script of this folder into pages that cog writes (``make accuracy``)."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1]


def printed(script: str, *options: str) -> None:
    """Run *script* with *options* and print its output as a part of a page.

    Raises :class:`subprocess.CalledProcessError` if the script fails. Its error messages go to standard error.
    """
    command = [sys.executable, "-W", "ignore", FOLDER / script, *options]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print("\n" + "\n".join(line.rstrip() for line in output.strip().splitlines()) + "\n")
