"""Access profiles over all iterations of a warp, compared with lane-by-lane enumeration and exact averages."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any
from unittest.mock import patch

import loopy as lp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopyperf.counts.execution import ExecutionCounter
from loopyperf.counts.sizes import Typical
from loopyperf.idg.warp_classes import Warp, warps_of_group
from loopyperf.kernel import Kernel
from loopyperf.memory import AccessPattern, residues
from loopyperf.memory.addresses import LaneAddresses
from tests.idg.brute_force_warp import blocks, local_ids, wavefronts
from tests.idg.patterns import flat, pattern, references, written

Sizes = Mapping[str, int]
LANES = {"i": "l.0"}
WARP = Warp()


# {{{ lane by lane


@dataclass(frozen=True)
class Example:
    """Loads of array a, and a function that yields a work-item's iterations: loop values and the element loaded."""

    build: Callable[[], Kernel]
    group: tuple[int, ...]
    visit: Callable[..., Iterator[tuple[tuple[int, ...], int]]]
    """the iterations of work-item (g, ids) at given sizes"""
    loops: tuple[str, ...]
    element: int = 4

    @cached_property
    def kernel(self) -> Kernel:
        """Return the kernel, which is built once by the tests that need it."""
        return self.build()

    def lanes(self, warp: Warp, sizes: Sizes) -> dict[tuple[int, ...], dict[int, int]]:
        """Return iteration -> lane -> byte address."""
        found: dict[tuple[int, ...], dict[int, int]] = {}
        for lane, ids in enumerate(local_ids(warp.number, warp.size, self.group)):
            for iteration, place in self.visit(sizes, warp.groups[0], *ids):
                found.setdefault(iteration, {})[lane] = self.element * place
        return found


SIZES = [lp.ValueArg("n,m,s,t,u,v,d", np.int32)]
TAGS = {"g": "g.0", "i": "l.0"}


