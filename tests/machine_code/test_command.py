"""Test the command ``python -m tests.machine_code``."""

import pytest

from .__main__ import main


@pytest.mark.usefixtures("listings")
def test_command_prints_the_counts_of_a_warp(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["machine_code", "transposition 16", "--size", "n=64", "--group", "1,2,0"])
    main()
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading == "transposition on sm_90, n = 64, group (1, 2, 0), warp 0 of 8"
    counts = {name: int(count) for count, name in (row.split(maxsplit=1) for row in rows)}
    assert counts.pop("in all") == sum(counts.values())
    assert [counts[name] for name in ("LDG", "STS", "BAR", "LDS", "STG")] == [1] * 5
