"""What a page leaves out, since pages are sent to others: the folders of the machine that it was made on."""

import re
from collections.abc import Mapping
from dataclasses import replace

from loopyperf.files import user_data_name
from loopyperf.oracle.explanation.explanation import Explanation, OnDevice

DATA = "<data folder>"
"""stands for the folder of a person's own fits and descriptions"""
PATH = re.compile(r"(?<![\w/>.~])(?:~|[A-Za-z]:)?(?:[/\\][^\s/\\'\"]+)+[/\\](?=[^\s/\\'\"])")
"""the folders of an absolute path, up to the file's name"""


def without_folders(explanation: Explanation) -> Explanation:
    """Return *explanation* with the names of files in reasons and notes, but not where these files lie.

    The kernel's source and what is said about it are whose page it is, and stay as they are.
    """
    devices = tuple(_on_device(on) for on in explanation.devices)
    return replace(explanation, devices=devices, refusals=_reasons(explanation.refusals))


def sentence_without_folders(sentence: str) -> str:
    """Return *sentence* without the folders of the paths in it."""
    return PATH.sub("", sentence.replace(user_data_name(), DATA))


def _on_device(on: OnDevice) -> OnDevice:
    estimates = {
        name: replace(each, notes=tuple(map(sentence_without_folders, each.notes)))
        for name, each in on.estimates.items()
    }
    roofline = on.roofline and replace(on.roofline, notes=tuple(map(sentence_without_folders, on.roofline.notes)))
    return replace(
        on,
        name=sentence_without_folders(on.name),
        estimates=estimates,
        refusals=_reasons(on.refusals),
        roofline=roofline,
        gaps=_reasons(on.gaps),
    )


def _reasons(refusals: Mapping[str, str]) -> dict[str, str]:
    return {sentence_without_folders(name): sentence_without_folders(reason) for name, reason in refusals.items()}
