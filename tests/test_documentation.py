"""What the documents say is so: what runs in them runs, their commands and targets exist, their links lead somewhere.

``documents.py`` says by which conventions. That the pages become a site without a warning, `make docs` says.
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
from loopyperf.cli.streams import PLAIN_WIDTH
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
"""columns, as when the output in the documents was made"""
BY_THE_WALK = TUTORIAL / "index.md"
"""its console is run by its script: see test_tutorial.py"""
CONSOLES = [each for each in DOCUMENTS if each != BY_THE_WALK and steps_of(each)]


def place(document: Path) -> str:
    """Return where *document* is in the tree."""
    return str(document.relative_to(ROOT))


@pytest.fixture(params=DOCUMENTS, ids=place)
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


def test_every_session_prints_what_the_document_shows(document: Path, desk: Path) -> None:
    write_files(document, desk)
    assert run_sessions(document).failed == 0


def test_every_python_block_is_a_file_or_a_session(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=place(document)):
            python = [block for block in blocks(document) if block.language == "python"]
            neither = [block.line for block in python if not re.match(r"# \w+\.py\n|>>> ", block.text)]
            assert not neither, f"lines {neither}"


@pytest.mark.parametrize("console", CONSOLES, ids=place)
def test_every_command_prints_what_the_document_shows(console: Path, desk: Path) -> None:
    write_files(console, desk)
    for step in steps_of(console):
        name, *arguments = shlex.split(step.command)
        assert name == "loopyperf", f"only our commands are run, received {step.command!r}"
        result = CliRunner().invoke(program, arguments)
        assert result.exit_code == 0, result.output
        assert step.prints(result.stdout), f"{step.command} printed\n{result.stdout}"


def test_every_command_is_one_of_ours_with_options_that_it_takes(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=place(document)):
            for words in commands(document):
                if words[0] == "loopyperf" and len(words) > 1:
                    assert words[1] in COMMANDS, " ".join(words)
                    if len(words) > 2:
                        # With its parent, whose settings a command keeps for good.
                        parent = program.make_context("loopyperf", words[1:])
                        COMMANDS[words[1]].make_context(words[1], words[2:], parent)


def test_every_make_target_exists(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=place(document)):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.MULTILINE))
            named = {
                word for words in commands(document) if words[0] == "make" for word in words[1:] if "=" not in word
            }
            assert set() == named - targets


def test_every_link_within_the_tree_leads_to_something(subtests: pytest.Subtests) -> None:
    for document in DOCUMENTS:
        with subtests.test(document=place(document)):
            links = re.findall(r"\]\(([^)#\s]+)", prose(document))
            local = [link for link in links if "://" not in link]
            broken = [link for link in local if not (document.parent / link).exists()]
            assert not broken, broken


def test_every_page_that_sources_name_exists() -> None:
    sources = [path for folder in ("loopyperf", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    named = {page for path in sources for page in re.findall(r"docs/[\w/]+\.md", path.read_text(encoding="utf-8"))}
    assert len(named) > 3
    assert [page for page in sorted(named) if not (ROOT / page).is_file()] == []


def test_a_file_that_stands_in_the_tutorial_is_shown_as_it_is() -> None:
    shown = {(path, name): text for path in DOCUMENTS for name, text in files(path).items()}
    copies = {key: text for key, text in shown.items() if (TUTORIAL / key[1]).exists()}
    assert (ROOT / "README.md", "matmul.py") in copies
    assert {key: (TUTORIAL / key[1]).read_text(encoding="utf-8") for key in copies} == copies


def test_the_reference_has_every_public_name() -> None:
    listed = re.findall(r" as (\w+)$", (ROOT / "loopyperf" / "__init__.pyi").read_text(encoding="utf-8"), re.MULTILINE)
    page = (SITE / "reference" / "api.md").read_text(encoding="utf-8")
    in_words = ["LoopyperfError", "LoopyperfWarning", "MODELS"]
    assert in_words == sorted(set(re.findall(r"`loopyperf\.(\w+)`", page)))
    described = re.findall(r"^\.\. auto\w+:: loopyperf\.(\w+)$", page, re.MULTILINE)
    of_errors = {name for name, each in vars(errors).items() if isinstance(each, type)}  # they have a page of their own
    assert sorted(set(listed) - of_errors) == sorted({*described, *in_words} - of_errors)


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("loopyperf.explain.plots", "plots"),
        ("loopyperf.idg", "graphs"),
        ("loopyperf.pipeline", "simulator"),
        ("loopyperf.testing", "testing"),
    ],
)
def test_the_reference_has_every_public_name_of_a_package(package: str, name: str) -> None:
    page = (SITE / "reference" / f"{name}.md").read_text(encoding="utf-8")
    public = set(import_module(package).__all__)
    (members,) = re.findall(rf"^\.\. automodule:: {package}\n   :members:(.*)$", page, re.MULTILINE)
    generated = set(members.strip().split(", ")) if members.strip() else public  # all of them where none is named
    in_words = set(re.findall(rf"`{package}\.(\w+)` maps", page))
    assert public == generated | in_words


def test_what_the_how_to_says_of_graphs_is_in_the_reference() -> None:
    how_to = prose(SITE / "howto" / "counts.md")
    page = (SITE / "reference" / "graphs.md").read_text(encoding="utf-8")
    named = {
        "lowered",
        "private_arrays",
        "estimated_registers",
        "resources",
        "listing",
        "dot",
        "ilp",
        "mlp",
    }
    assert {each for each in named if re.search(rf"\b{each}\b", how_to)} == named
    assert {each for each in named if re.search(rf"\b{each}\b", page)} == named


def test_every_environment_variable_of_ours_is_in_the_reference() -> None:
    folders = ("loopyperf", "benchmarks", "measurement_kernels", "test_kernels", "docs")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".sh")]
    texts = [path.read_text(encoding="utf-8") for path in (*sources, ROOT / "Makefile", ROOT / "tests" / "conftest.py")]
    read = {name for text in texts for name in re.findall(r"\bLOOPYPERF_[A-Z_]*[A-Z]", text)}
    page = (SITE / "reference" / "environment.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert read == {name for name in rows if name.startswith("LOOPYPERF_")}
    assert {"LOOPY_NO_CACHE", "PYOPENCL_CTX", "POCL_MAX_PTHREAD_COUNT"} <= rows


def test_the_defaults_that_the_reference_of_variables_states_are_those() -> None:
    page = (SITE / "reference" / "environment.md").read_text(encoding="utf-8")
    (limit,) = re.findall(r"^\| `LOOPYPERF_CACHE_LIMIT` \|.*\| (\d+),", page, re.MULTILINE)
    assert int(limit) == LIMIT
    (width,) = re.findall(r"^\| `COLUMNS` \|.* (\d+) in a file or a pipe", page, re.MULTILINE)
    assert int(width) == PLAIN_WIDTH


def test_every_page_of_the_site_is_in_the_contents_of_its_first_page() -> None:
    index = (SITE / "index.md").read_text(encoding="utf-8")
    pages = [path for folder in ("howto", "reference") for path in (SITE / folder).glob("*.md")]
    names = [path.relative_to(SITE).with_suffix("").as_posix() for path in pages]
    assert [name for name in names if not re.search(rf"^{name}$", index, re.MULTILINE)] == []


def test_the_reference_of_commands_is_generated_from_all_of_them() -> None:
    page = (SITE / "reference" / "commands.md").read_text(encoding="utf-8")
    assert ".. click:: loopyperf.cli.command_table:program\n   :prog: loopyperf\n   :nested: full\n" in page


def test_the_citation_is_of_this_version() -> None:
    stated = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert stated == re.findall(
        r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE
    )


def test_the_readme_has_a_row_for_every_command() -> None:
    rows = re.findall(r"^\| `loopyperf (\w+)`", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(COMMANDS) == rows


def test_pip_is_told_to_install_what_make_env_installs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (barvinok,) = re.findall(r"^BARVINOK \?= (.+)$", makefile, re.MULTILINE)
    lines = [line for block in blocks(ROOT / "README.md") for line in block.text.splitlines() if "pip install" in line]
    assert lines == [
        'pip install -c constraints.txt -e ".[opencl,plots,report]"',
        f"pip install --force-reinstall --no-deps {barvinok}",
    ]


def test_whoever_has_the_package_has_its_licence_and_what_is_to_be_noticed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license-files"] == ["LICENSE", "NOTICE"]
    assert "islpy-barvinok" in (ROOT / "NOTICE").read_text(encoding="utf-8")


def test_the_readme_is_read_by_these_tests() -> None:
    languages = [block.language for block in blocks(ROOT / "README.md")]
    assert {"python", "shell", "console"} <= set(languages)
    assert ["loopyperf", "estimate"] in [words[:2] for words in commands(ROOT / "README.md")]
