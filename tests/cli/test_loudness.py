"""``--quiet`` and ``--verbose``; completion; and what the exit statuses are said to be."""

import re
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopyperf.cli import estimate_command as estimate
from loopyperf.cli.command_table import COMMANDS, program
from loopyperf.errors import LoopyperfWarning
from tests.cli.invoked import run

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
ASKED = ("--set", "n=64", "--device", "amd-r9-fury")
EXTRA = "pip install 'loopyperf[opencl]', in a line that is longer than eighty columns"


@pytest.fixture
def noisy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an estimate warn, of ours, with a keyword and brackets, and of what a library has to say."""
    ask = estimate.estimate

    def warned(*arguments: object, **options: object) -> object:
        warnings.warn(f"this is ours, device=... and {EXTRA}", LoopyperfWarning, stacklevel=2)
        warnings.warn("this is of others", FutureWarning, stacklevel=2)
        return ask(*arguments, **options)

    monkeypatch.setattr(estimate, "estimate", warned)


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
def test_quiet_leaves_out_warnings_and_verbose_has_those_of_others(option: list[str], said: str) -> None:
    before, after = run(*option, "estimate", DOUBLED, *ASKED), run("estimate", DOUBLED, *ASKED, *option)
    assert (before.exit_code, before.stderr) == (0, said)
    assert (after.exit_code, after.stderr) == (0, said)
    assert before.stdout == after.stdout != ""


V100 = ("--set", "n=4096", "--device", "nvidia-v100")


def test_quiet_prints_the_time_alone() -> None:
    assert run("estimate", DOUBLED, *V100, "--quiet").stdout == "854 ns\n"


def test_quiet_prints_the_variants_alone_fastest_first(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(
        "from tests.kernels import doubled\nvariants = {f'in {g}': doubled(group=g) for g in (1, 64)}\n"
    )
    assert run("rank", f"{tmp_path / 'made.py'}:variants", *V100, "--quiet").stdout == "in 64\nin 1\n"


def test_quiet_prints_the_table_of_a_comparison_alone() -> None:
    said = run("compare", DOUBLED, *V100).stdout.splitlines()
    (table,) = (tuple(found) for found in [said[1:14]])
    assert run("compare", DOUBLED, *V100, "-q").stdout.splitlines() == list(table)
    assert said[14].startswith("  mwp-cwp")


def test_quiet_says_why_there_is_no_answer() -> None:
    asked = ("compare", DOUBLED, *V100, "--model", "linear")
    refused = run(*asked, "--quiet")
    assert refused.exit_code == 1
    assert "no fit for device 'nvidia-v100'" in refused.stdout
    assert refused.stdout == run(*asked).stdout


def test_verbose_has_notes_in_full_that_are_a_line_otherwise() -> None:
    shown, verbose = run("estimate", DOUBLED, *V100), run("estimate", DOUBLED, *V100, "--verbose")
    assert "notes, abbreviated: no fit for 'nvidia-v100'," in shown.stdout
    assert "(full text: --verbose)" in shown.stdout
    assert "note: launch overhead of nvidia-v100 is unknown; assumed 0\n" in verbose.stdout
    assert "abbreviated" not in verbose.stdout


def test_an_error_has_its_traceback_with_verbose() -> None:
    wrong = ("estimate", DOUBLED, "--set", "n=64", "--device", "furry")
    plain, verbose, quiet = run(*wrong), run(*wrong, "--verbose"), run(*wrong, "--quiet")
    assert plain.stderr == quiet.stderr
    assert re.match(r"Error: no device called .*\n$", plain.stderr)
    assert verbose.stderr.startswith("Traceback (most recent call last):\n")
    assert verbose.stderr.endswith(plain.stderr)
    assert {plain.exit_code, verbose.exit_code, quiet.exit_code} == {1}


def test_quiet_and_verbose_contradict_each_other() -> None:
    refused = run("--quiet", "doctor", "--verbose")
    assert refused.exit_code == 2
    assert "--quiet and --verbose cannot be combined" in refused.stderr


def test_every_command_can_be_quiet_and_verbose_and_answers_in_json(subtests: pytest.Subtests) -> None:
    for name in sorted(COMMANDS):
        with subtests.test(name=name):
            helped = run(name, "--help").stdout
            assert all(option in helped for option in ("-q, --quiet", "-v, --verbose", "--json"))


def test_help_says_what_the_exit_statuses_are() -> None:
    helped = run("--help").stdout
    assert [line.split()[0] for line in re.findall(r"^  +\d+  .*", helped, re.MULTILINE)] == [
        "0",
        "1",
        "2",
        "130",
        "143",
    ]


def completed(*words: str) -> list[str]:
    """Return to what bash completes the last of *words*, by the script that help speaks of."""
    environment = {
        "_LOOPYPERF_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("loopyperf", *words)),
        "COMP_CWORD": str(len(words)),
    }
    found = CliRunner().invoke(program, [], prog_name="loopyperf", env=environment)
    return [line.partition(",")[2] for line in found.stdout.splitlines()]


def test_the_shell_completes_commands_devices_and_models() -> None:
    script = CliRunner().invoke(program, [], prog_name="loopyperf", env={"_LOOPYPERF_COMPLETE": "bash_source"})
    assert "complete -o nosort -F _loopyperf_completion loopyperf" in script.stdout
    assert "_LOOPYPERF_COMPLETE=bash_source" in run("--help").stdout
    assert completed("est") == ["estimate"]
    assert completed("compare", "--device", "nvidia-v") == ["nvidia-v100"]
    assert completed("estimate", "--model", "gpum") == [
        "gpumech-rr",
        "gpumech-rr-corrected",
        "gpumech-gto",
    ]
