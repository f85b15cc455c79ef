"""Tests that apply to every command of the COMMANDS table, and tests of bad input."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import loopyperf as lpp
from loopyperf.cli.command_table import COMMANDS, MODULES, SUMMARIES
from loopyperf.device.device_library import bundled_fits
from tests.cli.runner import run
from tests.kernels import doubled

ROOT = Path(__file__).parents[2]
KERNELS = str(ROOT / "tests" / "kernels.py")
DOUBLED = f"{KERNELS}:doubled"
ON_FURY = ("--device", "amd-r9-fury")


@pytest.fixture(autouse=True)
def fresh_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore ``sys.path``, and remove the modules of kernel files."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


# {{{ as a module


def run_module(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "loopyperf", *arguments], capture_output=True, text=True, cwd=ROOT)


def test_package_runs_as_a_module_named_like_the_script():
    started = run_module("--help")
    assert (started.returncode, started.stderr) == (0, "")
    assert started.stdout.startswith("Usage: loopyperf [OPTIONS] COMMAND")
    assert all(name in started.stdout for name in COMMANDS)


def test_error_of_the_module_gives_one_line_and_status_1():
    refused = run_module("estimate", DOUBLED, "--set", "n=64", "--device", "nobodys-device")
    assert refused.returncode == 1
    assert refused.stderr.startswith("Error: no device called 'nobodys-device'; nearest: ")
    assert len(refused.stderr.splitlines()) == 1


# }}}


# {{{ every command


def test_every_command_has_help_with_an_example_a_summary_and_a_row_in_the_readme(subtests: pytest.Subtests):
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = run("--help").stdout
    parts = {f"devices {name}": part for name, part in COMMANDS["devices"].commands.items()}
    assert list(parts) == ["devices show"]
    for name, command in {**COMMANDS, **parts}.items():
        with subtests.test(name=name):
            help_result = run(*name.split(), "--help")
            assert help_result.exit_code == 0
            assert re.search(rf"^  Example: (\w+=\w+ )?loopyperf {name}\b.*$", help_result.stdout, re.MULTILINE)
            options = [each for each in command.params if each.param_type_name == "option"]
            assert [option.name for option in options if not getattr(option, "help", None)] == []
            assert f"loopyperf {name}" in readme
            if name not in parts:
                assert SUMMARIES[name] == command.get_short_help_str(limit=1000)
                assert re.search(rf"^  {name} +\S", listed, re.MULTILINE)
    assert "[default: opencl]" in run("calibrate", "-h").stdout


STARTED = """
import sys
from loopyperf.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    assert end.code == 0
print("\\n", *(name for name in sys.modules))
"""
COMPLETING = {"_LOOPYPERF_COMPLETE": "bash_complete", "COMP_WORDS": "loopyperf est", "COMP_CWORD": "1"}


@pytest.mark.parametrize(
    ("arguments", "environment", "imported"),
    [
        (["--version"], {}, set()),
        (["--help"], {}, set()),
        ([], COMPLETING, set()),
        (["devices"], {}, {"devices"}),
    ],
)
def test_only_the_module_of_the_requested_command_is_imported(
    arguments: list[str], environment: dict[str, str], imported: set[str]
):
    started = subprocess.run(
        [sys.executable, "-c", STARTED, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(started.stdout.splitlines()[-1].split())
    assert {name for name in MODULES.values() if f"loopyperf.cli.{name}" in modules} == imported
    assert not {"loopy", "islpy", "scipy"} & modules
    assert imported or "numpy" not in modules


def test_unknown_command_and_option_are_refused_and_the_version_is_printed():
    for words, message in ((["estimate", "--no-such"], "No such option '--no-such'"), (["guess"], "command 'guess'")):
        refused = run(*words)
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert message in refused.stderr
    assert run("--version").stdout.startswith("loopyperf, version ")


# }}}


# {{{ bad input: one readable line, exit status 1


def corrupt_fit(folder: Path) -> Path:
    path = folder / "corrupt.json"
    path.write_text('{"schema": 1, "weights"')
    return path


def source_file(folder: Path) -> Path:
    path = folder / "source.py"
    path.write_text("def leaves():\n    raise SystemExit(3)\n")
    return path


def broken_file(folder: Path) -> Path:
    path = folder / "broken.py"
    path.write_text("import nothing_of_that_name\n")
    return path


def leaving_file(folder: Path) -> Path:
    path = folder / "leaving.py"
    path.write_text("import sys\nsys.exit('done')\n")
    return path


BAD_INPUT = {
    "an unknown device": (
        ["estimate", DOUBLED, "--set", "n=16", "--device", "furry"],
        "no device called 'furry'; nearest: ",
    ),
    "a missing size": (
        ["estimate", DOUBLED, *ON_FURY],
        "give n=... (option --set n=VALUE)",
    ),
    "a superfluous size": (["estimate", DOUBLED, *ON_FURY, "--set", "n=1", "--set", "k=1"], "no size k"),
    "a negative size": (["estimate", DOUBLED, *ON_FURY, "--set", "n=-1"], "n=-1 violates the kernel's assumptions"),
    "no such file": (["estimate", "nowhere.py:f"], "no Python file at nowhere.py"),
    "a file of another language": (
        ["estimate", (corrupt_fit, ":f")],
        "is not a Python file: its name must end with .py",
    ),
    "a folder for a file": (["estimate", f"{ROOT}:f"], "no Python file at"),
    "a file that fails": (["estimate", (broken_file, ":f")], "ModuleNotFoundError: No module named 'nothing_of_that"),
    "a function that ends the process": (["estimate", (source_file, ":leaves")], "leaves() failed with SystemExit: 3"),
    "a file that ends the process": (["trace", (leaving_file, ":f")], "cannot be imported: SystemExit: done"),
    "a corrupt fit": (["estimate", DOUBLED, "--set", "n=1", "--fit", corrupt_fit], "is corrupt"),
    "a missing fit": (["estimate", DOUBLED, "--set", "n=1", "--fit", "nowhere.json"], "cannot read the fit file"),
    "a fit of another device": (
        ["estimate", DOUBLED, "--fit", bundled_fits() / "amd-r9-fury" / "linear.json", "--device", "other"],
        "for device 'amd-r9-fury', but 'other' was requested",
    ),
    "no learned model": (
        ["estimate", DOUBLED, "--set", "n=1", "--model", "learned", "--device", "nvidia-v100"],
        "for device 'nvidia-v100'; ",
    ),
    "a learned model that is none": (
        ["estimate", DOUBLED, "--set", "n=1", "--model", "learned", "--fit", corrupt_fit],
        "the residual model file",
    ),
    "an undescribed device": (
        ["devices", "show", "nvidia-titan-w"],
        "'nvidia-titan-w'; nearest: nvidia-t",
    ),
    "a device file of an unknown user": (["devices", "show", "~no-body/d.toml"], "cannot read the device file"),
    "a description that is none": (["devices", "show", (corrupt_fit, ".toml")], "cannot read the device file"),
    "a folder without kernels": (["calibrate", "--kernels", "/dev/null"], "is not a folder"),
    "an unknown OpenCL device": (["validate", "--device", "Voodoo 2"], ""),
}
"""by error: the command line, with functions that create files, and part of the message"""


def as_text(argument: object, folder: Path) -> str:
    """Return *argument* as text; a function creates the file that it stands for."""
    if isinstance(argument, tuple):
        return "".join(as_text(part, folder) for part in argument)
    return str(argument(folder) if callable(argument) else argument)


def test_bad_input_gives_a_one_line_error_and_status_1(subtests: pytest.Subtests, tmp_path: Path):
    for name, (arguments, message) in BAD_INPUT.items():
        with subtests.test(name=name):
            refused = run(*(as_text(argument, tmp_path) for argument in arguments))
            lines = [line for line in refused.stderr.splitlines() if not line.startswith("Warning: ")]
            assert (refused.exit_code, refused.stdout) == (1, "")
            assert len(lines) == 1
            assert lines[0].startswith("Error: ")
            assert message in lines[0]


def test_message_is_the_same_in_python_and_in_the_shell():
    with pytest.raises(lpp.LoopyperfError) as refused:
        lpp.estimate(doubled(), n=16, device="furry")
    assert run("estimate", DOUBLED, "--set", "n=16", "--device", "furry").stderr == f"Error: {refused.value}\n"


# }}}


# {{{ output


def test_estimate_prints_the_time_and_its_breakdown():
    lines = run("estimate", DOUBLED, "--set", "n=1000000", *ON_FURY).stdout.splitlines()
    # 10^6 · (0.568 + 8.27 + 6.52 − 6.63) ps = 8.728 µs; 62500 groups · 3.75 ns = 234.375 µs; launch 129 µs
    assert lines[0] == "doubled(n=1000000) on amd-r9-fury, model linear: 372 µs, bound by work-groups"
    assert lines[1].split() == ["property", "count", "each", "time", "share"]
    assert [re.split(" {2,}", line.strip())[0] for line in lines[2:]] == [
        "work-groups",
        "launches",
        "global load 32-bit stride 1",
        "global min(load, store) 32-bit stride 1",
        "global store 32-bit stride 1",
        "f32 mul",
        "wall-clock time, with launch and wait on the host",
        "note: no prediction interval: the fit was not validated on held-out kernels",
    ]
    assert re.search(r"work-groups +62,500 +3.75 ns +234 µs +63 %$", lines[2])


def test_json_of_estimate_equals_the_estimate():
    printed = json.loads(run("estimate", DOUBLED, "--set", "n=4096", *ON_FURY, "--json").stdout)
    assert printed == lpp.estimate(doubled(), n=4096, device="amd-r9-fury").to_dict()


def test_size_named_like_an_option_can_be_set(tmp_path: Path):
    (tmp_path / "colliding.py").write_text("from tests.kernels import doubled\n\nknl = doubled('device')\n")
    printed = run("estimate", tmp_path / "colliding.py:knl", "--set", "device=64", *ON_FURY, "--json")
    assert json.loads(printed.stdout)["sizes"] == {"device": 64}


def test_kernel_file_may_have_the_name_of_an_imported_module(tmp_path: Path):
    (tmp_path / "json.py").write_text("from tests.kernels import doubled\n\nknl = doubled()\n")
    printed = run("estimate", tmp_path / "json.py:knl", "--set", "n=64", *ON_FURY, "--json")
    assert json.loads(printed.stdout)["sizes"] == {"n": 64}
    assert sys.modules["json"] is json


def test_tables_follow_columns_and_are_as_wide_as_needed_in_a_pipe(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    piped = run("devices").stdout
    monkeypatch.setenv("COLUMNS", "85")
    widest = max(map(len, run("devices").stdout.splitlines()))
    assert 80 < widest <= 85 < max(map(len, piped.splitlines())) <= 120


# }}}


# {{{ the sampled model, which executes the kernel


@pytest.mark.filterwarnings("ignore::loopyperf.errors.LoopyperfWarning")
def test_sampled_model_runs_from_the_command_line():
    pytest.importorskip("pyopencl")
    answer = run("estimate", DOUBLED, "--set", "n=4096", "--model", "sampled", "--backend", "opencl", "--json")
    assert answer.exit_code == 0
    assert json.loads(answer.stdout)["model"] == "sampled"


# }}}
