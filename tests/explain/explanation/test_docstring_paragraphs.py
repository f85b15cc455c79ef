"""Test of the paragraphs of a kernel's docstring."""

from loopyperf.explain.explain import paragraphs


def test_lines_of_paragraphs_are_joined_except_in_formulas():
    text = "A sum,\nof rows.\n\n    s = Σ a\n      + b\n\n\nLast."
    assert paragraphs(text) == ["A sum, of rows.", "    s = Σ a\n      + b", "Last."]
    assert paragraphs("") == paragraphs("\n\n") == []
