"""Tests of the output formats (JSON, CSV, Markdown) and of colors on a terminal."""

import csv
import json
import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

import loopyperf as lpp
from tests.cli.runner import run
from tests.kernels import doubled

ROOT = Path(__file__).parents[2]
DOUBLED = f"{ROOT / 'tests' / 'kernels.py'}:doubled"
V100 = ("--set", "n=4096", "--device", "nvidia-v100")
TABLES = {
    "estimate": ("estimate", DOUBLED, *V100),
    "estimate on two devices": ("estimate", DOUBLED, *V100, "--device", "nvidia-h200"),
    "compare over the occupancy": ("compare", DOUBLED, *V100, "--occupancy"),
    "counters": ("counters", DOUBLED, *V100),
    "devices": ("devices",),
    "devices show": ("devices", "show", "nvidia-v100"),
}


def test_csv_and_markdown_have_rows_of_equal_length_and_json_has_two_options(subtests: pytest.Subtests) -> None:
    for name, command in TABLES.items():
        with subtests.test(name=name):
            result = run(*command, "--format", "csv")
            rows = list(csv.reader(StringIO(result.stdout)))
            assert (result.exit_code, result.stderr) == (0, "")
            assert len(rows) > 1
            assert {len(row) for row in rows} == {len(rows[0])}
            lines = run(*command, "--format", "md").stdout.splitlines()
            table = [line for line in lines if line.startswith("|")]
            assert len(table) > 2
            assert re.fullmatch(r"\|( :?--:? \|)+", table[1])
            assert len({line.count("|") - line.count(r"\|") for line in table}) == 1
    command = TABLES["estimate"]
    assert json.loads(run(*command, "--format", "json").stdout) == json.loads(run(*command, "--json").stdout)


def test_csv_numbers_equal_those_of_the_estimate() -> None:
    rows = list(csv.DictReader(StringIO(run(*TABLES["estimate"], "--format", "csv").stdout)))
    found = lpp.estimate(doubled(), n=4096, device="nvidia-v100")
    assert [float(row["seconds"]) for row in rows] == [row.seconds for row in found.breakdown.rows]


def terminal_output(**environment: str) -> str:
    """Return the output of ``estimate`` on a terminal with these environment variables."""
    parent, child = pty.openpty()
    started = subprocess.Popen(
        [sys.executable, "-m", "loopyperf", *TABLES["estimate"]],
        stdout=child,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
    )
    os.close(child)
    printed = b""
    while True:
        try:
            printed += (part := os.read(parent, 4096))
        except OSError:  # the other end is closed
            break
        if not part:
            break
    os.close(parent)
    assert started.wait() == 0
    return printed.decode()


ESCAPE = re.compile(r"\x1b\[([\d;]*)m")


def test_colors_are_printed_on_a_terminal_unless_no_color_is_set() -> None:
    colored, plain, piped = terminal_output(), terminal_output(NO_COLOR="1"), run(*TABLES["estimate"]).stdout
    assert "36" in ESCAPE.findall(colored)  # cyan
    assert not any(code.startswith(("3", "4", "9")) for code in ESCAPE.findall(plain))
    assert ESCAPE.findall(piped) == []
    assert ESCAPE.sub("", colored).split() == ESCAPE.sub("", plain).split()


def test_estimate_of_several_sizes_has_a_row_for_each_and_a_plot(tmp_path: Path):
    question = ("estimate", DOUBLED, "--device", "amd-r9-fury", "--set", "n=1k:4k:*2")
    printed = run(*question, "--plot", tmp_path / "sizes.png")
    assert (printed.exit_code, printed.stderr) == (0, "")
    assert re.findall(r"^ +([\d,]+) +[\d.]+ .s", printed.stdout, re.MULTILINE) == ["1,024", "2,048", "4,096"]
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")
    refused = run("estimate", DOUBLED, "--set", "n=1k", "--plot", tmp_path / "sizes.png")
    assert (refused.exit_code, "--plot needs one size with several values" in refused.stderr) == (2, True)


def test_estimate_on_several_devices_has_a_row_and_a_number_for_each():
    devices = ("nvidia-v100", "nvidia-h200")
    command = ("estimate", DOUBLED, "--set", "n=4096", "--device", ",".join(devices))
    expected = [lpp.estimate(doubled(), n=4096, device=device) for device in devices]
    rows = run(*command).stdout.splitlines()[2:4]
    assert [row.split()[:2] for row in rows] == [[each.device, each.model] for each in expected]
    assert run(*command, "--quiet").stdout.splitlines() == [each.alone for each in expected]
    assert json.loads(run(*command, "--json").stdout) == [each.to_dict() for each in expected]
    refused = run(*command, "--set", "k=1,2", "--plot", "sizes.svg")
    assert re.match(r"Error: --plot needs one size with several values, .*, and one device ", refused.stderr)
