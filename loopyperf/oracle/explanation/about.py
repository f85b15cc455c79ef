"""The words of who asked, usually a docstring, as paragraphs of any width."""


def paragraphs(about: str) -> list[str]:
    """Return the paragraphs of *about*, which are parted by empty lines, each as one line.

    Where a line is indented, as formulas are, the paragraph keeps its lines.
    """
    found = [block.strip("\n") for block in about.replace("\r\n", "\n").split("\n\n")]
    return [block if _is_formula(block) else " ".join(block.split()) for block in found if block.strip()]


def _is_formula(block: str) -> bool:
    return any(line.startswith((" ", "\t")) for line in block.splitlines())
