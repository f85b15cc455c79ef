"""Extract the text of a PDF made by Chromium, in which letters are glyph numbers.

A font is named by the number of its object, which names the table (``ToUnicode``) from its glyphs to letters.
"""

import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping

OBJECT = re.compile(rb"^(\d+) 0 obj\n(.*?)\nendobj", re.MULTILINE | re.DOTALL)
STREAM = re.compile(rb"/FlateDecode.*?stream\r?\n(.*)\r?\nendstream", re.DOTALL)
CONTENTS = re.compile(rb"/Type /Page\n.*?/Contents (\d+) 0 R", re.DOTALL)
LETTERS = re.compile(rb"/ToUnicode (\d+) 0 R")
WRITTEN = re.compile(rb"/F(\d+) [\d.]+ Tf|<([0-9A-F]+)> Tj")
GLYPHS = re.compile(rb"^<(\w{4})> (?:<(\w{4})> )?<(\w+)>$", re.MULTILINE)


def printed(pdf: bytes) -> str:
    """Return the text of all pages of *pdf*, in the form of :func:`compact`."""
    objects = {int(number): body for number, body in OBJECT.findall(pdf)}
    pages = [int(found[1]) for body in objects.values() if (found := CONTENTS.search(body))]
    return compact("".join("".join(_written(_stream(objects[page]), objects)) for page in pages))


def compact(words: str) -> str:
    """Return *words* without spaces and ligatures, because line breaks and ligatures depend on width and font."""
    return "".join(unicodedata.normalize("NFKC", words).split())


def _written(page: bytes, objects: Mapping[int, bytes]) -> Iterator[str]:
    letters: dict[int, str] = {}
    for font, glyphs in WRITTEN.findall(page):
        if font:
            letters = _letters(_stream(objects[int(LETTERS.search(objects[int(font)])[1])]))
        yield "".join(letters[int(glyphs[at : at + 4], 16)] for at in range(0, len(glyphs), 4))


def _letters(table: bytes) -> dict[int, str]:
    """Return glyph -> letters; a row of the table is for one glyph, or for a range from a first to a last one."""
    found: dict[int, str] = {}
    for first, last, letters in GLYPHS.findall(table.partition(b"endcodespacerange")[2]):
        text = bytes.fromhex(letters.decode()).decode("utf-16-be")
        for number in range(int(first, 16), int(last or first, 16) + 1):
            found[number] = text[:-1] + chr(ord(text[-1]) + number - int(first, 16))
    return found


def _stream(body: bytes) -> bytes:
    return zlib.decompress(STREAM.search(body)[1])
