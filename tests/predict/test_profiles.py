"""Profiles of other tools beside predictions: all formats give equal numbers; mismatches are refused in one line."""

import csv
import io
import json
import lzma
from pathlib import Path

import pytest
from click.testing import CliRunner

import loopyperf as lpp
from loopyperf.cli.command_table import program
from loopyperf.errors import MeasurementError
from loopyperf.measurement.campaign import plan
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from loopyperf.models.profiler_counters import Counters
from loopyperf.predict.counters import read_profile
from tests.kernels import doubled

TURING = "nvidia-rtx-2080-ti"
READ, LANES, INSTRUCTIONS = (
    "dram__sectors_read.sum",
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "smsp__inst_executed.sum",
)
UNITS = {READ: "sector", LANES: "", INSTRUCTIONS: "Kinst"}
PRINTED = {READ: "131,072", LANES: "31.50", INSTRUCTIONS: "256.5"}
VALUES = {READ: 131072, LANES: 31.5, INSTRUCTIONS: 256500}
NOISE = "==PROF== Connected to process 1\nit says, what it likes\n"
ABOUT = {
    "ID": "0",
    "Process ID": "1",
    "Kernel Name": "doubled(const float *, float *, int)",
    "Context": "1",
    "Block Size": "(256, 1, 1)",
    "Grid Size": "(4096, 1, 1)",
    "Device": "0",
    "CC": "7.5",
}


def written(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(rows)
    return NOISE + text.getvalue()


def by_metric(**changed: str) -> str:
    head = [*ABOUT, "Section Name", "Metric Name", "Metric Unit", "Metric Value"]
    about = list({**ABOUT, **changed}.values())
    return written([head, *([*about, "Command line", name, UNITS[name], PRINTED[name]] for name in PRINTED)])


def by_launch(**changed: str) -> str:
    about = {**ABOUT, **changed}
    return written(
        [
            [*about, *PRINTED],
            ["" for _ in about] + [UNITS[name] for name in PRINTED],
            [*about.values(), *PRINTED.values()],
        ]
    )


FORMS = {"page details": by_metric(), "page raw": by_launch()}


@pytest.fixture
def predicted() -> Counters:
    return lpp.counters(doubled(group=256), n=2**20, device=TURING)


@pytest.mark.parametrize("form", FORMS)
def test_all_formats_give_the_same_numbers(form: str, predicted: Counters, tmp_path: Path):
    path = tmp_path / "profile"
    path.write_text(FORMS[form])
    found = {each.metric: each for each in lpp.compare_counters(predicted, path).rows}
    assert {metric: found[metric].counted for metric in VALUES} == VALUES
    assert found[READ].error == predicted[READ] / 131072 - 1
    assert {each.predicted for each in found.values()} == {predicted[metric] for metric in found}


def test_printed_comparison_has_the_error_of_each_metric(predicted: Counters, tmp_path: Path):
    (tmp_path / "ncu.csv").write_text(by_metric())
    lines = str(lpp.compare_counters(predicted, tmp_path / "ncu.csv")).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.split()[1:] == ["32", "31.5", "+1.6%"] for line in lines)
    assert any(line.split()[1:] == ["131,072", "131,072", "+0.0%", "sectors"] for line in lines)


REFUSED = {
    "another kernel": (
        by_metric(**{"Kernel Name": "void other<float>(int)"}),
        "has no launch of doubled, only of other; ",
    ),
    "another capability": (by_metric(CC="8.0"), "capability 8.0, but nvidia-rtx-2080-ti has 7.5; predict for the"),
    "another device": (
        by_launch(device__attribute_display_name="TITAN V"),
        "is from TITAN V, but the prediction is for nvidia-rtx-2080-ti; ",
    ),
    "other sizes": (
        by_launch(**{"Grid Size": "(64, 1, 1)"}),
        "has 64 groups of 256 work-items, but doubled has 4,096 gr",
    ),
    "prose": ("no numbers here\n", "is not a profile; give the output of `ncu --csv`"),
    "nothing": ("", "is not a profile"),
    "other CSV": ('"a","b"\n"1","2"\n', "is not a profile"),
    "JSON": ('{"a": 1}', "is not a profile"),
    "a grid of 4000 digits": (by_metric(**{"Grid Size": f"({'9' * 4000}, 1, 1)"}), "is not a profile"),
    "a grid of four axes": (by_metric(**{"Grid Size": "(1, 1, 1, 1)"}), "is not a profile"),
    "a number beyond floats": (by_metric().replace("256.5", "1e308"), "is not a profile"),
    "no launch": (by_metric().splitlines()[2] + "\n", "is not a profile"),
}


