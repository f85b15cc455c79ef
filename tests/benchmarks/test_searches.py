"""The example search runs, and the vectorized matrix multiplication equals NumPy's result."""

import warnings

import loopy as lp
import numpy as np
import pyopencl as cl
import pytest
from pyopencl import array
from ranking_sets.matrix_multiplication import Form, matrix_multiplication
from searches import matrix_multiplication as example

import loopyperf as lpp

TILED = Form(16, 4, 8, columns=2, rows=2, tiles="ab", members=4)
UNROLLED = Form(8, 4, 8, rows=2, tiles="a", is_unrolled=True, members=2)
PLAIN = Form(8, 8, 8, members=4)


def test_example_search_runs_with_a_few_trials():
    found = lpp.search(example.build, example.SPACE, **example.ARGUMENTS, optimizer="tpe", trials=5)
    assert len(found.trials) == 5
    assert found.points > 100
    assert found.seconds > 0
    # Points fail only because the kernel does not fit on a core.
    assert all("does not fit on a core" in reason for reason in found.ranking.failures.values())


def test_example_prints_the_number_of_evaluated_points(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    first, *rest = example.SPACE
    small = {first: example.SPACE[first], **{name: example.SPACE[name][:1] for name in rest}}
    monkeypatch.setattr(example, "SPACE", small)
    monkeypatch.setattr(example, "TRIALS", 2)
    example.main()
    exhaustive, found = (line for line in capsys.readouterr().out.splitlines() if " points by " in line)
    number = len(small[first])
    assert exhaustive.startswith(f"{number} of {number} points by exhaustive")
    assert found.startswith(f"2 of {number} points by tpe")


@pytest.mark.parametrize("form", [TILED, UNROLLED, PLAIN], ids=lambda form: form.label)
def test_vectorized_matrix_multiplication_equals_numpy(form: Form):
    n, members = 128, form.members
    knl = matrix_multiplication(form)
    queue = cl.CommandQueue(cl.create_some_context(interactive=False))
    rng = np.random.default_rng(0)
    a, b = rng.random((n, n), dtype=np.float32), rng.random((n, n), dtype=np.float32)
    c = array.zeros(queue, (n, n // members, members), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Loopy warns that it uses another scheduler for vectors.
        knl(queue, a=array.to_device(queue, a), b=array.to_device(queue, b.reshape(c.shape)), c=c, n=np.int32(n))
        code = lp.generate_code_v2(knl).device_code()
    # Sums of 128 products of numbers up to 1, rounded in float32.
    np.testing.assert_allclose(c.get().reshape(n, n), a @ b, rtol=1e-5)
    assert f"__global float{members} const *__restrict__ b" in code
    assert f"float{members} acc" in code
    assert ("b_tile" in code) is ("b" in form.tiles)


def test_vectors_are_loaded_whole():
    # Each of n/32 · n/8 groups fetches 8 · 8 vectors of b for each of n/8 tiles; n²/4 work-items read one for each k.
    counts = lpp.count(matrix_multiplication(PLAIN)).properties()
    n = 256
    assert counts["f32 mul"](n=n) == n**3
    assert counts["global load 128-bit stride 1"](n=n) == n**3 // 32
    assert counts["local load 128-bit"](n=n) == n**3 // 4
    assert counts["local load 32-bit"](n=n) == n**3 // 4
    assert counts["global store 128-bit stride 1"](n=n) == n**2 // 4
