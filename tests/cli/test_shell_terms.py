"""What a message says to write, it says in the words of whoever reads it: keywords in Python, options in the shell."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

import loopyperf as lpp
from loopyperf.calibration.fit_library import bundled_fits
from loopyperf.calibration.fits import load_fit, save_fit
from loopyperf.cli.command_table import COMMANDS
from loopyperf.cli.streams import in_shell_terms
from loopyperf.errors import LoopyperfError
from tests.cli.invoked import run
from tests.kernels import doubled

KERNELS = Path(__file__).parents[1] / "kernels.py"
OF_PYTHON = re.compile(r"\b(?!-)\w+=(\.\.\.|\{|'|\")")
"""a keyword with its value"""

GATHER = '''
import loopy as lp
import numpy as np


def branching():
    """Twice what is above 0."""
    knl = lp.make_kernel(
        "{[i]: 0 <= i < n}",
        "if a[i] > 0\\n    b[i] = 2*a[i]  {id=double}\\nend",
        [lp.GlobalArg("a, b", np.float32, shape="n"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 1",
        lang_version=(2018, 2),
    )
    return lp.split_iname(knl, "i", 32, outer_tag="g.0", inner_tag="l.0")


variants = {"one": branching}
'''


def text_in(command: str, text: str) -> str:
    return in_shell_terms(text, COMMANDS[command])


def test_keywords_become_the_options_that_the_command_has(subtests: pytest.Subtests) -> None:
    for command, python, shell in [
        ("estimate", "typical={'row_length': 10}", "--typical row_length=10"),
        ("estimate", "typical={'a > 0': 0.5} or typical={'b': 0.5}", "--typical 'a > 0=0.5' or --typical b=0.5"),
        ("estimate", "typical={'x': '1'} would", "--typical x=1 would"),
        ("estimate", 'model="pipeline"', "--model pipeline"),
        ("estimate", "model='roofline' needs", "--model roofline needs"),
        ("rank", "say how many, top=...", "say how many, --top ..."),
        ("compare", "device=... or in LOOPYPERF_DEVICE", "--device ... or in LOOPYPERF_DEVICE"),
        ("estimate", "give n=..., m=...", "give --set n=..., --set m=..."),
        ("rank", "or give the path of a fit file", "or give --fit, the path of a fit file"),
        ("estimate", "give the path of a learned model", "give --fit, the path of a learned model"),
        ("validate", "give the folder of kernels that were", "give --kernels, the folder of kernels that were"),
        ("train", "give the folder that holds them", "give --kernels, the folder that holds them"),
        # what the command has no option for, and what only looks alike
        ("rank", "backend=... names one", "backend=... names one"),
        ("calibrate", "give n=...", "give n=..."),
        ("trace", "give the path of a fit file", "give the path of a fit file"),
        ("compare", "give the path of a description", "give the path of a description"),
        ("estimate", "typical={'f': {\"f32 add\": 1}}", "typical={'f': {\"f32 add\": 1}}"),
        ("estimate", 'latency = { value = ..., unit = "cycles" }', 'latency = { value = ..., unit = "cycles" }'),
        ("estimate", "at n=5, --set n=...", "at n=5, --set n=..."),
    ]:
        with subtests.test(command=command, python=python, shell=shell):
            assert text_in(command, python) == shell


def test_outside_of_commands_nothing_changes() -> None:
    assert in_shell_terms("device=..., typical={'j': 1}") == "device=..., typical={'j': 1}"


REFUSED: dict[str, tuple[list[object], str]] = {
    "a missing size": (["estimate", "doubled", "--device", "amd-r9-fury"], "give --set n=..."),
    "a missing size, by a description": (["estimate", "doubled", "--device", "nvidia-v100"], "give --set n=..."),
    "a missing size of a ranking": (["rank", "variants", "--device", "nvidia-v100"], "give --set n=..."),
    "a condition on data": (
        ["compare", "branching", "--set", "n=64", "--device", "nvidia-v100"],
        "--typical 'a[i_inner + i_outer*32] > 0=0.5' or --typical double=0.5",
    ),
    "a misspelt condition": (
        ["estimate", "branching", "--set", "n=64", "--device", "nvidia-v100", "--typical", "duoble=0.5"],
        "'duoble' is stated, and not asked for so far; is 'duoble' to be 'double'?",
    ),
    "a fitted model of a device without a fit": (
        ["estimate", "doubled", "--set", "n=64", "--device", "nvidia-v100", "--model", "linear"],
        "--model pipeline",
    ),
    "bounds without a number": (
        ["rank", "variants", "--set", "n=64", "--device", "nvidia-v100", "--bounds", "roofline"],
        "say how many, --top ...",
    ),
    "the sampled model without a backend": (
        ["estimate", "doubled", "--set", "n=64", "--model", "sampled"],
        "--backend",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_speaks_of_options_alone(case: str, tmp_path: Path) -> None:
    (command, function, *options), told = REFUSED[case]
    file = KERNELS if function == "doubled" else tmp_path / "branching.py"
    (tmp_path / "branching.py").write_text(GATHER)
    refused = run(command, f"{file}:{function}", *options)
    assert refused.exit_code == 1
    assert told in refused.stderr
    assert OF_PYTHON.findall(re.sub(r"--(set|typical) ('[^']*'|\S+)", "", refused.stderr)) == []


def test_in_python_the_same_refusal_speaks_of_keywords() -> None:
    with pytest.raises(LoopyperfError, match=r"missing size n; the sizes needed are: n; give n=\.\.\.$"):
        lpp.estimate(doubled(), device="amd-r9-fury")


def test_notes_of_an_answer_do_so_too(own_data: Path) -> None:
    fit = replace(load_fit(bundled_fits() / "amd-r9-fury" / "linear.json"), device="Two", slug="two")
    save_fit(replace(fit, backend="opencl"), own_data / "fits" / "two" / "linear.json")
    save_fit(replace(fit, backend="cuda"), own_data / "fits" / "two" / "linear.cuda.json")
    said = "note: by the fit that was measured through 'opencl'; there is one through 'cuda' too: "
    shown = run("estimate", f"{KERNELS}:doubled", "--set", "n=64", "--device", "two").stdout
    assert said + "--backend ... names one" in shown
    told = run("estimate", f"{KERNELS}:doubled", "--set", "n=64", "--device", "nvidia-v100", "--verbose").stdout
    assert "published device parameters (--model ... selects another)" in told
