"""Test that counts of a kernel are equal in every respect after they are written and read."""

from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import loopy as lp
import msgspec
import numpy as np
import pytest
from parts.multipole_expansion import multipole_expansion

from loopyperf.counts.kernel_counts import KernelCounts, Tally, count_kernel
from loopyperf.counts.transcription import counts_as_json, read_counts
from loopyperf.kernel import load_kernel
from loopyperf.polyhedral.quasipolynomial import QuasiPolynomial
from tests.counts import small_accesses, small_loops, small_schedules, small_vectors
from tests.counts.small_kernels import SMALL_KERNELS
from tests.counts.small_uncountable import data_dependent_choice, sparse_rows
from tests.kernels import doubled, outer_product

IMPORTED = (small_loops, small_accesses, small_schedules, small_vectors)
"""importing these modules fills SMALL_KERNELS"""


def read_back(counts: KernelCounts) -> KernelCounts:
    return read_counts(counts_as_json(counts))


def assert_same(counts: KernelCounts, restored: KernelCounts) -> None:
    """Assert that all parts are equal, and that equal objects are shared as before."""
    parts = {field.name for field in fields(counts)} - {"kernel", "tallies"}
    assert {name: getattr(restored, name) for name in parts} == {name: getattr(counts, name) for name in parts}
    assert restored.kernel.name == counts.kernel.name
    assert restored.kernel.assumptions.plain_is_equal(counts.kernel.assumptions)
    assert [tally_parts(tally) for tally in restored.tallies] == [tally_parts(tally) for tally in counts.tallies]
    pairs = list(zip(polynomials(counts), polynomials(restored), strict=True))
    assert all(str(one.polynomial) == str(other.polynomial) and one.form == other.form for one, other in pairs)
    assert len({id(one) for one, _ in pairs}) == len({id(other) for _, other in pairs})
    assert str(restored) == str(counts)


def tally_parts(tally: Tally) -> tuple[object, ...]:
    return tally.launch, tally.source, tally.item, tally.number, type(tally.number)


def polynomials(counts: KernelCounts) -> list[QuasiPolynomial]:
    return [tally.executions for tally in counts.tallies]


def test_round_trip_of_small_kernels(subtests: pytest.Subtests) -> None:
    for small in SMALL_KERNELS:
        with subtests.test(small=str(small)):
            counts = count_kernel(load_kernel(small.build()))
            assert_same(counts, read_back(counts))


@pytest.mark.parametrize("options", [{"counting": "paper"}, {"sub_group_size": 32}], ids=str)
def test_round_trip_with_options(options: dict[str, Any]) -> None:
    counts = count_kernel(load_kernel(outer_product()), **options)
    assert_same(counts, read_back(counts))


def test_round_trip_of_hundreds_of_instructions() -> None:
    counts = count_kernel(load_kernel(multipole_expansion(order=4)))
    assert_same(counts, read_back(counts))


def test_round_trip_of_fractions_from_typical_values() -> None:
    counts = count_kernel(load_kernel(data_dependent_choice()), typical={"some": 1 / 3})
    assert any(isinstance(tally.number, Fraction) for tally in counts.tallies)
    assert_same(counts, read_back(counts))


def test_round_trip_of_numbers_beyond_64_bits() -> None:
    counts = count_kernel(load_kernel(doubled()))
    tallies = tuple(replace(tally, number=2**100 + place) for place, tally in enumerate(counts.tallies))
    counts = replace(counts, tallies=tallies)
    assert_same(counts, read_back(counts))


def test_round_trip_of_what_was_assumed() -> None:
    assumed = count_kernel(load_kernel(sparse_rows()), typical={"j": 27})
    assert assumed.assumed
    assert_same(assumed, read_back(assumed))


def test_evaluation_is_equal_after_a_round_trip() -> None:
    counts = count_kernel(load_kernel(outer_product()))
    restored = read_back(counts)
    sizes = {"n": 33, "m": 48}
    assert restored.properties().evaluate(**sizes) == counts.properties().evaluate(**sizes)
    assert restored.shares(sizes) == counts.shares(sizes)
    assert str(restored.table(n=np.array([1, 2]), m=16)) == str(counts.table(n=np.array([1, 2]), m=16))


def test_invalid_transcripts_are_rejected() -> None:
    transcript = counts_as_json(count_kernel(load_kernel(doubled())))
    document = msgspec.json.decode(transcript)
    others = [
        {key: value for key, value in document.items() if key != "tallies"},
        document | {"polynomials": ["[n] -> { n"]},
        document | {"polynomials": []},
        document | {"assumptions": "n > 1"},
        document | {"items": [["Operation", "add"]]},
        [],
    ]
    for invalid in (b"", transcript[:-1], b"\x80", *map(msgspec.json.encode, others)):
        with pytest.raises(ValueError, match="not a transcript of kernel counts"):
            read_counts(invalid)


def test_transcript_does_not_contain_the_kernel() -> None:
    """The size of a transcript depends on the number of counts, not on Loopy's kernel object."""
    knl = lp.assume(doubled(), "n >= 2")
    assert b"LoopKernel" not in counts_as_json(count_kernel(load_kernel(knl)))
    assert len(counts_as_json(count_kernel(load_kernel(knl)))) < 2000
