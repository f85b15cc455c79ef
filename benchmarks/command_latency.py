"""Print the processor time of each command with a warm cache, as a Markdown table.

    python benchmarks/command_latency.py

The time is the less of two runs, after one that fills the cache, and includes starting Python and importing Loopy.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
ON = "--set n=4096 --device nvidia-v100"
KERNEL = f"matmul.py:tiled {ON}"
COMMANDS = (
    "--help",
    "devices",
    f"estimate {KERNEL}",
    f"compare {KERNEL}",
    f"explain {KERNEL}",
    f"advise {KERNEL}",
    f"diff {KERNEL},nvidia-a100",
    f"counters {KERNEL}",
    f"trace {KERNEL} -o {{0}}/trace.json",
    f"report {KERNEL} -o {{0}}/report.html",
    f"rank tiles.py:variants {ON}",
    "devices show nvidia-v100",
    "doctor",
    "cache",
)
RUNS = 2


def seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """Return the processor time of a command and its workers; raises :class:`CalledProcessError` if it fails."""
    before = os.times()
    command = [sys.executable, "-m", "loopyperf", *arguments]
    subprocess.run(command, cwd=ROOT / "docs" / "tutorial", env=environment, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Print a row for each command."""
    print("| command | processor time (s) |\n|---|---|")
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "LOOPYPERF_CACHE": folder, "PYTHONPATH": str(ROOT)}
        for command in COMMANDS:
            times = [seconds(command.format(folder).split(), environment) for _ in range(1 + RUNS)]
            print(f"| `{command.partition(' -o')[0]}` | {min(times[1:]):.2f} |", flush=True)


if __name__ == "__main__":
    main()
