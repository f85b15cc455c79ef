"""Test the shares of instructions and launches in properties."""

import pickle
from collections.abc import Callable
from fractions import Fraction

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.kernel_counts import KernelCounts, count_kernel
from loopyperf.errors import ParameterError
from loopyperf.kernel import load_kernel


def copies() -> lp.TranslationUnit:
    """Return a kernel whose first launch loads and stores n elements, and whose second launch stores m."""
    return lp.make_kernel(
        "{[i,j]: 0<=i<n and 0<=j<m}",
        """
        b[i] = 2*a[i] {id=first}
        ... gbarrier {id=between, dep=first}
        c[j] = a[j] + 3*b[0] {id=second, dep=between}
        """,
        [lp.GlobalArg("a,b,c", np.float32, shape="n+m"), lp.ValueArg("n,m", np.int32), ...],
        name="copies",
        assumptions="n>=1 and m>=1",
        lang_version=(2018, 2),
    )


def in_groups() -> lp.TranslationUnit:
    """Return the same kernel in groups of 16 and of 32."""
    unit = lp.split_iname(copies(), "i", 16, outer_tag="g.0", inner_tag="l.0")
    return lp.split_iname(unit, "j", 32, outer_tag="g.0", inner_tag="l.0")


def exchanged() -> lp.TranslationUnit:
    """Return a kernel with barriers."""
    unit = lp.make_kernel(
        "{[g,l]: 0<=g<n and 0<=l<16}",
        "<> c[l] = 2*a[g,l] {id=fill, inames=g:l}\nb[g,l] = c[15-l] + c[l] {id=turn, dep=fill}",
        [lp.GlobalArg("a,b", np.float32, shape="n,16"), lp.ValueArg("m,n", np.int32), ...],
        lang_version=(2018, 2),
    )
    return lp.tag_inames(lp.set_temporary_address_space(unit, "c", "local"), {"g": "g.0", "l": "l.0"})


@pytest.mark.parametrize("build", [copies, in_groups, exchanged])
@pytest.mark.parametrize("sizes", [{"n": 1, "m": 1}, {"n": 40, "m": 7}, {"n": 7, "m": 2**40}])
def test_shares_add_up_to_the_properties(build: Callable[[], lp.TranslationUnit], sizes: dict[str, int]) -> None:
    counts = count_kernel(load_kernel(build()))
    added = {name: sum(parts.values()) for name, parts in counts.shares(sizes).items()}
    assert added == counts.properties().evaluate(**sizes)


def test_shares_of_rounded_counts_add_up_to_the_properties(subtests: pytest.Subtests) -> None:
    for share in ["1/2", "1/3", "9/10"]:
        for n in [1, 3, 5, 100]:
            with subtests.test(share=share, n=n):
                unit = lp.make_kernel(
                    "{[i]: 0<=i<n}",
                    "if m[i] > 0\n"
                    + "\n".join(f"b{place}[i] = 2*a[i] {{id=insn{place}}}" for place in range(5))
                    + "\nend",
                    [lp.GlobalArg("a", np.float32, shape="n"), lp.GlobalArg("m", np.int32, shape="n"), ...],
                    lang_version=(2018, 2),
                )
                counts = count_kernel(load_kernel(unit), typical={"m[i] > 0": Fraction(share)})
                shares = counts.shares({"n": n})
                assert {name: sum(parts.values()) for name, parts in shares.items()} == counts.properties().evaluate(
                    n=n
                )
                assert all(abs(count - n * Fraction(share)) < 1 for count in shares["f32 mul"].values())


@pytest.fixture(scope="module")
def counts() -> KernelCounts:
    """Return the counts of a kernel with two launches."""
    return count_kernel(load_kernel(in_groups()))


def test_share_is_named_after_its_instruction_or_launch(counts: KernelCounts) -> None:
    shares = counts.shares({"n": 40, "m": 7})
    assert shares["f32 mul"] == {"first": 40, "second": 7}
    assert shares["f32 add"] == {"second": 7}
    assert shares["work-groups"] == {"launch of copies": 3, "launch of copies_0": 1}


def test_barrier_share_is_named_after_the_next_instruction() -> None:
    shares = count_kernel(load_kernel(exchanged())).shares({"n": 3, "m": 1})
    assert shares["barriers"] == {"barrier before turn": 3 * 16}


def test_minimum_has_the_shares_of_the_smaller_count(counts: KernelCounts) -> None:
    shares = counts.shares({"n": 40, "m": 7})
    # Loads of stride 1: a in both instructions; stores: b and c. Their numbers are equal, and loads come first.
    assert shares["global min(load, store) 32-bit stride 1"] == shares["global load 32-bit stride 1"]
    broadcast = count_kernel(load_kernel(copies())).shares({"n": 40, "m": 7})
    # Without lanes, all accesses have stride 0: 40 + 7 + 7 loads, 40 + 7 stores.
    assert broadcast["global min(load, store) 32-bit stride 0"] == {"first": 40, "second": 7}


def test_shares_at_inadmissible_sizes_are_rejected(counts: KernelCounts) -> None:
    with pytest.raises(ParameterError):
        counts.shares({"n": 0, "m": 7})


def test_counts_can_be_pickled_before_and_after_evaluation() -> None:
    counts, sizes = count_kernel(load_kernel(in_groups())), {"n": 40, "m": 7}
    fresh = pickle.loads(pickle.dumps(counts))
    expected, shares = counts.properties().evaluate(**sizes), counts.shares(sizes)
    arrays = counts.properties().evaluate(n=np.array([40, 41]), m=7)
    text = str(counts)
    for copy in (fresh, pickle.loads(pickle.dumps(counts))):
        assert (copy.properties().evaluate(**sizes), copy.shares(sizes), str(copy)) == (expected, shares, text)
    vector = pickle.loads(pickle.dumps(counts.properties()))
    assert vector["f32 mul"](**sizes) == expected["f32 mul"]
    assert {name: list(each) for name, each in vector.evaluate(n=np.array([40, 41]), m=7).items()} == {
        name: list(each) for name, each in arrays.items()
    }
