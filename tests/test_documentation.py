"""What the documents say is so: their Python runs, their commands and targets exist, their links lead somewhere.

Conventions of the documents: a ``python`` block that begins with ``# name.py`` is a file of that name; one with ``>>>``
prompts is a session, and all sessions of a document share one namespace; the ``text`` block after a ``shell`` block is
the output of its command, which is run if it is ``loopyperf estimate``. Other commands are only parsed.
"""

import doctest
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopyperf.cli.program import COMMANDS, program

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
TERMINAL_WIDTH = "100"
"""columns, as when the output in the documents was made"""


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """number of its first line within the document"""


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of *document*, in order."""
    text = document.read_text(encoding="utf-8")
    fenced = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1) for match in fenced]


def prose(document: Path) -> str:
    """Return *document* without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def commands(document: Path) -> Iterator[list[str]]:
    """Yield the words of each of our commands in *document*, in blocks and in prose, without the variables before."""
    lines = [line for block in blocks(document) if block.language == "shell" for line in block.text.splitlines()]
    quoted = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(document))]
    for line in [*lines, *quoted]:
        command = re.fullmatch(r"(?:[A-Z_]+=\S* )*((?:loopyperf|make)(?: .*)?)", line)
        if command:
            yield shlex.split(command[1], comments=True)


@pytest.fixture(params=DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def document(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A newcomer's folder with nothing in it. (No test sees a person's own fits: see conftest.py.)"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", TERMINAL_WIDTH)
    before = set(sys.modules)
    yield tmp_path
    for name in {path.stem for path in tmp_path.glob("*.py")} - before:
        sys.modules.pop(name, None)


def write_files(document: Path, folder: Path) -> None:
    """Save the blocks of *document* that are files."""
    for block in blocks(document):
        named = re.match(r"# (\w+\.py)\n", block.text)
        if block.language == "python" and named:
            (folder / named[1]).write_text(block.text, encoding="utf-8")


def run_sessions(document: Path) -> doctest.TestResults:
    """Run the sessions of *document* one after the other, and return how many examples failed."""
    parser, runner, namespace = doctest.DocTestParser(), doctest.DocTestRunner(), {"__name__": document.stem}
    for block in blocks(document):
        if block.language == "python" and ">>> " in block.text:
            session = parser.get_doctest(block.text, namespace, document.name, str(document), block.line - 1)
            runner.run(session, clear_globs=False)
            namespace = session.globs
    return runner.summarize(verbose=False)


def test_every_session_prints_what_the_document_shows(document: Path, desk: Path) -> None:
    write_files(document, desk)
    assert run_sessions(document).failed == 0


def test_every_python_block_is_a_file_or_a_session(document: Path) -> None:
    python = [block for block in blocks(document) if block.language == "python"]
    neither = [block.line for block in python if not re.match(r"# \w+\.py\n|>>> ", block.text)]
    assert not neither, f"lines {neither}"


def test_estimates_from_the_shell_print_what_the_document_shows(document: Path, desk: Path) -> None:
    write_files(document, desk)
    for shell, shown in pairwise(blocks(document)):
        words = shlex.split(shell.text) if shell.language == "shell" and shown.language == "text" else []
        if words[:2] == ["loopyperf", "estimate"]:
            result = CliRunner().invoke(program, words[1:])
            assert (0, shown.text) == (result.exit_code, result.stdout), f"line {shell.line}"


def test_every_command_is_one_of_ours_with_options_that_it_takes(document: Path) -> None:
    for words in commands(document):
        if words[0] == "loopyperf" and len(words) > 1:
            assert words[1] in COMMANDS, " ".join(words)
            if len(words) > 2:
                # With its parent, whose settings a command keeps for good.
                parent = program.make_context("loopyperf", words[1:])
                COMMANDS[words[1]].make_context(words[1], words[2:], parent)


def test_every_make_target_exists(document: Path) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
    named = {word for words in commands(document) if words[0] == "make" for word in words[1:] if "=" not in word}
    assert set() == named - targets


def test_every_link_within_the_tree_leads_to_something(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", prose(document))
    local = [link for link in links if "://" not in link]
    broken = [link for link in local if not (document.parent / link).exists()]
    assert not broken, broken


def test_the_readme_has_a_row_for_every_command() -> None:
    rows = re.findall(r"^\| `loopyperf (\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(COMMANDS) == rows


def test_the_readme_is_read_by_these_tests() -> None:
    languages = [block.language for block in blocks(ROOT / "README.md")]
    assert {"python", "shell", "text"} <= set(languages)
    assert ["loopyperf", "estimate"] in [words[:2] for words in commands(ROOT / "README.md")]
