"""The documentation is correct: its code runs, its commands and make targets exist, and its links resolve.

``documents.py`` defines the conventions. `make docs` checks that the site builds without warnings.
"""

import re
import shlex
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

from loopyperf import errors
from loopyperf.cli.command_table import COMMANDS, program
from loopyperf.cli.options import PLAIN_WIDTH
from loopyperf.stages.cache import LIMIT
from tests.documents import (
    DOCUMENTS,
    ROOT,
    SITE,
    TUTORIAL,
    blocks,
    commands,
    files,
    prose,
    run_sessions,
    steps_of,
    write_files,
)

TERMINAL_WIDTH = "100"
"""columns, as for the output in the documents"""
TUTORIAL_PAGE = TUTORIAL / "index.md"
"""test_tutorial.py runs its commands"""
CONSOLES = [each for each in DOCUMENTS if each != TUTORIAL_PAGE and steps_of(each)]


def relative_path(document: Path) -> str:
    """Return the path of *document* in the repository."""
    return str(document.relative_to(ROOT))


@pytest.fixture(params=DOCUMENTS, ids=relative_path)
def document(request: pytest.FixtureRequest) -> Path:
    return request.param


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change to an empty folder, as a new user has. (conftest.py hides the user's own fits from all tests.)"""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", TERMINAL_WIDTH)
    before = set(sys.modules)
    yield tmp_path
    for name in {path.stem for path in tmp_path.glob("*.py")} - before:
        sys.modules.pop(name, None)


def test_python_sessions_print_the_shown_output(document: Path, workdir: Path) -> None:
    write_files(document, workdir)
    assert run_sessions(document).failed == 0


def test_every_python_block_is_a_file_or_a_session(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=relative_path(document)):
            python = [block for block in blocks(document) if block.language == "python"]
            neither = [block.line for block in python if not re.match(r"# \w+\.py\n|>>> ", block.text)]
            assert not neither, f"lines {neither}"


@pytest.mark.parametrize("console", CONSOLES, ids=relative_path)
def test_commands_print_the_shown_output(console: Path, workdir: Path) -> None:
    write_files(console, workdir)
    for step in steps_of(console):
        name, *arguments = shlex.split(step.command)
        assert name == "loopyperf", f"only our commands are run, received {step.command!r}"
        result = CliRunner().invoke(program, arguments)
        assert result.exit_code == 0, result.output
        assert step.prints(result.stdout), f"{step.command} printed\n{result.stdout}"


def test_commands_and_their_options_exist(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=relative_path(document)):
            for words in commands(document):
                if words[0] == "loopyperf" and len(words) > 1:
                    assert words[1] in COMMANDS, " ".join(words)
                    if len(words) > 2:
                        # Pass the parent context, because a command keeps its settings.
                        parent = program.make_context("loopyperf", words[1:])
                        COMMANDS[words[1]].make_context(words[1], words[2:], parent)


def test_every_make_target_exists(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=relative_path(document)):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
            named = {
                word for words in commands(document) if words[0] == "make" for word in words[1:] if "=" not in word
            }
            assert set() == named - targets


def test_links_within_the_repository_resolve(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=relative_path(document)):
            links = re.findall(r"\]\(([^)#\s]+)", prose(document))
            local = [link for link in links if "://" not in link]
            broken = [link for link in local if not (document.parent / link).exists()]
            assert not broken, broken


def test_pages_named_in_sources_exist() -> None:
    sources = [path for folder in ("loopyperf", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {page for path in sources for page in re.findall(r"docs/[\w/]+\.md", path.read_text(encoding="utf-8"))}
    assert len(named) > 3
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []


def test_shown_files_equal_those_of_the_tutorial() -> None:
    shown = {(path, name): text for path in DOCUMENTS for name, text in files(path).items()}
    copies = {key: text for key, text in shown.items() if (TUTORIAL / key[1]).exists()}
    assert (ROOT / "README.md", "matmul.py") in copies
    assert {key: (TUTORIAL / key[1]).read_text(encoding="utf-8") for key in copies} == copies


def test_the_reference_has_every_public_name() -> None:
    listed = re.findall(r" as (\w+)$", (ROOT / "loopyperf" / "__init__.pyi").read_text(encoding="utf-8"), re.MULTILINE)
    page = (SITE / "reference" / "api.md").read_text(encoding="utf-8")
    in_words = ["LoopyperfError", "LoopyperfWarning", "MODELS"]
    assert in_words == sorted(set(re.findall(r"`loopyperf\.(\w+)`", page)))
    documented = re.findall(r"^\.\. auto\w+:: loopyperf\.(\w+)$", page, re.MULTILINE)
    of_errors = {name for name, each in vars(errors).items() if isinstance(each, type)}  # errors have their own page
    assert sorted(set(listed) - of_errors) == sorted({*documented, *in_words} - of_errors)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("loopyperf.explain.plots", "plots"),
        ("loopyperf.idg", "graphs"),
        ("loopyperf.pipeline", "simulator"),
        ("loopyperf.testing", "testing"),
        ("loopyperf.transform", "transform"),
    ],
)
def test_the_reference_has_every_public_name_of_a_package(package: str, name: str) -> None:
    page = (SITE / "reference" / f"{name}.md").read_text(encoding="utf-8")
    public = set(import_module(package).__all__)
    (members,) = re.findall(rf"^\.\. automodule:: {package}\n   :members:(.*)$", page, re.MULTILINE)
    generated = set(members.strip().split(", ")) if members.strip() else public  # without names, all public members
    in_words = set(re.findall(rf"`{package}\.(\w+)` maps", page))
    assert public == generated | in_words


def test_graph_functions_of_the_how_to_are_in_the_reference() -> None:
    how_to = prose(SITE / "howto" / "counts.md")
    page = (SITE / "reference" / "graphs.md").read_text(encoding="utf-8")
    named = {"lowered", "private_arrays", "estimated_registers", "compiled", "listing", "ilp", "mlp"}
    assert {each for each in named if re.search(rf"\b{each}\b", how_to)} == named
    assert {each for each in named if re.search(rf"\b{each}\b", page)} == named


def test_all_environment_variables_are_in_the_reference() -> None:
    folders = ("loopyperf", "benchmarks", "examples", "measurement_kernels", "test_kernels", "docs")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh")]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, ROOT / "Makefile", ROOT / "tests" / "conftest.py")]
    read = {name for text in texts for name in re.findall(r"\bLOOPYPERF_[A-Z_]*[A-Z]", text)}
    page = (SITE / "reference" / "environment.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert read == {name for name in rows if name.startswith("LOOPYPERF_")}
    assert {"LOOPY_NO_CACHE", "PYOPENCL_CTX", "POCL_MAX_PTHREAD_COUNT"} <= rows


def test_documented_defaults_of_environment_variables_are_correct() -> None:
    page = (SITE / "reference" / "environment.md").read_text(encoding="utf-8")
    (limit,) = re.findall(r"^\| `LOOPYPERF_CACHE_LIMIT` \|.*\| (\d+),", page, re.MULTILINE)
    assert int(limit) == LIMIT
    (width,) = re.findall(r"^\| `COLUMNS` \|.* (\d+) in a file or a pipe", page, re.MULTILINE)
    assert int(width) == PLAIN_WIDTH


def test_index_lists_every_page() -> None:
    index = (SITE / "index.md").read_text(encoding="utf-8")
    pages = [path for folder in ("howto", "reference") for path in (SITE / folder).glob("*.md")]
    names = [path.relative_to(SITE).with_suffix("").as_posix() for path in pages]
    assert [name for name in names if not re.search(rf"^{name}$", index, re.MULTILINE)] == []


def test_command_reference_is_generated_for_all_commands() -> None:
    page = (SITE / "reference" / "commands.md").read_text(encoding="utf-8")
    assert ".. click:: loopyperf.cli.command_table:program\n   :prog: loopyperf\n   :nested: full\n" in page


def test_citation_has_the_current_version() -> None:
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert cited == re.findall(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_readme_has_a_row_for_every_command() -> None:
    rows = re.findall(r"^\| `loopyperf (\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(COMMANDS) == rows


def test_readme_installs_the_same_as_make_env() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (barvinok,) = re.findall(r"^BARVINOK \?= (.+)$", makefile, re.MULTILINE)
    lines = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines() if "pip install" in line]
    assert lines == [
        'pip install -c constraints.txt -e ".[opencl,plots,report]"',
        f"pip install --force-reinstall --no-deps {barvinok}",
    ]


def test_package_includes_license_and_notice() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "islpy-barvinok" in (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_readme_has_blocks_that_these_tests_check() -> None:
    languages = [block.language for block in blocks(ROOT / "README.md")]
    assert {"python", "shell", "console"} <= set(languages)
    assert ["loopyperf", "estimate"] in [words[:2] for words in commands(ROOT / "README.md")]
