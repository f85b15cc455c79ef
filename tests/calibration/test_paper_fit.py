"""Test the bundled fit of the R9 Fury: the weights of Table 2 of Stevens and Klöckner under our property names."""

import msgspec
import pytest

from loopyperf.calibration.accuracy import Prediction, assess
from loopyperf.calibration.fits import Fit, load_fit, save_fit
from loopyperf.device.device_library import bundled_fits

FILE = bundled_fits() / "amd-r9-fury" / "linear.json"
README = bundled_fits() / "README.md"


@pytest.fixture
def paper() -> Fit:
    return load_fit(FILE)


def predicted(fit: Fit, counts: dict[str, int]) -> float:
    return sum(fit.weights[name] * count for name, count in counts.items())


def test_sum_of_the_weights_is_that_of_the_printed_table(paper: Fit):
    # In the table's order, 1e-12 s: 0.681 + 0.568 + 0.391 + 1.61 − 1.76 + 8.27 + 0.982 + 28.9 + 0.93 + 2.67 + 6.52
    # + 355 − 6.63 + 42.6 = 440.732; thread groups 3750; Const(1) 1.29e8. The smallest weight is 4e-13 s, and the
    # tolerance is a thousandth of it.
    assert len(paper.weights) == 16
    assert sum(paper.weights.values()) == pytest.approx(1.29e-4 + 3.75e-9 + 440.732e-12, abs=4e-16)


def finite_difference(n: int) -> dict[str, int]:
    """The paper's counts for n × n points and 16 × 16 groups: 6 adds, a multiplication, a power, 6 local loads, a store
    and a barrier per point; a group fetches its 18 × 18 halo as a box of 1024 loads, 4 per work-item."""
    points = n * n
    return {
        "f32 add": 6 * points,
        "f32 mul": points,
        "f32 pow": points,
        "local load 32-bit": 6 * points,
        "global load 32-bit stride 1": 4 * points,
        "global store 32-bit stride 1": points,
        "global min(load, store) 32-bit stride 1": points,
        "barriers": points,
        "work-groups": points // 256,
        "launches": 1,
    }


def test_finite_difference_time_matches_the_table_by_hand(paper: Fit):
    # Per point, 1e-12 s: 6·0.681 + 0.568 + 0.391 − 6·1.76 + 4·8.27 + 6.52 − 6.63 + 42.6 = 70.055, times 2^20 points is
    # 73.458 µs; 4096 groups · 3.75 ns = 15.36 µs; launch 129 µs
    assert predicted(paper, finite_difference(1024)) == pytest.approx(217.818e-6, abs=0.001e-6)


def test_papers_error_on_finite_differences_is_reproduced(paper: Fit):
    measured = {1024: 0.16e-3, 2048: 0.27e-3, 4096: 0.89e-3, 8192: 3.23e-3}  # Table 1, R9 Fury
    accuracy = assess(
        Prediction("finite difference", {"n": n}, predicted(paper, finite_difference(n)), seconds)
        for n, seconds in measured.items()
    )
    # The paper prints 0.63. Rounding the shortest time, 0.16 ms, by 0.005 ms changes the mean by 0.02.
    assert accuracy.cross_kernel == pytest.approx(0.63, abs=0.02)


def test_bundled_file_is_identical_to_the_output_of_save_fit(paper: Fit, tmp_path):
    save_fit(paper, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == FILE.read_bytes()


def test_bundled_fit_cites_the_paper(paper: Fit):
    assert (paper.model, paper.slug, paper.counting) == ("linear", FILE.parent.name, "paper")
    assert "Stevens and A. Klöckner" in paper.source
    assert "Table 2" in paper.source


def readme_rows() -> list[list[str]]:
    """Return the cells of the README's table of fields: names, whether required, meaning."""
    table = README.read_text("utf-8").split("## Fields")[1]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]


def test_readme_lists_every_field_in_the_files_order():
    names = [name.strip("`") for names, _, _ in readme_rows() for name in names.split(", ")]
    assert names == ["schema", *Fit.__struct_fields__]


def test_readme_marks_exactly_the_required_fields():
    marked = [name.strip("`") for name, required, _ in readme_rows() if required == "yes"]
    assert marked == ["schema", *(field.name for field in msgspec.structs.fields(Fit) if field.required)]
