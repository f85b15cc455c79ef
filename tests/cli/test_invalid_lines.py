"""What is no command line of ours: it is refused with status 2, by the option's name, before anything is done."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.invoked import run

KERNELS = str(Path(__file__).parents[1] / "kernels.py")
DOUBLED = f"{KERNELS}:doubled"
ON_FURY = ("--device", "amd-r9-fury")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["n=1.5"], "a size must be an integer, got 'n=1.5'"),
        (["n"], "a size must be NAME=VALUE, e.g. n=4096; got 'n'"),
        (["=3"], "a size must be NAME=VALUE, e.g. n=4096; got '=3'"),
        (["n=1", "n=2"], "n is given twice"),
    ],
)
def test_a_size_that_is_none_is_no_command_line_of_ours(settings: Sequence[str], message: str):
    refused = run("estimate", DOUBLED, *ON_FURY, *(word for each in settings for word in ("--set", each)))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == f"Error: Invalid value for '--set': {message}"


def test_who_states_a_size_by_itself_hears_of_the_option_where_there_is_one():
    for words, hint in ((("estimate", DOUBLED), "; set a size with --set n=64"), (("coverage",), "")):
        refused = run(*words, "n=64")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert refused.stderr.splitlines()[-1] == f"Error: Got unexpected extra argument (n=64){hint}"


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("estimate", "--counting", "'paper', 'executed'"),
        ("estimate", "--model", "'linear', "),
        ("compare", "--model", "'linear', "),
        ("explain", "--only", "'linear', "),
        ("rank", "--bounds", "'throughput', 'roofline'"),
    ],
)
def test_a_choice_that_is_none_is_refused_naming_those_there_are(command: str, option: str, choices: str):
    refused = run(command, DOUBLED, option, "exact")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"'exact' is not one of {choices}" in refused.stderr


@pytest.mark.parametrize("command", ["calibrate", "microbenchmark", "validate", "estimate"])
@pytest.mark.parametrize("name", ["metal", "replay"])
def test_a_backend_that_runs_nothing_is_no_command_line_of_ours(command: str, name: str):
    refused = run(command, *([DOUBLED] if command == "estimate" else []), "--backend", name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"unknown backend '{name}'; choose cuda or opencl" in refused.stderr


@pytest.mark.parametrize("seconds", ["-1", "0", "soon"])
def test_a_time_limit_that_is_none_is_no_command_line_of_ours(seconds: str):
    refused = run("rank", DOUBLED, "--time-limit", seconds)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "Error: Invalid value for '--time-limit': " in refused.stderr


def test_a_base_whose_error_nobody_learns_is_no_command_line_of_ours():
    refused = run("train", "nowhere.jsonl", "--base", "learned")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'learned' is not one of 'sampled', 'overlap', 'linear', 'roofline'" in refused.stderr


def test_a_file_without_a_function_is_no_command_line_of_ours(subtests: pytest.Subtests):
    for command in ["estimate", "compare", "explain", "rank", "report", "trace"]:
        for written in [KERNELS, f"{KERNELS}:", ":doubled"]:
            with subtests.test(command=command, written=written):
                refused = run(command, written, "--set", "n=16", *ON_FURY)
                assert (refused.exit_code, refused.stdout) == (2, "")
                said = f"a kernel must be FILE.py:FUNCTION, e.g. matmul.py:tiled; got {written!r}"
                assert refused.stderr.splitlines()[-1].endswith(said)


@pytest.mark.parametrize(("option", "name"), [("--device", "nvidia-v100"), ("--only", "roofline")])
def test_what_is_asked_about_twice_is_no_command_line_of_ours(option: str, name: str):
    refused = run("explain", DOUBLED, option, name, option, name)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.splitlines()[-1] == f"Error: Invalid value for '{option}': {name} is given twice"
