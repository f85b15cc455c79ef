"""Test sizes beyond 64 bits: counts are exact, and functions that enumerate iterations or addresses refuse them."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import loopy as lp
import numpy as np
import pytest
from click.testing import CliRunner

import loopyperf as lpp
from loopyperf.cli.command_table import program
from loopyperf.counts.sizes import sizes_in_words
from loopyperf.errors import LoopyperfError, ParameterError
from loopyperf.units import number_in_words
from tests.kernels import doubled

GPU = "nvidia-v100"
FITTED = "amd-r9-fury"
LARGE = [2**62, 2**63 - 1, 2**63, 10**20, 10**4000]
FITS = Path(__file__).parents[2] / "fits"
N = lp.ValueArg("n", np.int64)


def scaled() -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("x, y", np.float32, shape="n"), N]
    return grouped(lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i] + y[i]", arrays, **common()), "i", 0)


def multiplication() -> lp.TranslationUnit:
    arrays = [lp.GlobalArg("a, b, c", np.float32, shape="n, n"), N]
    domain, code = "{[i,j,k]: 0<=i,j,k<n}", "c[i,j] = sum(k, a[i,k]*b[k,j])"
    return grouped(grouped(lp.make_kernel(domain, code, arrays, **common()), "i", 1), "j", 0)


def common() -> dict[str, Any]:
    return {"lang_version": (2018, 2), "assumptions": "n >= 1", "name": "large"}


def grouped(unit: lp.TranslationUnit, iname: str, axis: int) -> lp.TranslationUnit:
    return lp.split_iname(unit, iname, 16, outer_tag=f"g.{axis}", inner_tag=f"l.{axis}")


@pytest.mark.parametrize("n", [2**21, 2**31, *LARGE], ids=number_in_words)
def test_counts_are_exact_at_any_size(n: int) -> None:
    counts = lpp.count(multiplication()).properties()
    assert counts["f32 add"](n=n) == n**3
    assert counts.evaluate(n=n)["work-groups"] == (-(-n // 16)) ** 2
    # An array of sizes gives the same counts, whether or not the counts fit into its type.
    several = np.array([n, n - 1], dtype=object if n >= 2**63 else np.int64)
    assert [n**3, (n - 1) ** 3] == counts.evaluate(n=several)["f32 add"].tolist()


@pytest.mark.parametrize("n", LARGE[:-1], ids=number_in_words)
def test_fit_of_counts_matches_rational_arithmetic(n: int) -> None:
    fit, counts = (
        lpp.load_fit(FITS / FITTED / "linear.json"),
        lpp.count(multiplication(), counting="paper").properties().evaluate(n=n),
    )
    exact = sum(Fraction(fit.weights[name]) * count for name, count in counts.items() if name in fit.weights)
    seconds = lpp.estimate(multiplication(), n=n, device=FITTED).seconds
    assert seconds == pytest.approx(float(exact), rel=1e-12)
    batch = lpp.estimate(multiplication(), n=np.array([n], dtype=object), device=FITTED).seconds
    assert batch == pytest.approx([float(exact)], rel=1e-12)


def test_count_beyond_floating_point_is_refused_with_the_size() -> None:
    message = "^at n = about 10\\^5000 a count exceeds the largest floating-point number, 1.8e\\+308"
    with pytest.raises(ParameterError, match=message):
        lpp.estimate(scaled(), n=10**5000, device=FITTED)
    with pytest.raises(ParameterError, match=r"^at n = up to about 10"):
        lpp.estimate(scaled(), n=np.array([1, 10**5000], dtype=object), device=FITTED)
    with pytest.raises(ParameterError, match=message):
        lpp.throughput_bounds(scaled(), device=GPU).seconds(n=10**5000)


Function = Callable[[lp.TranslationUnit, Any], object]
FUNCTIONS: dict[str, Function] = {
    "estimate": lambda unit, n: lpp.estimate(unit, n=n, device=GPU, model="pipeline"),
    "roofline": lambda unit, n: lpp.roofline(unit, n=n, device=GPU),
    "compare": lambda unit, n: lpp.compare(unit, n=n, device=GPU),
    "explain": lambda unit, n: lpp.explain(unit, n=n, device=GPU),
    "report": lambda unit, n: lpp.report(unit, n=n, device=GPU),
    "graph": lambda unit, n: lpp.instruction_graph(unit, n=n),
    "trace": lambda unit, n: lpp.trace(unit, n=n, device=GPU),
    "advise": lambda unit, n: lpp.advise(unit, n=n, device=GPU),
    "split": lambda unit, n: lpp.split(unit, n=n, devices=[GPU, "nvidia-a100"], model="roofline"),
}


def test_functions_that_enumerate_iterations_name_the_size_and_the_limit(subtests: pytest.Subtests) -> None:
    for n in [*LARGE, np.uint64(2**63)]:
        for road in sorted(FUNCTIONS):
            with subtests.test(n=number_in_words(n), road=road):
                with pytest.raises(
                    ParameterError, match=r"^size n is [^,]*, too large .* below 2\^62 = 4.61e\+18"
                ) as refusal:
                    FUNCTIONS[road](scaled(), n)
                assert number_in_words(int(n)) in str(refusal.value)


def test_array_with_a_too_large_size_is_refused_by_value() -> None:
    with pytest.raises(ParameterError, match=r"^size n is 4611686018427387904, "):
        lpp.estimate(scaled(), n=np.array([4096, 2**62]), device=GPU, model="roofline")


def test_addresses_beyond_64_bits_are_refused() -> None:
    # 2^31 rows of 2^31 floats are 2^64 bytes. The representative warp is in the middle.
    message = r"^at n = 2147483648 an access of '[ab]' reaches byte 9.22e\+18, .* 2\^62"
    with pytest.raises(ParameterError, match=message):
        lpp.estimate(multiplication(), n=2**31, device=GPU, model="roofline")


def test_matrix_multiplication_time_grows_with_the_cube_of_the_size() -> None:
    small, large = (
        float(lpp.estimate(multiplication(), n=n, device=GPU, model="roofline").seconds) for n in (2**20, 2**29)
    )
    assert large == pytest.approx(small * 8**9, rel=1e-4)


def test_too_many_loop_iterations_are_refused() -> None:
    arrays = [lp.GlobalArg("y", np.float32, shape="64"), N]
    unit = lp.make_kernel("{[i,j]: 0<=i<1000*n and 0<=j<64}", "y[j] = y[j] + 1 {inames=i:j}", arrays, **common())
    with pytest.raises(ParameterError, match=r"^at n = 2305843009213693952 there are more loop iterations or groups"):
        lpp.roofline(grouped(unit, "j", 0), n=2**61, device=GPU)


def test_sizes_are_abbreviated_in_messages() -> None:
    sizes = {"n": 10**29, "m": -(10**5000), "k": np.array([3, 2**70], dtype=object), "l": np.array([], dtype=int)}
    assert f"n = {10**29}, m = about -10^5000, k = up to {2**70}, l = none" == sizes_in_words(sizes)


SOURCE = """
import loopy as lp
import numpy as np


