"""What a script of this folder prints, for pages that cog writes: ``make accuracy``."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1]


def printed(script: str, *options: str) -> None:
    """Print what *script* prints with *options*, as a part of a page.

    Raises :class:`subprocess.CalledProcessError` where it fails; what it says of that is on standard error.
    """
    command = [sys.executable, "-W", "ignore", FOLDER / script, *options]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print("\n" + "\n".join(line.rstrip() for line in told.strip().splitlines()) + "\n")
