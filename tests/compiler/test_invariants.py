"""Loop-invariant code motion out of loops whose trip counts vary."""

from itertools import pairwise

import loopy as lp
import numpy as np
from pymbolic import parse

import loopyperf as lpp
from loopyperf.compiler.value_numbering import without_invariants
from loopyperf.idg import Edge, Idg, Instruction, Loop
from loopyperf.idg.program import loops_in


def test_invariant_of_a_loop_executes_once_if_the_loop_has_iterations() -> None:
    # Loop j has 0, 1, 2 and 3 iterations: six executions of each instruction.
    convert, store = Instruction("convert", "f32", "alu", executions=6), Instruction("store", executions=6)
    body = (Loop("i", 4, (Loop("j", parse("i"), (0, 1)),)),)
    moved = without_invariants(Idg((convert, store), (Edge.within(0, 1, ["i", "j"]),), body))
    assert [each.executions for each in moved.instructions] == [3, 6]


def test_time_grows_with_the_iterations_of_copies_of_unequal_length() -> None:
    knl = lp.make_kernel(
        "{[i]: 2 <= i <= n}",
        "out[i] = out[i] + (i + 0.1)",
        [lp.GlobalArg("out", np.float32, shape="n + 6"), lp.ValueArg("n", np.int32)],
        assumptions="n >= 2",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(knl, "i", 4, inner_tag="unr")
    times = [lpp.estimate(knl, n=n, device="nvidia-v100", model="roofline").seconds for n in range(121, 134)]
    # At n = 121, nvcc's remainder of 30 iterations in fours has an invariant of its own: four conversions of 248.
    assert all(longer > 0.99 * shorter for shorter, longer in pairwise(times))


def test_loops_in_copies_written_by_loopy_are_unrolled_as_with_equal_trip_counts() -> None:
    # Loopy writes four loops over k, with 8, 8, 8 and 7 iterations at n = 31, and with 8 each at n = 32.
    knl = lp.make_kernel(
        "{[i, k]: 0 <= i < 64 and 0 <= k < n}",
        "out[i, k] = a[i, k] + k",
        [lp.GlobalArg("a, out", np.float64, shape="64, 32768"), lp.ValueArg("n", np.int32)],
        assumptions="1 <= n <= 32768",
        lang_version=(2018, 2),
    )
    knl = lp.split_iname(lp.tag_inames(knl, "i:l.0"), "k", 4, inner_tag="unr")
    (launch,) = lpp.machine_program(knl, n=31, device="nvidia-v100").launches
    loops = [loop for loop in loops_in(launch.classes[0].graph.body) if loop.name == "k_outer"]
    assert [(loop.trips, loop.copies) for loop in loops] == [(2, 4), (2, 4), (2, 4), (1, 4)]
    times = [lpp.estimate(knl, n=n, device="nvidia-v100", model="pipeline").seconds for n in (30, 31, 32, 33)]
    assert times == sorted(times)
