"""The documents, and the code in them that tests run.

Conventions: a ``python`` block that starts with ``# name.py`` is a file of that name; a block with ``>>>`` prompts is a
session, and all sessions of a document share one namespace. In a ``console`` block, the text after ``$`` is a loopyperf
command, which is run, and the lines below are its output; ``...`` matches anything. The commands in a ``shell`` block
take long or need a device: they are only parsed. The code in pages of the site can use the tutorial's Python files.
"""

import doctest
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "docs"
TUTORIAL = SITE / "tutorial"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted(SITE.rglob("*.md"))]


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str
    text: str
    line: int
    """number of its first line in the document"""


@dataclass(frozen=True)
class Step:
    """A command and its output in the document."""

    command: str
    shown: str

    def prints(self, received: str) -> bool:
        """Return whether *received* matches the output in the document."""
        return doctest.OutputChecker().check_output(self.shown, received, doctest.ELLIPSIS)


def blocks(document: Path) -> list[Block]:
    """Return the fenced blocks of *document* in order, without directives of the site."""
    text = document.read_text(encoding="utf-8")
    fenced = re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(match[1], match[2], text.count("\n", 0, match.start(2)) + 1) for match in fenced]


def prose(document: Path) -> str:
    """Return *document* without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def steps(console: str) -> list[Step]:
    """Return the commands of a console block, each with the output before the next one."""
    parts = re.split(r"^\$ (.*)\n", console, flags=re.MULTILINE)[1:]
    return [Step(command, shown) for command, shown in zip(parts[::2], parts[1::2], strict=True)]


def steps_of(document: Path) -> list[Step]:
    """Return all steps of *document*, in order."""
    return [step for block in blocks(document) if block.language == "console" for step in steps(block.text)]


def commands(document: Path) -> Iterator[list[str]]:
    """Yield the words of each loopyperf or make command in *document*, in blocks and in prose.

    Environment variables before the command and redirections after it are removed.
    """
    lines = [line for block in blocks(document) if block.language == "shell" for line in block.text.splitlines()]
    quoted = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose(document))]
    for line in [*lines, *quoted, *(step.command for step in steps_of(document))]:
        command = re.fullmatch(r"(?:[A-Z_]+=\S* )*((?:loopyperf|make)(?: .*)?)", re.split(" [|>] ", line)[0])
        if command:
            yield shlex.split(command[1], comments=True)


def files(document: Path) -> dict[str, str]:
    """Return name -> text of the blocks of *document* that are files."""
    found = {}
    for block in blocks(document):
        named = re.match(r"# (\w+\.py)\n", block.text)
        if block.language == "python" and named:
            found[named[1]] = block.text
    return found


def write_files(document: Path, folder: Path) -> None:
    """Save the files that the code in *document* needs: its own and, for a page of the site, those of the tutorial."""
    if document.is_relative_to(SITE):
        for path in TUTORIAL.glob("*.py"):
            shutil.copy(path, folder)
        shutil.copytree(TUTORIAL / "kernels", folder / "kernels")
    for name, text in files(document).items():
        (folder / name).write_text(text, encoding="utf-8")


def run_sessions(document: Path) -> doctest.TestResults:
    """Run the sessions of *document* in order and return how many examples failed."""
    parser, runner, namespace = doctest.DocTestParser(), doctest.DocTestRunner(), {"__name__": document.stem}
    for block in blocks(document):
        if block.language == "python" and ">>> " in block.text:
            session = parser.get_doctest(block.text, namespace, document.name, str(document), block.line - 1)
            runner.run(session, clear_globs=False)
            namespace = session.globs
    return runner.summarize(verbose=False)
