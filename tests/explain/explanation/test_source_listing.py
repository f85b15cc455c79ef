"""Tests of source listings: the schedule as text, with each instruction and each labeled barrier once."""

from itertools import pairwise

from loopyperf.explain.source_view import SourceLine, listing_of
from loopyperf.kernel import load_kernel
from loopyperf.measurement.environment import DeviceLimits
from loopyperf.measurement.kernel_files import bundled_folder, load_kernel_files
from tests.explain.pages.report_kernels import two_launches
from tests.kernels import floats, integers, make_kernel, outer_product, triangle

LIMITS = DeviceLimits(group_size=256, local_memory=2**16, global_memory=2**30)


def test_loop_bounds_use_the_outer_inames():
    heads = [line.text for line in listing_of(load_kernel(triangle())) if line.kind == "loop"]
    # j ≤ i = 16*i_outer + i_inner
    assert heads == ["for j in 0 .. 16*i_outer + i_inner"]


def test_compound_factors_of_the_grid_have_parentheses():
    head = listing_of(load_kernel(outer_product()))[0]
    assert head.text == "launch outer_product: (m // 16) × n groups of 16 work-items"


def test_launches_are_listed_with_grids_and_instructions():
    grid = "(127 + n) // 128 groups of 128 work-items"
    assert listing_of(load_kernel(two_launches())) == (
        SourceLine("launch", 0, f"launch chain: {grid}", "launch of chain"),
        SourceLine("instruction", 1, "b[i_inner + i_outer*128] = 2*a[i_inner + i_outer*128]", "first"),
        SourceLine("launch", 0, f"launch chain_0: {grid}", "launch of chain_0"),
        SourceLine(
            "instruction",
            1,
            "c[j_inner + j_outer*128] = b[j_inner + j_outer*128] + b[n + -1 + (-1)*(j_inner + j_outer*128)]",
            "second",
        ),
    )


def test_functions_and_conditions_have_no_loopy_syntax():
    knl = make_kernel("{[i]: 0 <= i < n}", "b[i] = sqrt(a[i]) {if=a[i] > 0}", floats("a, b", "n"), integers("n"))
    assert listing_of(load_kernel(knl))[-1].text == "if a[i] > 0: b[i] = sqrt(a[i])"


def test_each_instruction_and_barrier_of_a_real_kernel_is_listed_once():
    for file in load_kernel_files(bundled_folder("test_kernels")):
        kernel = load_kernel(file.configurations(LIMITS)[0].build())
        listing = listing_of(kernel)
        for kind, expected in (
            ("instruction", [each.id for launch in kernel.launches for each in launch.instructions]),
            ("barrier", [each.label for launch in kernel.launches for each in launch.barriers]),
            ("launch", [f"launch of {launch.name}" for launch in kernel.launches]),
        ):
            assert [line.source for line in listing if line.kind == kind] == expected
        # A line is at most one loop or launch deeper than the one before it.
        depths = [line.depth for line in listing]
        assert all(after <= before + 1 for before, after in pairwise(depths))
