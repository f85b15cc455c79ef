"""What who asked said, in paragraphs."""

from loopyperf.explain.explain import paragraphs


def test_lines_of_a_paragraph_are_one_and_formulas_keep_theirs():
    said = "A sum,\nof rows.\n\n    s = Σ a\n      + b\n\n\nLast."
    assert paragraphs(said) == ["A sum, of rows.", "    s = Σ a\n      + b", "Last."]
    assert paragraphs("") == paragraphs("\n\n") == []
