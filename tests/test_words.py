"""Documents and sources contain no banned phrases: unclear wording, or wording with a standard term."""

import re

from tests.documents import DOCUMENTS, ROOT

BANNED = re.compile(
    r"\b(nobody|whoever|(?:is|are) (?:told|asked)|taken as (?:nothing|free)|the begin of|says so|answers by|comes by"
    r"|parting lanes|drawn to 1|as many each|is not described|knows nothing of|is worth nothing|so that neither"
    r")\b",
    re.IGNORECASE,
)
SOURCES = [
    path
    for folder in ("loopyperf", "measurement_kernels", "test_kernels", "notebooks")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".pyi", ".toml", ".j2", ".html", ".js", ".ipynb"}
]


def test_documents_and_sources_have_no_banned_phrases() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {phrase[0]}"
        for path in [*DOCUMENTS, *SOURCES]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for phrase in BANNED.finditer(line)
    ]
    assert not found, "\n".join(found)
