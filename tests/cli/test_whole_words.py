"""Tables in narrow terminals: nothing is cut off, no word and no number is broken, and no line is too wide."""

import io
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from loopyperf.cli.console import table_of
from loopyperf.cli.program import program

ESTIMATE = f"estimate {Path(__file__).parents[1] / 'kernels.py'}:doubled --set n=4096"
WIDTHS = (30, 40, 50, 60, 70, 80, 100, 120)
ROWS = (
    ("amd-r9-fury", "AMD Radeon R9 Fury, of the architecture GCN 3", "42.6 ps"),
    ("nvidia-v100", "NVIDIA Tesla V100 PCIe", "137,438,953,472 ns"),
)


def printed(width: int, longest: str = "") -> list[str]:
    table = table_of("device", "what it is called", "time", left=2, whole=1, title="some devices")
    for name, words, time in ROWS:
        table.add_row(name, Padding(Text(f"{words} {longest}".rstrip()), (0, 0, 0, 2)), time)
    out = io.StringIO()
    Console(file=out, width=width, markup=False, soft_wrap=True).print(table)
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", WIDTHS)
def test_words_and_numbers_are_whole_in_any_width(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    together = " ".join(" ".join(line.replace("│", " ").split()) for line in lines)
    for name, words, time in ROWS:
        assert name in together
        assert time in together
        assert set(words.split()) <= set(together.split())


def test_a_table_is_one_as_long_as_its_words_fit() -> None:
    # device 11, Architecture 12 and 2 of the indentation, 18 of the longest number; 3 for each column, and one
    assert [line[0] for line in printed(53)][1] == "┏"
    assert printed(52) == [
        "some devices",
        "amd-r9-fury",
        "    what it is called: AMD Radeon R9 Fury, of the",
        "    architecture GCN 3",
        "    time: 42.6 ps",
        "nvidia-v100",
        "    what it is called: NVIDIA Tesla V100 PCIe",
        "    time: 137,438,953,472 ns",
    ]


def test_only_a_word_longer_than_most_is_broken() -> None:
    formula = "a_fetch[i_inner,k_inner]*b_fetch[k_inner,j_inner]"
    lines = printed(70, formula)
    assert lines[1][0] == "┏"
    assert max(map(len, lines)) <= 70
    assert formula not in "".join(lines)


@pytest.mark.parametrize("command", ["devices", f"{ESTIMATE} --device amd-r9-fury", "devices show nvidia-v100"])
@pytest.mark.parametrize("width", [48, 60])
def test_commands_print_whole_words(command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(columns: int) -> set[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        printed = CliRunner().invoke(program, command.split()).stdout
        assert max(map(len, printed.splitlines())) <= columns
        return set(re.findall(r"[A-Za-z]{2,}", printed))

    # In lines, what stands first has no name, and what is empty; of a device's numbers nothing has one.
    assert words(width) >= words(400) - {"device", "property", "number", "value", "meaning", "source"}
