"""``loopyperf cache``: show or clear the cache of counts and predictions."""

import os
from collections.abc import Collection
from typing import Any

import click
import loopy as lp

from loopyperf.cli import settings
from loopyperf.cli.console import print_in, show
from loopyperf.cli.streams import Form, is_quiet
from loopyperf.display import ReportText
from loopyperf.files import why_unwritable
from loopyperf.stages.cache import (
    CACHE_VARIABLE,
    LIMIT_VARIABLE,
    Entry,
    cache_folder,
    cache_limit,
    entries,
    is_of_these_versions,
    own_folder,
    remove,
)
from loopyperf.units import number_of

LABELS = {"holds": "entries", "other_versions": "from other versions", "cannot_be_removed": "cannot be removed"}
"""JSON key -> label in text"""


@click.command(epilog="\b\nExample: loopyperf cache --clear-stale")
@click.option("--clear", is_flag=True, help="Delete all cached files.")
@click.option("--clear-stale", is_flag=True, help="Delete incomplete files and files from other versions.")
@settings.form
def cache_command(clear: bool, clear_stale: bool, form: Form) -> None:
    """Show or clear the result cache.

    The cache keeps counts and predictions for later processes. Other files in its folder are never deleted. With
    --quiet, print only the number of bytes that it holds, or that were removed. Exit with status 1 if a file cannot be
    deleted.
    """
    folder = cache_folder() or own_folder()
    found = entries(folder)
    if clear or clear_stale:
        gone = [each for each in found if clear or not _is_readable(each)]
        left = remove(gone)
        shown: dict[str, Any] = {"folder": str(folder), "removed": _sum([each for each in gone if each not in left])}
        shown |= {"cannot_be_removed": _sum(left)} if left else {}
    else:
        left = ()
        shown = {
            "folder": str(folder),
            "state": _state(),
            "limit": cache_limit(),
            "holds": _sum(found),
            "other_versions": _sum([each for each in found if each.is_whole and not _is_readable(each)]),
            "incomplete": _sum([each for each in found if not each.is_whole]),
        }
    lines = [_in_words(name, value) for name, value in shown.items()]
    if form != "text":
        print_in(form, lambda: [ReportText("", remarks=lines)], lambda: _records(shown), lambda: shown)
    elif is_quiet():
        show(str(shown["removed" if "removed" in shown else "holds"]["bytes"]))
    else:
        for line in lines:
            show(line)
    if left:
        raise SystemExit(1)


def _records(shown: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a row for each kind of files."""
    return [{"kind": name, **value} for name, value in shown.items() if isinstance(value, dict)]


def _is_readable(entry: Entry) -> bool:
    return entry.is_whole and is_of_these_versions(entry.path)


def _state() -> str:
    folder, value = cache_folder(), os.environ.get(CACHE_VARIABLE, "")
    if folder is None:
        on = f"unset {CACHE_VARIABLE} to turn the cache on"
        return f"off: {CACHE_VARIABLE}={value}; {on}" if value else "off: no home folder"
    if not lp.CACHING_ENABLED:
        return "off: LOOPY_NO_CACHE turns off Loopy's caches and this one"
    if reason := why_unwritable(folder, is_folder=True, makes_folders=True):
        return f"off: cannot write to {folder}: {reason}; {CACHE_VARIABLE}=FOLDER sets another folder"
    return f"on: {CACHE_VARIABLE}=0 turns it off, {CACHE_VARIABLE}=FOLDER sets another folder"


def _sum(found: Collection[Entry]) -> dict[str, int]:
    return {"files": len(found), "bytes": sum(each.nbytes for each in found)}


def _in_words(name: str, value: Any) -> str:
    if name == "state":
        return value
    if name == "limit":
        return f"limit: {value:,} bytes; {LIMIT_VARIABLE}=NUMBER sets another limit"
    if name == "folder":
        return f"folder: {value}"
    files = f"{number_of(value['files'], 'file')}, {number_of(value['bytes'], 'byte')}"
    return f"{LABELS.get(name, name)}: {files}{'; permission denied' if name == 'cannot_be_removed' else ''}"