def box(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, m, s, t, u, v = (sizes[name] for name in "nmstuv")
    if 48 * g + i < n:
        yield from (((j, k), s * (48 * g + i) + t * j + u * k + v) for j in range(m) for k in range(3))


def triangle(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, s, t, u, v = (sizes[name] for name in "nstuv")
    if 48 * g + i < n:
        yield from (((j,), s * i + t * j + u * g + v) for j in range(i + 1))


def loop_from_lane(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, s, t, v = (sizes[name] for name in "nstv")
    values = range(48 * g + i, n)
    yield from (((number,), s * i + t * j + v) for number, j in enumerate(values))


def nested_loops_from_lane(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    m, s, t, u = (sizes[name] for name in "mstu")
    for outer, j in enumerate(range(i // 2, m)):
        for inner, k in enumerate(range(max(j - 4, i), m)):
            yield (outer, inner), s * i + t * j + u * k


def with_divisions(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, m, s, t, u, v, d = (sizes[name] for name in "nmstuvd")
    if 48 * g + i < n:
        yield from (((j, k), s * ((i + j) // d) + t * ((j // 2 + v) % 3) + u * k) for j in range(m) for k in range(3))


def divisions_in_triangle(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    m, s, t, d = (sizes[name] for name in "mstd")
    yield from (((j, k), s * ((i + j) // d) + t * k) for j in range(m) for k in range(j + 1))


def without_period(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, m, s, t, v = (sizes[name] for name in "nmstv")
    if 48 * g + i < n:
        yield from (((j,), s * min(i, j) + t * i * j + (j * j if j < v else 0)) for j in range(m))


def two_axes(sizes: Sizes, g: int, i: int, j: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, m, s, t, u = (sizes[name] for name in "nmstu")
    if i < n and (i + j) % 2 == 0:
        yield from (((k,), s * i + t * j + u * k) for k in range(m) if k <= j)


def alternating_lanes(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    m, s, t = (sizes[name] for name in "mst")
    yield from (((j,), s * i + t * j) for j in range(m) if (i + j) % 2 == 0)


def example(
    visit: Callable[..., Any], loops: str, domain: str, index: str, *, dtype: type = np.float32, **more: Any
) -> Any:
    group = more.get("group", (48,))
    axes = {name: f"l.{axis}" for axis, name in enumerate("ij"[: len(group)])}
    inames = ["g", "i", *more.get("inames", loops)]
    guard = [f"if={more['guard']}"] if "guard" in more else []
    code = f"out[{'+'.join(['i', *loops])}] = a[{index}] {{{','.join(['inames=' + ':'.join(inames), *guard])}}}"
    arguments = [*SIZES, flat("a", dtype), flat("out", dtype)]
    domains = f"[n,m] -> {{[{','.join(inames)}]: {domain}}}"
    build = partial(written, domains, code, *arguments, tags={"g": "g.0", **axes})
    return pytest.param(Example(build, group, visit, tuple(loops), np.dtype(dtype).itemsize), id=visit.__name__)


GROUPS = "0<=g<4 and 0<=i<48"
EXAMPLES = [
    example(box, "jk", f"{GROUPS} and 48*g+i<n and 0<=j<m and 0<=k<3", "s*(48*g+i) + t*j + u*k + v"),
    example(triangle, "j", f"{GROUPS} and 48*g+i<n and 0<=j<=i", "s*i + t*j + u*g + v", dtype=np.float64),
    example(loop_from_lane, "j", f"{GROUPS} and 48*g+i<=j<n", "s*i + t*j + v"),
    example(
        nested_loops_from_lane, "jk", f"{GROUPS} and i<=2*j+1 and j<m and j-4<=k and i<=k and k<m", "s*i + t*j + u*k"
    ),
    example(
        with_divisions, "jk", f"{GROUPS} and 48*g+i<n and 0<=j<m and 0<=k<3", "s*((i+j)//d) + t*((j//2 + v) % 3) + u*k"
    ),
    example(divisions_in_triangle, "jk", f"{GROUPS} and 0<=j<m and 0<=k<=j", "s*((i+j)//d) + t*k"),
    example(without_period, "j", f"{GROUPS} and 48*g+i<n and 0<=j<m", "s*if(i < j, i, j) + t*i*j + if(j < v, j*j, 0)"),
    example(alternating_lanes, "j", f"{GROUPS} and 0<=j<m", "s*i + t*j", guard="(i+j) % 2 == 0"),
    example(
        two_axes,
        "k",
        "0<=g<4 and 0<=i<10 and 0<=j<7 and i<n and 0<=k<m and k<=j",
        "s*i + t*j + u*k",
        group=(10, 7),
        inames="jk",
        guard="(i+j) % 2 == 0",
    ),
]


def rolled(sizes: Sizes, g: int, i: int) -> Iterator[tuple[tuple[int, ...], int]]:
    n, m, s, t, v, d = (sizes[name] for name in "nmstvd")
    if 48 * g + i < n:
        yield from (
            ((j, k), s * ((i + t) % n) + t * ((j + v) % m) + min(max(k + v, 0), 2 * d) + i * d)
            for j in range(m)
            for k in range(3)
        )


EXAMPLES.append(
    example(
        rolled,
        "jk",
        f"{GROUPS} and 48*g+i<n and 0<=j<m and 0<=k<3",
        "s*((i+t) % n) + t*((j+v) % m) + if(k+v < 0, 0, if(k+v < 2*d, k+v, 2*d)) + i*d",
    )
)


@pytest.mark.parametrize("most", [0, 2, residues.MOST_PLACES], ids=["visited", "places of some loops", "places"])
@pytest.mark.parametrize("case", EXAMPLES)
@settings(max_examples=10)
@given(draw=st.data())
def test_profile_equals_lane_by_lane_enumeration(case: Example, most: int, draw: st.DataObject) -> None:
    is_usual = most == residues.MOST_PLACES
    with patch.object(residues, "MOST_PLACES", most):
        if is_usual:
            check_lane_by_lane(case, draw)
        else:
            with patch.object(LaneAddresses, "steps", None):  # affine addresses have few offsets
                check_lane_by_lane(case, draw)


def check_lane_by_lane(case: Example, draw: st.DataObject) -> None:
    sizes = {name: draw.draw(st.integers(-40, 40), label=name) for name in "stuv"}
    sizes |= {
        "n": draw.draw(st.integers(1, 200)),
        "m": draw.draw(st.integers(1, 40)),
        "d": draw.draw(st.integers(1, 5)),
    }
    size = draw.draw(st.sampled_from([32, 64]))
    last = -(-int(np.prod(case.group)) // size) - 1
    warp = Warp({0: draw.draw(st.integers(0, 3))}, dict(enumerate(case.group)), draw.draw(st.integers(0, last)), size)
    found = pattern(case.kernel, "a", warp, sizes)
    by_hand = case.lanes(warp, sizes)
    expected = Counter(summary(lanes, case.element) for lanes in by_hand.values())
    assert Counter(found_summaries(found)) == expected
    for iteration in draw.draw(st.lists(st.sampled_from(sorted(by_hand)), max_size=3)) if by_hand else ():
        access = found.at(dict(zip(case.loops, iteration, strict=True)))
        assert (access.lanes, access.sectors, access.lines) == summary(by_hand[iteration], case.element)


def summary(lanes: Mapping[int, int], element: int) -> tuple[int, int, int]:
    return len(lanes), blocks(lanes, element, 32), blocks(lanes, element, 128)


def found_summaries(found: AccessPattern) -> dict[tuple[int, int, int], int]:
    numbers: Counter[tuple[int, int, int]] = Counter()
    for access, number in found.profile.executions.items():
        numbers[access.lanes, access.sectors, access.lines] += number
    return numbers


# }}}


# {{{ samples


DIMENSIONS = pytest.mark.parametrize(
    ("domain", "index"),
    [
        pytest.param("0<=j<20001", "((i + 32*j) % 20001)*3", id="lanes that wrap"),
        pytest.param("0<=j<9000", "i*j", id="lanes that part"),
        pytest.param("0<=j,k<120", "(i*j + 3*k) % 1001", id="two loops in one remainder"),
        pytest.param("0<=k<=j<250", "(i + j*k) % 777", id="a triangle"),
        pytest.param("0<=j<2000 and j<=k<j+4", "(i*j + k) % 1501", id="a band"),
        pytest.param("0<=k<=j<350 and k mod 2 = 0", "(i + j*k) % 777", id="every other one of a triangle"),
    ],
)


@DIMENSIONS
def test_sample_mean_is_close_to_the_exact_mean(domain: str, index: str) -> None:
    inames = ["i", *(name for name in "jk" if name in domain)]
    kernel = written(
        f"{{[{','.join(inames)}]: 0<=i<32 and {domain}}}",
        f"out[i] = a[{index}] {{inames={':'.join(inames)}}}",
        flat("a"),
        tags=LANES,
    )
    with patch.object(residues, "MOST_VISITED", 2**17), patch.object(residues, "MOST_LISTED", 2**17):
        exact = pattern(kernel, "a", WARP)
        assert exact.assumed == ()
    with patch.object(residues, "MOST_VISITED", 100), patch.object(residues, "MOST_LISTED", 100):
        sample = pattern(kernel, "a", WARP)
        (note,) = sample.assumed
    assert index in note
    assert sample.profile.number == exact.profile.number
    for quantity in ("sectors", "lines"):
        # Three standard errors of a mean of 512 samples; the standard deviation is a third of the mean.
        assert float(sample.profile.mean(quantity)) == pytest.approx(float(exact.profile.mean(quantity)), rel=0.04)


def test_loops_that_shift_all_lanes_equally_are_exact() -> None:
    # Rolled by 20 columns and 3 rows: each of 5001 * 5003 elements once; rows start at any place in a sector.
    kernel = written(
        "{[l,i,j]: 0<=l<32 and 0<=i<5001 and 0<=j<5003}",
        "out[l] = a[((i+3) % 5001)*5003 + (j+20) % 5003 + l] {inames=l:i:j}",
        flat("a", np.float64),
        tags={"l": "l.0"},
    )
    found = pattern(kernel, "a", WARP)
    starts = np.arange(5001 * 5003) * 8 % 32
    # 32 doubles are 8 sectors if they start at a sector, else 9
    assert (found.profile.total("sectors"), found.assumed) == (9 * len(starts) - int((starts == 0).sum()), ())


# }}}


# {{{ derived by hand


def test_sliding_window_is_aligned_in_one_of_eight_iterations() -> None:
    # a[i + j]: 4 sectors if 4*j is a multiple of 32, else 5. Of 100 iterations, 13 (0, 8, .. 96) have 4: 400 + 87
    domain, index = "{[i,j]: 0<=i<32 and 0<=j<100}", "out[j,i] = a[i + j]"
    kernel = written(domain, index, flat("a"), tags=LANES)
    found = pattern(kernel, "a", WARP)
    assert [found.at({"j": j}).sectors for j in range(9)] == [4, *[5] * 7, 4]
    assert found.profile.mean("sectors") == Fraction(487, 100)


def test_bank_conflicts_may_vary_between_iterations() -> None:
    # Lane i reads word i*j in bank i*j mod 32: gcd(j, 32) words in each bank; a single word if j = 0
    tile = lp.TemporaryVariable("tile", np.float32, shape=(32 * 32,), address_space=lp.AddressSpace.LOCAL)
    code = "tile[i] = a[i] {id=fill}\nout[i] = sum(j, tile[i*j]) {dep=fill}"
    kernel = written("{[i,j]: 0<=i<32 and 0<=j<32}", code, tile, flat("a"), tags=LANES)
    found = pattern(kernel, "tile", WARP)
    by_hand = [sum(wavefronts({i: 4 * i * j for i in range(32)}, 4, is_load=True)) for j in range(32)]
    assert [found.at({"j": j}).wavefronts for j in range(32)] == by_hand
    assert found.profile.mean("wavefronts") == Fraction(sum(by_hand), 32)
    assert found.profile.total("conflicts") == sum(by_hand) - 32


def test_large_trip_counts_are_not_enumerated() -> None:
    # 10^12 iterations of a[i + j + 1000*k]: 4000 is a multiple of 32, so k has no effect; one in eight is aligned
    kernel = written(
        "{[i,j,k]: 0<=i<32 and 0<=j,k<1000000}", "out[j,i] = a[i + j + 1000*k] {inames=i:j:k}", flat("a"), tags=LANES
    )
    profile = pattern(kernel, "a", WARP).profile
    assert (profile.number, profile.mean("sectors")) == (10**12, Fraction(39, 8))


def test_large_triangular_loops_are_not_enumerated() -> None:
    # j <= k < 10^6: one of 8 consecutive values of j + k is aligned; isl's result is compared with the sum over j
    kernel = written(
        "{[i,j,k]: 0<=i<32 and 0<=j<=k<1000000}", "out[j,i] = a[i + j + k] {inames=i:j:k}", flat("a"), tags=LANES
    )
    profile = pattern(kernel, "a", WARP).profile
    k = np.arange(10**6)
    # j from 0 to k with j = -k modulo 8
    aligned = int(((k - (-k % 8)) // 8 + 1).sum())
    iterations = 10**6 * (10**6 + 1) // 2
    assert (profile.number, profile.total("sectors")) == (iterations, 5 * iterations - aligned)


# }}}


# {{{ all warps together


@pytest.mark.parametrize("case", EXAMPLES)
def test_executions_of_all_warps_sum_to_the_count(case: Example) -> None:
    sizes = {"n": 130, "m": 13, "s": 1, "t": 2, "u": 3, "v": 4, "d": 5}
    shape = dict(enumerate(case.group))
    warps = [Warp({0: g}, shape, number) for g in range(4) for number in range(warps_of_group(shape))]
    profiles = [pattern(case.kernel, "a", warp, sizes).profile for warp in warps]
    found = sum(profile.total("lanes") for profile in profiles), sum(profile.number for profile in profiles)
    assert found == tuple(counted(case.kernel, size, sizes) for size in (None, 32))


def counted(kernel: Kernel, sub_group_size: int | None, sizes: Sizes) -> int:
    """Return how often work-items, or sub-groups, execute the load of a, according to the execution counter."""
    site = next(site for site, ref in references(kernel, Typical({})) if ref.array == "a")
    counter = ExecutionCounter(kernel, Typical({}), sub_group_size)
    return counter.executions(site, "executed").count(**sizes)


# }}}
