"""Tests of usage errors: refused with status 2 and the name of the option before the command runs."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from loopyperf.cli import settings
from tests.cli.runner import run

KERNELS = str(Path(__file__).parents[1] / "kernels.py")
DOUBLED = f"{KERNELS}:doubled"
SEVERAL = settings.SIZES.number
ON_FURY = ("--device", "amd-r9-fury")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["n=1.5"], f"a size must be {SEVERAL}, got 'n=1.5'"),
        (["n=2**9999"], f"a size must be {SEVERAL}, got 'n=2**9999'"),
        (["n=8:64:*1"], f"a size must be {SEVERAL}, got 'n=8:64:*1'"),
        (["n"], "a size must be NAME=VALUE, e.g. n=4096; got 'n'"),
        (["=3"], "a size must be NAME=VALUE, e.g. n=4096; got '=3'"),
        (["n=1", "n=2"], "n is given twice"),
    ],
)
def test_invalid_size_is_a_usage_error(given: Sequence[str], message: str):
    refused = run("estimate", DOUBLED, *ON_FURY, *(word for each in given for word in ("--set", each)))
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == f"Error: Invalid value for '--set': {message} (see `loopyperf estimate --help`)\n"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("-4", -4),
        ("3*2**10", 3072),
        ("4k", 4096),
        ("1e6", 1_000_000),
        ("1k,2k", [1024, 2048]),
        ("256:1k:*2", [256, 512, 1024]),
        ("5,10:30:10", [5, 10, 20, 30]),
    ],
)
def test_sizes_are_products_lists_and_ranges(text: str, values: int | list[int]):
    assert settings.size_values(text) == values


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("16", (16,)),
        ("8,16", (8, 16)),
        ("C,F", ("C", "F")),
        ("(8, 16)", ((8, 16),)),
        ("'a,b'", ("a,b",)),
        ("1.5,x", (1.5, "x")),
    ],
)
def test_arguments_are_literals_or_words(text: str, values: tuple[object, ...]):
    assert settings.argument_values(text) == values


def test_size_without_option_gets_a_hint_if_the_command_has_set():
    for words, hint in ((("estimate", DOUBLED), "; set a size with --set n=64"), (("doctor",), "")):
        refused = run(*words, "n=64")
        assert (refused.exit_code, refused.stdout) == (2, "")
        help_line = f"(see `loopyperf {words[0]} --help`)"
        assert refused.stderr == f"Error: Got unexpected extra argument (n=64){hint} {help_line}\n"


def test_error_for_an_invalid_choice_lists_the_choices():
    for command, option, choices in (
        ("estimate", "--counting", "'paper', 'executed'"),
        ("compare", "--only", "'linear', "),
        ("rank", "--bounds", "'throughput', 'roofline'"),
    ):
        refused = run(command, DOUBLED, option, "exact")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"'exact' is not one of {choices}" in refused.stderr


def test_unknown_backend_is_a_usage_error():
    for words in (("calibrate", "--backend", "metal"), ("estimate", DOUBLED, "--backend", "replay")):
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert f"'{words[-1]}' is not one of 'cuda', 'opencl'" in refused.stderr


def test_invalid_values_are_usage_errors():
    kernel = "a kernel must be FILE.py:FUNCTION, e.g. matmul.py:tiled; got "
    for words, message in (
        (("rank", DOUBLED, "--time-limit", "0"), "Invalid value for '--time-limit': "),
        (("rank", DOUBLED, "--time-limit", "soon"), "Invalid value for '--time-limit': "),
        (("train", "nowhere.jsonl", "--base", "learned"), "'learned' is not one of 'sampled', 'overlap', 'linear', "),
        (("estimate", DOUBLED, "--typical", "j=many"), "a typical value must be a number, got 'j=many'"),
        (("estimate", DOUBLED, "--typical", "j=1", "--typical", "j=2"), "j is given twice"),
        (("estimate", KERNELS), f"{kernel}{KERNELS!r}"),
        (("explain", f"{KERNELS}:"), f"{kernel}'{KERNELS}:'"),
        (("rank", ":doubled"), f"{kernel}':doubled'"),
        (("explain", DOUBLED, *(2 * ["--device", "a"])), "Invalid value for '--device': a is given twice "),
        (("explain", DOUBLED, *(2 * ["--only", "wfg"])), "Invalid value for '--only': wfg is given twice "),
    ):
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert message in refused.stderr


def test_several_devices_or_variants_are_refused_where_one_is_needed():
    refused = run("advise", DOUBLED, "--device", "nvidia-v100,nvidia-a100")
    assert "give only one, got nvidia-v100 and nvidia-a100" in refused.stderr
    tiles = Path(__file__).parents[2] / "docs" / "tutorial" / "tiles.py"
    assert run("estimate", f"{tiles}:variants").stderr.endswith("; `loopyperf rank` compares variants\n")
