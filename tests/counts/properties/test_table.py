"""Test tables of counts as text and as HTML, and their sizes."""

from html.parser import HTMLParser
from typing import Any

import loopy as lp
import numpy as np
import pytest

from loopyperf.counts.kernel_counts import KernelCounts, count_kernel
from loopyperf.errors import ParameterError
from loopyperf.kernel import load_kernel
from tests.kernels import floats, make_kernel, outer_product


@pytest.fixture(scope="module")
def counts() -> KernelCounts:
    """Return the counts of an outer product of n·m elements, with n rows and m/16 columns of groups."""
    return count_kernel(load_kernel(outer_product()))


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row, as a browser would show them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("th", "td"):
            self.rows[-1][-1] += data


# {{{ text


def test_counts_print_as_a_table_of_formulas(counts: KernelCounts) -> None:
    assert str(counts).splitlines() == [
        "outer_product, executed counting: 7 properties",
        "  property                                 count",
        "  f32 mul                                  m*n",
        "  global load 32-bit stride 0              m*n",
        "  global load 32-bit stride 1              m*n",
        "  global store 32-bit stride 1             m*n",
        "  launches                                 1",
        "  work-groups                              m*n/16",
        "  global min(load, store) 32-bit stride 1  m*n",
    ]


def test_numbers_are_beside_the_formulas(counts: KernelCounts) -> None:
    lines = str(counts.table(n=1000, m=64)).splitlines()
    assert lines[1].split() == ["property", "count", "n=1000,", "m=64"]
    assert lines[2].split() == ["f32", "mul", "m*n", "64,000"]
    assert len({len(line) for line in lines[1:]}) == 1


def test_properties_print_as_the_table_without_the_kernel(counts: KernelCounts) -> None:
    assert f"outer_product, executed counting: {counts.properties()}" == str(counts)
    table = counts.properties().table(n=3, m=16)
    assert f"outer_product, executed counting: {table}" == str(counts.table(n=3, m=16)) == repr(counts.table(n=3, m=16))
    assert repr(counts.properties()) == "<PropertyVector 7 properties>"


def test_long_formulas_are_wrapped_and_not_truncated() -> None:
    name = "n" * 150
    unit = make_kernel(f"{{[i]: 3 <= i < {name}}}", "out[i] = 2.0*a[i]")
    printed = str(count_kernel(load_kernel(lp.add_dtypes(unit, {"a": np.float32}))))
    assert f"{name}-3if{name}>=4" in "".join(printed.split())
    assert max(map(len, printed.splitlines())) <= 80
    assert "\x1b" not in printed


# }}}


# {{{ sizes


def numbers(counts: KernelCounts, **sizes: Any) -> list[tuple[str, int]]:
    """Return the heading and the first property of each column."""
    return [(heading, column[0]) for heading, column in counts.table(**sizes).columns.items()]


def test_each_size_is_a_column(counts: KernelCounts) -> None:
    assert numbers(counts, n=2, m=16) == [("n=2, m=16", 32)]
    expected = [("n=2, m=16", 32), ("n=3, m=16", 48)]
    assert numbers(counts, n=np.array([2, 3]), m=16) == numbers(counts, n=[2, 3], m=16) == expected


def test_arrays_broadcast_together(counts: KernelCounts) -> None:
    headings = [heading for heading, _ in numbers(counts, n=np.array([[1], [2]]), m=np.array([16, 32]))]
    assert headings == ["n=1, m=16", "n=1, m=32", "n=2, m=16", "n=2, m=32"]


def test_numbers_equal_the_properties(counts: KernelCounts) -> None:
    (column,) = counts.table(n=2**40, m=2**30).columns.values()
    assert dict(zip(counts.properties(), column, strict=True)) == counts.properties().evaluate(n=2**40, m=2**30)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"n": 0, "m": 16}, "violates the kernel's assumptions"),
        ({"n": 1}, "missing size m"),
        ({"n": 1, "m": 16, "k": 1}, "no size k"),
        ({"n": 1.0, "m": 16}, "must be integers"),
        ({"n": np.array([1, 2]), "m": np.array([16, 32, 48])}, "do not broadcast"),
    ],
)
def test_invalid_sizes_are_rejected(counts: KernelCounts, sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        counts.table(**sizes)


# }}}


# {{{ notebooks


def test_notebook_shows_the_table_with_typeset_formulas(counts: KernelCounts) -> None:
    rows = Cells(counts.table(n=1000, m=64)._repr_html_()).rows
    assert rows[0] == ["property", "count", "n=1000, m=64"]
    assert rows[1] == ["f32 mul", r"$m \, n$", "64,000"]
    assert [row[0] for row in rows[1:]] == list(counts.properties())
    formulas = [f"${count.latex()}$" for count in counts.properties().values()]
    assert [row[1] for row in rows[1:]] == formulas


def test_html_is_escaped() -> None:
    # The property has stride 1/>4, and the formula has an ampersand.
    unit = make_kernel("{[i]: 3<=i<n}", "out[i] = a[i, 0]", floats("a", "n, 9"), floats("out", "n"), ..., name="column")
    unit = lp.split_iname(unit, "i", 16, outer_tag="g.0", inner_tag="l.0")
    html = count_kernel(load_kernel(unit)).properties()._repr_html_()
    assert "1/>4" not in html
    row = next(row for row in Cells(html).rows if row[0] == "global load 32-bit stride 1/>4")
    assert row[1] == r"$\begin{cases}n - 3 & n \geq 4\end{cases}$"
    assert 'title="n - 3 if n &gt;= 4"' in html


def test_single_count_is_shown_as_a_formula(counts: KernelCounts) -> None:
    properties = counts.properties()
    assert properties["work-groups"]._repr_latex_() == r"$\frac{m \, n}{16}$"
    assert properties["global min(load, store) 32-bit stride 1"]._repr_latex_() == r"$m \, n$"


# }}}
