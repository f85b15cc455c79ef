"""The pictures in the documents are what their script draws today, as far as words and numbers in them tell."""

import re
import subprocess
import sys
from pathlib import Path

from tests.documents import ROOT

PICTURES = ROOT / "docs" / "pictures"
WORDS = re.compile(r"<text [^>]*>([^<]*)</text>")


def test_the_gallery_is_what_its_script_draws(tmp_path: Path):
    subprocess.run([sys.executable, "-W", "ignore", PICTURES / "gallery.py", tmp_path], check=True)
    drawn = sorted(tmp_path.iterdir())
    assert {each.name for each in drawn} == {each.name for each in PICTURES.glob("*.[sp][vn]g")} - {
        "rooms.svg",
        "streams.svg",
        "report.png",
    }
    for each in drawn:
        if each.suffix == ".svg":
            words = WORDS.findall((PICTURES / each.name).read_text(encoding="utf-8"))
            assert words == WORDS.findall(each.read_text(encoding="utf-8"))
            assert len(words) > 5
