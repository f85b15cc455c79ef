"""Tests of ``--quiet`` and ``--verbose``, of shell completion, and of the exit statuses in the help."""

import re
import warnings
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.errors import LoopyperfWarning
from tests.cli.runner import run

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
OPTIONS = ("--set", "n=64", "--device", "amd-r9-fury")
EXTRA = "pip install 'loopyperf[opencl]', in a line that is longer than eighty columns"


@pytest.fixture
def noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``estimate`` emit one of our warnings, with a keyword and brackets, and one of a library."""
    original = lpp.estimate

    def warned(*arguments: object, **options: object) -> object:
        warnings.warn(f"this is ours, device=... and {EXTRA}", LoopyperfWarning, stacklevel=2)
        warnings.warn("this is of others", FutureWarning, stacklevel=2)
        return original(*arguments, **options)

    monkeypatch.setattr(lpp, "estimate", warned)


@pytest.mark.usefixtures("noisy")
@pytest.mark.parametrize(
    ("option", "said"),
    [
        ([], f"Warning: this is ours, device=... and {EXTRA}\n"),
        (["--quiet"], ""),
        (["-q"], ""),
        (["--verbose"], f"Warning: this is ours, device=... and {EXTRA}\nWarning: this is of others\n"),
    ],
)
def test_quiet_hides_warnings_and_verbose_shows_those_of_libraries(option: list[str], said: str) -> None:
    before, after = run(*option, "estimate", DOUBLED, *OPTIONS), run("estimate", DOUBLED, *OPTIONS, *option)
    assert (before.exit_code, before.stderr) == (0, said)
    assert (after.exit_code, after.stderr) == (0, said)
    assert before.stdout == after.stdout != ""


V100 = ("--set", "n=4096", "--device", "nvidia-v100")


def test_quiet_prints_only_the_time() -> None:
    assert run("estimate", DOUBLED, *V100, "--quiet").stdout == "4 µs\n"
    assert run("estimate", DOUBLED, *V100, "--quiet", "--wall").stdout == "36 µs\n"


def test_quiet_prints_only_the_variants_fastest_first(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "from tests.kernels import doubled\nvariants = {f'in {g}': doubled(group=g) for g in (1, 64)}\n"
    )
    assert run("rank", f"{tmp_path / 'made.py'}:variants", *V100, "--quiet").stdout == "in 64\nin 1\n"


def test_quiet_prints_only_the_table_of_a_comparison() -> None:
    said = run("compare", DOUBLED, *V100).stdout.splitlines()
    (table,) = (tuple(found) for found in [said[1:14]])
    assert run("compare", DOUBLED, *V100, "-q").stdout.splitlines() == list(table)
    assert said[14].startswith("  mwp-cwp")


def test_quiet_prints_the_reason_if_there_is_no_estimate() -> None:
    command = ("compare", DOUBLED, *V100, "--only", "linear")
    refused = run(*command, "--quiet")
    assert refused.exit_code == 1
    assert "no fit for device 'nvidia-v100'" in refused.stdout
    assert refused.stdout == run(*command).stdout


def test_verbose_prints_notes_in_full() -> None:
    shown, verbose = run("estimate", DOUBLED, *V100), run("estimate", DOUBLED, *V100, "--verbose")
    assert "notes, abbreviated: no fit for 'nvidia-v100'," in shown.stdout
    assert "(full text: --verbose)" in shown.stdout
    assert "note: no fit for 'nvidia-v100'; " in verbose.stdout
    assert "abbreviated" not in verbose.stdout


def test_verbose_prints_the_traceback_of_an_error() -> None:
    wrong = ("estimate", DOUBLED, "--set", "n=64", "--device", "furry")
    plain, verbose, quiet = run(*wrong), run(*wrong, "--verbose"), run(*wrong, "--quiet")
    assert plain.stderr == quiet.stderr
    assert re.match(r"Error: no device called .*\n$", plain.stderr)
    assert verbose.stderr.startswith("Traceback (most recent call last):\n")
    assert verbose.stderr.endswith(plain.stderr)
    assert {plain.exit_code, verbose.exit_code, quiet.exit_code} == {1}


def test_quiet_with_verbose_is_refused() -> None:
    refused = run("--quiet", "doctor", "--verbose")
    assert refused.exit_code == 2
    assert "--quiet and --verbose cannot be combined" in refused.stderr


def test_help_lists_the_exit_statuses() -> None:
    help_text = run("--help").stdout
    assert [line.split()[0] for line in re.findall(r"^  +\d+  .*", help_text, re.MULTILINE)] == [
        "0",
        "1",
        "2",
        "130",
        "143",
    ]