def scaled():
    arrays = [lp.GlobalArg("x, y", np.float32, shape="n"), lp.ValueArg("n", np.int64)]
    unit = lp.make_kernel("{[i]: 0<=i<n}", "y[i] = 2*x[i]", arrays, lang_version=(2018, 2), assumptions="n >= 1")
    return lp.split_iname(unit, "i", 128, outer_tag="g.0", inner_tag="l.0")
"""


@pytest.mark.parametrize("command", ["estimate", "explain", "compare", "trace"])
def test_commands_refuse_too_large_sizes_in_one_line(tmp_path: Path, command: str) -> None:
    file = tmp_path / "large.py"
    file.write_text(SOURCE, encoding="utf-8")
    output = ["--output", str(tmp_path / "out")] if command == "trace" else []
    model = ["--model", "pipeline"] if command == "estimate" else []
    arguments = [command, f"{file}:scaled", "--set", f"n={10**20}", "--device", GPU, *model, *output]
    done = CliRunner().invoke(program, arguments)
    assert (done.exit_code, isinstance(done.exception, (SystemExit, LoopyperfError))) == (1, True)
    assert f"size n is {10**20}" in " ".join(done.output.split())


def shape_or_error(n: object, **options: Any) -> tuple[int, ...] | str:
    """Return the shape of the seconds for *n*, or the error message."""
    try:
        return np.shape(lpp.estimate(scaled(), n=n, **options).seconds)
    except ParameterError as refused:
        return str(refused)


def test_device_models_and_fits_accept_the_same_arrays() -> None:
    admitted = (
        *(np.array(each, dtype=object) for each in (128, [128, 256], [[128], [256]], [np.int64(128), np.int8(16)], [])),
        *(np.array([128, 256], dtype=dtype) for dtype in (np.int16, np.uint64)),
        np.array(128),
    )
    refused = (
        *(np.array(each, dtype=object) for each in ([128, 256.0], [None], ["128"], [True])),
        *(np.array([128, 256], dtype=dtype) for dtype in (np.float32, bool, "S3")),
        np.ma.array([128, 256], mask=[False, True]),
    )
    for n in (*admitted, *refused):
        by_fit = shape_or_error(n, device=FITTED)
        assert by_fit == shape_or_error(n, device=GPU, model="roofline")
        assert isinstance(by_fit, str) == any(n is each for each in refused)


def test_size_beyond_the_type_of_its_argument_is_refused() -> None:
    for dtype, largest in ((np.int8, 127), (np.int32, 2**31 - 1), (np.uint32, 2**32 - 1), (None, 2**31 - 1)):
        unit = doubled(dtype=dtype)
        assert lpp.estimate(unit, n=largest, device=GPU, model="roofline").seconds > 0
        for n in (largest + 1, 2**40, 10**5000, np.array([1, 2**40])):
            for options in ({"device": GPU, "model": "roofline"}, {"device": FITTED}):
                with pytest.raises(ParameterError, match=rf"^size n is .*, but argument n .* at most {largest:,};"):
                    lpp.estimate(unit, n=n, **options)


def test_index_beyond_its_type_has_a_note() -> None:
    # The largest index is n² - 1; 46340² < 2³¹ <= 46341².
    for n, dtype, index, is_noted in (
        (46340, np.int32, np.int32, False),
        (46341, np.int32, np.int32, True),
        (46341, np.int64, np.int32, False),
        (46341, np.int32, np.int64, False),
    ):
        arrays = [lp.GlobalArg("a, b", np.float32, shape="n, n"), lp.ValueArg("n", dtype)]
        unit = lp.make_kernel("{[i,j]: 0<=i,j<n}", "b[i,j] = 2*a[i,j]", arrays, index_dtype=index, **common())
        unit = lp.tag_inames(grouped(unit, "j", 0), "i:g.1")
        notes = lpp.estimate(unit, n=n, device=GPU, model="roofline").notes
        assert any(note.startswith("indices of a, b exceed int32") for note in notes) == is_noted