def test_profile_that_does_not_match_is_refused_in_one_line(
    subtests: pytest.Subtests, predicted: Counters, tmp_path: Path
):
    for name in REFUSED:
        with subtests.test(name=name):
            text, why = REFUSED[name]
            path = tmp_path / "profile"
            path.write_text(text)
            with pytest.raises(MeasurementError) as refused:
                lpp.compare_counters(predicted, path)
            assert why in str(refused.value)
            assert "\n" not in str(refused.value)


def test_missing_file_and_binary_file_are_refused(tmp_path: Path):
    with pytest.raises(MeasurementError, match=r"cannot read the profile .*: No such file"):
        read_profile(tmp_path / "none")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MeasurementError, match="is not a profile"):
        read_profile(tmp_path / "bytes")


def test_median_of_launches_is_used_and_non_numbers_are_ignored(predicted: Counters, tmp_path: Path):
    rows = [[*ABOUT, READ, LANES]]
    for number, value in enumerate(("1", "3", "50")):
        rows.append([*{**ABOUT, "ID": str(number)}.values(), value, "n/a"])
    (tmp_path / "ncu.csv").write_text(written(rows))
    found = lpp.compare_counters(predicted, tmp_path / "ncu.csv")
    assert [(each.metric, each.counted) for each in found.rows] == [(READ, 3)]
    assert "doubled was profiled 3 times; medians are shown" in found.notes


def test_command_prints_the_comparison_and_refuses_other_launches(tmp_path: Path):
    path = tmp_path / "ncu.csv"
    path.write_text(by_metric(**{"Block Size": "(16, 1, 1)"}))
    command = [
        "counters",
        f"{Path(__file__).parents[1] / 'kernels.py'}:doubled",
        "--set",
        "n=65536",
        "--device",
        TURING,
    ]
    found = CliRunner().invoke(program, [*command, "--compare", str(path), "--json"])
    (read, _, _) = json.loads(found.stdout)["compared"]
    assert (read["metric"], read["counted"], read["predicted"]) == (READ, 131072, 8192)
    assert READ in CliRunner().invoke(program, command).stdout
    path.write_text(by_metric())
    refused = CliRunner().invoke(program, [*command, "--compare", str(path)])
    assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)


H200_PROFILE = Path(__file__).parents[2] / "fits" / "nvidia-h200" / "raw" / "ncu-test-kernels.csv.xz"
"""output of Nsight Compute for ``benchmarks/counted_kernels.py``"""
COUNTED = {
    "convolution": {"n": 64},
    "finite difference": {"n": 512},
    "n-body": {"n": 1024},
    "skinny matrix multiplication": {"n": 64, "m": 512, "l": 64},
}
LIMITS = DeviceLimits(1024, 48 * 1024, 2**37, 132, 32, 1.98e9, 2**37, 50 * 2**20)


@pytest.mark.parametrize("kernel", COUNTED)
def test_predicted_requests_and_wavefronts_match_an_h200(kernel: str, tmp_path: Path):
    path = tmp_path / "ncu.csv"
    path.write_bytes(lzma.decompress(H200_PROFILE.read_bytes()))
    forms = plan(load_kernel_files(bundled_folder("test_kernels")), LIMITS)
    (program,) = (form.build() for name, form in forms if name == kernel and COUNTED[kernel] in form.sizes)
    predicted = lpp.counters(program, device="nvidia-h200", parameters=COUNTED[kernel])
    found = {each.metric: each for each in lpp.compare_counters(predicted, path).rows}
    assert found["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"].error == 0
    for op in ("ld", "st"):
        assert abs(found[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"].error or 0) < 0.01
    # The code of the kernel and its arguments are some hundred sectors more.
    read, written = (found[f"dram__sectors_{direction}.sum"] for direction in ("read", "write"))
    assert 0 < read.counted - read.predicted < 200
    assert written.predicted == 0
    assert written.counted <= 8
