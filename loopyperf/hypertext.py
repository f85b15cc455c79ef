"""Tables as notebooks show them: HTML of escaped text, without colours of its own, so that dark pages stay dark.

What is said here is in which column text stands flush left, since notebooks have everything flush right.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

FLUSH = {"text": "left", "number": "right"}


@dataclass(frozen=True, slots=True)
class Formula:
    """A cell that Jupyter typesets; the text stands beside it for whoever points at it."""

    text: str
    """as terminals show it"""
    latex: str
    """without the dollar signs"""


Cell = str | Formula


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]], *, text: int = 1, last: int = 0) -> str:
    """Return a table, of whose columns the first *text* ones and the *last* ones are text, and the others numbers."""
    numbers = range(text, len(headings) - last)
    kinds = ["number" if place in numbers else "text" for place in range(len(headings))]
    head = "".join(f"<th{_like(kind)}>{escape(word)}</th>" for kind, word in zip(kinds, headings, strict=True))
    body = "\n".join(f"<tr>{_row(kinds, row)}</tr>" for row in rows)
    return f'<table style="margin: 0 0 1em">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'


def lines(words: Iterable[str]) -> str:
    """Return a paragraph for each of *words*."""
    return "\n".join(f"<p{_indented(each)}>{escape(each)}</p>" for each in words)


def _indented(line: str) -> str:
    """Return the style of a *line* that begins with spaces, which are lost otherwise."""
    depth = len(line) - len(line.lstrip(" "))
    return f' style="margin-left: {depth}ch"' if depth else ""


def folded(summary: str, inside: str) -> str:
    """Return *summary*, which is opened to see what is *inside*."""
    return f"<details><summary>{escape(summary)}</summary>\n{inside}\n</details>"


def shown(*parts: str) -> str:
    """Return *parts* one below the other, as ``_repr_html_`` gives them."""
    inside = "\n".join(part for part in parts if part)
    return f'<div class="loopyperf">\n{inside}\n</div>'


def _row(kinds: Sequence[str], row: Sequence[Cell]) -> str:
    return "".join(_cell(kind, each) for kind, each in zip(kinds, row, strict=True))


def _cell(kind: str, cell: Cell) -> str:
    if isinstance(cell, Formula):
        return f'<td{_like(kind)} title="{escape(cell.text)}">${escape(cell.latex)}$</td>'
    return f"<td{_like(kind)}>{escape(cell)}</td>"


def _like(kind: str) -> str:
    """Return the attributes of a cell: a style of its own, since notebooks' rules for cells are stronger than ours."""
    return f' class="{kind}" style="text-align: {FLUSH[kind]}"'
