"""Report texts in narrow terminals: nothing is cut off, no word or number is broken, and no line is too long."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from loopyperf.cli.command_table import program
from loopyperf.display import (
    GAP,
    SHOWN_FIRST,
    SHOWN_LAST,
    Note,
    NoteKind,
    ReportText,
    Table,
    abridged,
    apart,
    called,
    folded,
    tagged,
)

ESTIMATE = f"estimate {Path(__file__).parent / 'kernels.py'}:doubled --set n=4096"
WIDTHS = (30, 40, 50, 60, 70, 80, 100, 120)
ROWS = (
    ("amd-r9-fury", "AMD Radeon R9 Fury, of the architecture GCN 3", "42.6 ps"),
    ("nvidia-v100", "  NVIDIA Tesla V100 PCIe", "137,438,953,472 ns"),
)
HEADINGS = ("device", "what it is called", "time")


def printed(width: int, *more: tuple[str, str, str]) -> list[str]:
    return list(Table(HEADINGS, (*ROWS, *more), text=2).lines(width))


@pytest.mark.parametrize("width", WIDTHS)
def test_words_and_numbers_are_not_broken_at_any_width(width: int) -> None:
    lines = printed(width)
    assert max(map(len, lines)) <= width
    together = " ".join(" ".join(lines).split())
    for name, words, time in ROWS:
        assert name in together
        assert time in together
        assert set(words.split()) <= set(together.replace(";", "").split())


def test_table_becomes_a_list_if_its_words_do_not_fit() -> None:
    # device names have 11 characters, "architecture" 12, the longest number 18, with 2 spaces before each
    assert printed(47)[0] == "  device       what it is                  time"
    assert printed(46) == [
        "  amd-r9-fury",
        "      what it is called: AMD Radeon R9 Fury,",
        "        of the architecture GCN 3; time:",
        "        42.6 ps",
        "  nvidia-v100",
        "      what it is called: NVIDIA Tesla V100",
        "        PCIe; time: 137,438,953,472 ns",
    ]


def test_list_rows_keep_their_indentation() -> None:
    lines = list(Table(("source", "time"), [("for i", ""), ("  a_fetch[i_inner, k_inner]", "1 µs")]).lines(20))
    assert lines == ["  for i", "    a_fetch[i_inner,", "      k_inner]", "        time: 1 µs"]


def test_very_long_words_are_broken_only_if_they_do_not_fit() -> None:
    formula = "a_fetch[i_inner,k_inner]*b_fetch[k_inner,j_inner]"
    assert formula in "".join(printed(90, ("x", formula, "1 s")))
    narrower = printed(80, ("x", formula, "1 s"))
    assert narrower[0].split()[0] == "device"
    assert max(map(len, narrower)) <= 80
    assert formula not in "".join(narrower)


def test_only_number_and_unit_stay_on_one_line() -> None:
    beginning = "takes so long as"
    for words in ("681 µs", "2.45 TB/s", "14.1 Tflop/s", "1.25 GB", "83 %", "137 ns", "1 s", "12 flop", "3 B/s"):
        lines = folded(f"{beginning} {words} or so", len(f"{beginning} {words}") - 1)
        assert lines[1].strip().startswith(words)
        assert lines[0] == beginning
    assert folded("there are 12 sizes", 13, "") == ["there are 12", "sizes"]


def test_words_in_a_number_column_are_wrapped() -> None:
    lines = list(Table(("model", "time"), [("linear", "at least 281 ms")]).lines(20))
    assert [line.rstrip() for line in lines] == ["  model         time", "  linear    at least", "              281 ms"]


def test_long_table_shows_first_and_last_rows() -> None:
    few = SHOWN_FIRST + SHOWN_LAST
    assert abridged(range(few), lambda each: (str(each), "row"), called=1) == [
        (str(each), "row") for each in range(few)
    ]
    rows = abridged(range(2000), lambda each: (str(each), "row"), called=1)
    assert [number for number, _ in rows] == [*map(str, range(SHOWN_FIRST)), "", "1997", "1998", "1999"]
    assert rows[SHOWN_FIRST] == ("", "1,988 rows omitted")


def test_headline_shows_all_sizes_and_typical_values() -> None:
    sizes = {"n": 4, "m": np.array([[8, 2]]), "k": np.array([[5]]), "l": np.array([], int), "big": 10**40}
    arguments = "n=4, m=2..8, k=5, l=none, big=about 10^40, typically j=27"
    assert called("rows", sizes, {"j": 27}) == f"rows({arguments})"
    assert tagged("6 variants", sizes, {"j": 27}) == f"6 variants ({arguments})"
    assert (called("rows", {}), tagged("6 variants", {})) == ("rows()", "6 variants")


def test_report_text_without_headline_starts_with_its_table() -> None:
    assert ReportText("", tables=[Table(("a",), [("b",)])]).text().splitlines() == [f"{GAP}a", f"{GAP}b"]


@pytest.mark.parametrize("command", ["devices", f"{ESTIMATE} --device amd-r9-fury", "devices show nvidia-v100"])
def test_commands_print_whole_words(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def words(columns: int) -> set[str]:
        monkeypatch.setenv("COLUMNS", str(columns))
        shown = CliRunner().invoke(program, command.split()).stdout
        assert max(map(len, shown.splitlines())) <= columns
        return set(re.findall(r"[A-Za-z]{2,}", shown))

    # In a list, the first cell and empty cells have no heading.
    expected = words(400) - {"device", "property", "number", "architecture", "description", "fits"}
    assert all(words(width) >= expected for width in (48, 60))


def test_empty_column_keeps_its_place() -> None:
    assert list(Table(("what", "", "time"), [("a", "", "")]).lines(80)) == ["  what     time", "  a"]


# {{{ common notes, and small parts

REPEATED = (
    Note(NoteKind.NO_FIT, "no fit for 'my-gpu'; using another model"),
    Note(NoteKind.PARAMETERS, "assumed latencies of my-gpu: DRAM 300 cycles; L2 200 cycles"),
    Note(NoteKind.LAUNCH_OVERHEAD, "launch overhead of my-gpu is unknown; assumed 0"),
    Note(NoteKind.NO_INTERVAL, "no prediction interval: the model is not calibrated"),
)


def test_common_notes_are_abbreviated_to_one_line() -> None:
    report_text = ReportText("k", notes=(REPEATED[0], "the loop i; runs once", *REPEATED[1:]))
    assert report_text.text(200).splitlines() == [
        "k",
        "  note: the loop i; runs once",
        "  4 notes, abbreviated: no fit for 'my-gpu', assumed latencies, launch overhead is unknown, no prediction "
        "interval (full text: .notes)",
    ]
    assert report_text.text(200, lists="").splitlines() == [
        "k",
        *(f"  note: {note}" for note in (report_text.notes[1], *REPEATED)),
    ]
    page = report_text.html()
    assert all(note.replace("'", "&#x27;") in page for note in report_text.notes)
    assert page.index("<details>") < page.index("DRAM 300 cycles")


def test_single_note_is_complete_and_clauses_are_not_repeated() -> None:
    assert ReportText("k", notes=REPEATED[1:2]).text().splitlines()[1] == f"  note: {REPEATED[1]}"
    of_two = [Note(note.kind, note.replace("my-gpu", name)) for note in REPEATED[1:3] for name in ("one", "two")]
    shown = ReportText("k", notes=of_two).text(200)
    assert "4 notes, abbreviated: assumed latencies, launch overhead is unknown (" in shown


@pytest.mark.parametrize(
    ("shares", "others"),
    [
        ((0.99, 0.006, 0.004), (0.006, 0.004)),
        ((0.99, 0.0101, -0.0001), ()),  # a single small part is shown
        ((1.3, -0.3, 0.009, -0.009), (0.009, -0.009)),
        ((0.5, 0.01, 0.01), ()),
        ((float("nan"), float("nan")), ()),  # there are no shares of an undefined sum
    ],
)
def test_small_parts_are_separated_by_their_magnitude(shares: tuple[float, ...], others: tuple[float, ...]) -> None:
    shown, small = apart(shares, lambda share: share)
    assert tuple(small) == others
    assert len(shown) + len(small) == len(shares)
    assert shown == [share for share in shares if share not in others or np.isnan(share)]


# }}}


def test_markdown_table_has_escaped_cells() -> None:
    report_text = ReportText("k", "1 s", [Table(("what", "time"), [("a|b", "1 s")])], remarks=["first", "  below"])
    assert report_text.markdown().splitlines() == [
        "k: 1 s",
        "",
        "| what | time |",
        "| :-- | --: |",
        r"| a\|b | 1 s |",
        "",
        "- first",
        "  - below",
    ]
