"""Memory accesses of the loads and stores of a graph, before and after lowering, derived by hand."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

import loopy as lp
import numpy as np
import pytest

from loopyperf.compiler import lowered
from loopyperf.compiler.accesses import with_wide_loads
from loopyperf.compiler.folding import without_index_arithmetic
from loopyperf.errors import GraphError, UncountableError
from loopyperf.idg import Idg
from loopyperf.idg.copies import copied
from loopyperf.idg.program import loops_in
from loopyperf.kernel import Kernel, load_kernel
from loopyperf.memory import AccessProfile, BankAccess
from tests.idg.patterns import LaunchAccesses, flat, launches_of, written


def launch_accesses(kernel: Kernel, sizes: Mapping[str, int] | None = None) -> LaunchAccesses:
    (launch,) = launches_of(kernel, sizes)
    return launch


def accesses(kind: LaunchAccesses, text: str, graph: Idg | None = None) -> Iterator[AccessProfile]:
    """Yield the profiles of the loads and stores whose text starts with *text*."""
    for number, instruction in enumerate((graph or kind.graph()).instructions):
        if instruction.reference is not None and instruction.text.startswith(text):
            yield kind.access(number, graph=graph).profile


# {{{ tiled matrix multiplication


@pytest.fixture(scope="module")
def product() -> LaunchAccesses:
    """Return the accesses of a 64 x 64 matrix multiplication with 16 x 16 tiles that are prefetched to local memory."""
    unit = lp.make_kernel(
        "{[i,j,k]: 0<=i,j,k<64}",
        "c[i,j] = sum(k, a[i,k]*b[k,j])",
        [lp.GlobalArg("a,b,c", np.float32, shape=(64, 64))],
        target=lp.PyOpenCLTarget(),
    )
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.1", inner_tag="l.1")
    unit = lp.split_iname(unit, "j", 16, outer_tag="g.0", inner_tag="l.0")
    unit = lp.split_iname(unit, "k", 16)
    for array, axes in (("a", ["i_inner", "k_inner"]), ("b", ["k_inner", "j_inner"])):
        unit = lp.add_prefetch(unit, array, axes, default_tag="l.auto", temporary_address_space=lp.AddressSpace.LOCAL)
    return launch_accesses(load_kernel(unit))


@pytest.mark.parametrize("text", ["a[", "b["])
def test_tiles_are_fetched_in_rows_of_two_sectors(product: LaunchAccesses, text: str) -> None:
    # A warp has two rows of 16 lanes; each loads 64 bytes of a row of 256. One execution for each of 64/16 tiles.
    (profile,) = accesses(product, text)
    assert (profile.number, profile.mean("sectors"), profile.mean("lines")) == (4, 4, 2)


def test_rows_and_columns_of_tiles_are_read_without_conflicts(product: LaunchAccesses) -> None:
    # a_fetch: two words, 16 apart; b_fetch: 16 neighbors. 4 tiles of 16 iterations each.
    for text in ("a_fetch[i_inner", "b_fetch[k_inner"):
        (profile,) = accesses(product, text)
        assert profile.executions == {BankAccess(32, 128, 1, 1): 64}, text


def test_wide_loads_request_all_bytes(product: LaunchAccesses) -> None:
    # A lane loads four elements of a row, 16 bytes; the warp loads 512. Quarters of a warp that read the same words
    # are served in pairs, so there are two wavefronts. The load is executed 64 / 4 times.
    machine = lowered(product.graph())
    profiles = list(accesses(product, "a_fetch[i_inner", machine))
    assert {access for profile in profiles for access in profile.executions} == {BankAccess(32, 512, 2, 2)}
    assert sum(profile.number for profile in profiles) == 16


def unrolled(launch: LaunchAccesses, **factors: int) -> Idg:
    """Return the graph of *launch* with the named loops unrolled by *factors*."""
    graph = launch.graph()
    return copied(graph, {loop.number: factors.get(loop.name, 1) for loop in loops_in(graph.body)})


def test_unrolled_accesses_sum_to_those_of_the_source(product: LaunchAccesses) -> None:
    copies = unrolled(product, k_inner=4, k_outer=3)
    for text in ("a[", "b[", "c[", "a_fetch[i", "b_fetch[k", "a_fetch[a", "b_fetch[b"):
        (source,) = accesses(product, text)
        parts = list(accesses(product, text, copies))
        together = {access: sum(part.executions.get(access, 0) for part in parts) for access in source.executions}
        assert together == source.executions, text


# }}}


# {{{ bank conflicts, alignment, iterations of unrolled copies


def test_each_copy_of_an_unrolled_loop_has_its_own_alignment() -> None:
    # 128 bytes from byte 4*k: four sectors if k is a multiple of 8, else five
    kernel = written("{[i,k]: 0<=i<32 and 0<=k<16}", "out[k,i] = a[i + k]", flat("a"), tags={"i": "l.0"})
    kind = launch_accesses(kernel)
    (source,) = accesses(kind, "a[")
    assert source.mean("sectors") == Fraction(4 * 2 + 5 * 14, 16)
    copies = accesses(kind, "a[", copied(kind.graph(), {0: 8}))
    assert [(copy.number, copy.mean("sectors")) for copy in copies] == [(2, 4), *[(2, 5)] * 7]


def test_loop_start_that_depends_on_lane_changes_addresses() -> None:
    # In its first iteration, lane i loads element 2*i, because j starts at i
    kernel = written("{[i,j]: 0<=i<32 and i<=j<i+4}", "out[i,j] = a[i + j]", flat("a"), tags={"i": "l.0"})
    kind = launch_accesses(kernel)
    (source,) = accesses(kind, "a[")
    (first, *_) = accesses(kind, "a[", copied(kind.graph(), {0: 4}))
    assert (first.number, first.mean("sectors")) == (1, 8)
    # Then elements 2*i + 1, 2*i + 2 and 2*i + 3; the last two extend into a ninth sector
    assert source.total("sectors") == 8 + 8 + 9 + 9


# }}}


# {{{ errors


def test_arithmetic_instruction_has_no_access(product: LaunchAccesses) -> None:
    (number, *_) = (n for n, each in enumerate(product.graph().instructions) if each.kind == "add")
    with pytest.raises(GraphError, match=rf"instruction {number} \(add\) does not access an array"):
        product.access(number)
    with pytest.raises(GraphError, match="got -1"):
        product.access(-1)


def test_unrolled_indirect_access_is_uncountable() -> None:
    index = lp.GlobalArg("m", np.int32, shape=(8,))
    kernel = written("{[i,k]: 0<=i<32 and 0<=k<8}", "out[k,i] = a[m[k] + i]", flat("a"), index, tags={"i": "l.0"})
    kind = launch_accesses(kernel)
    (source,) = accesses(kind, "a[")
    assert (source.number, source.mean("sectors")) == (8, 4)
    with pytest.raises(UncountableError, match="of a copy"):
        next(accesses(kind, "a[", copied(kind.graph(), {0: 4})))


# }}}


def test_merged_loads_replace_the_first_load(product: LaunchAccesses) -> None:
    copies = unrolled(product, k_inner=4)
    merged = with_wide_loads(copies)
    (profile,) = accesses(product, "a_fetch[i_inner", merged)
    assert (profile.number, profile.total("requested")) == (16, 16 * 512)


def test_merged_load_is_placed_at_the_first_load() -> None:
    # The loop loads t[1], which is added immediately, before t[0], although t[0] is first in memory.
    local = lp.TemporaryVariable("t", np.float32, shape=(2,), address_space=lp.AddressSpace.LOCAL)
    body = "t[0] = 1 {id=one}\nt[1] = 2 {id=two}\nout[i] = sum(k, t[1-k]) {dep=one:two}"
    kind = launch_accesses(written("{[i,k]: 0<=i<32 and 0<=k<2}", body, flat("out"), local, tags={"i": "l.0"}))
    merged = with_wide_loads(copied(without_index_arithmetic(kind.graph()), {0: 2}))
    assert [each.dtype for each in merged.instructions if each.kind == "load"] == ["b64"]
    assert not merged.backwards


# }}}


def test_access_through_index_variable_is_affine() -> None:
    # t = 2*i: 32 lanes of 4 bytes, 8 bytes apart, span 256 bytes, or eight sectors; addresses do not depend on data.
    kernel = written("{[i]: 0<=i<32}", "<int32> t = 2*i\nout[t] = 3", flat("out"), tags={"i": "l.0"})
    kind = launch_accesses(kernel)
    (number,) = (place for place, each in enumerate(kind.graph().instructions) if each.kind == "store")
    pattern = kind.access(number)
    assert (pattern.profile.mean("sectors"), pattern.assumed) == (8, ())
