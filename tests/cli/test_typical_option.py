"""Tests of ``--typical``, which sets data-dependent values, such as trip counts."""

import json
from pathlib import Path

import click
import pytest
from click.testing import Result

from loopyperf.cli.command_table import program
from tests.cli.runner import run

ROWS = '''
import loopy as lp
import numpy as np


def rows():
    """Sums of rows that are as long as data say."""
    knl = lp.make_kernel(
        ["{[i]: 0 <= i < n}", "[s, e] -> {[j]: s <= j < e}"],
        "<> s = start[i]\\n<> e = start[i+1]\\nout[i] = sum(j, a[j])",
        [
            lp.GlobalArg("start", np.int32, shape="n+1"),
            lp.GlobalArg("a", np.float32, shape=None, strides=(1,)),
            lp.GlobalArg("out", np.float32, shape="n"),
            lp.ValueArg("n", np.int32),
        ],
        name="rows",
        seq_dependencies=True,
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


variants = {"rows": rows}
'''


def run_on_rows(folder: Path, command: str, *options: object) -> Result:
    (folder / "sparse.py").write_text(ROWS, encoding="utf-8")
    function = "variants" if command == "rank" else "rows"
    arguments = (f"{folder / 'sparse.py'}:{function}", "--set", "n=4096", "--device", "nvidia-v100", *options)
    return run(command, *arguments)


@pytest.mark.parametrize("command", ["estimate", "rank", "trace"])
def test_each_command_that_takes_a_kernel_accepts_typical(tmp_path: Path, command: str) -> None:
    page = ("--output", tmp_path / "out") if command == "trace" else ()
    model = ("--model", "roofline") if command in ("estimate", "rank") else ()
    done = run_on_rows(tmp_path, command, "--typical", "j=27", *model, *page)
    assert done.exit_code == 0, done.output
    is_shown = command != "rank"
    assert ("rows(n=4096, typically j=27) on " in done.output) == is_shown


def test_more_iterations_take_longer(tmp_path: Path) -> None:
    short, long = (
        json.loads(run_on_rows(tmp_path, "estimate", "--model", "roofline", "--json", "--typical", each).stdout)[
            "seconds"
        ]
        for each in ("j=270", "j=2700.5")
    )
    assert long > 5 * short


def test_error_without_typical_names_the_option_and_variable(tmp_path: Path) -> None:
    refused = run_on_rows(tmp_path, "estimate", "--model", "roofline")
    assert (refused.exit_code, "(option --typical j=VALUE)" in refused.output) == (1, True)


def test_condition_may_contain_an_equals_sign() -> None:
    option = next(each for each in program.commands["estimate"].params if each.name == "typical")
    context = click.Context(program.commands["estimate"])
    assert option.process_value(context, ["x[i] == 0=0.25", "j=27"]) == {"x[i] == 0": 0.25, "j": 27}
