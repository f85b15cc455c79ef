"""``loopyperf cache``: the counts of kernels, and answers of models, that are kept in files."""

import os
from collections.abc import Collection

import click
import loopy as lp
from rich.console import Console

from loopyperf.cli.console import standard_output
from loopyperf.oracle.analysis_files import (
    CACHE_VARIABLE,
    LIMIT_VARIABLE,
    cache_folder,
    cache_limit,
    is_of_these_versions,
    own_folder,
)
from loopyperf.oracle.analysis_folder import Entry, entries, remove


@click.command(epilog="\b\nExample: loopyperf cache --clear-stale")
@click.option("--clear", is_flag=True, help="Remove all of them.")
@click.option("--clear-stale", is_flag=True, help="Remove those of other versions, and what was left half written.")
def cache(clear: bool, clear_stale: bool) -> None:
    """Show where counts and answers are kept in files, and how many; nothing else in that folder is ever touched."""
    folder = cache_folder() or own_folder()
    found = entries(folder)
    console = standard_output()
    console.print(f"folder: {folder}")
    if clear or clear_stale:
        _remove([each for each in found if clear or not _is_readable(each)], console)
        return
    console.print(_state())
    console.print(f"limit: {cache_limit():,} bytes; {LIMIT_VARIABLE}=NUMBER says another")
    console.print(f"holds: {_sum(found)}")
    stale = [each for each in found if each.is_whole and not _is_readable(each)]
    console.print(f"of other versions: {_sum(stale)}")
    console.print(f"half written: {_sum([each for each in found if not each.is_whole])}")


def _is_readable(entry: Entry) -> bool:
    return entry.is_whole and is_of_these_versions(entry.path)


def _state() -> str:
    folder = cache_folder()
    if folder is None:
        return f"off: {CACHE_VARIABLE}=1 turns it on, {CACHE_VARIABLE}=FOLDER in another folder"
    if not lp.CACHING_ENABLED:
        return "off: LOOPY_NO_CACHE turns off Loopy's caches, and this one"
    if folder.exists() and not folder.is_dir():
        return f"off: {CACHE_VARIABLE}={os.environ[CACHE_VARIABLE]} is no folder; name one"
    return f"on: {CACHE_VARIABLE}={os.environ[CACHE_VARIABLE]}; unset it to turn it off"


def _sum(found: Collection[Entry]) -> str:
    return f"{len(found):,} file{'' if len(found) == 1 else 's'}, {sum(each.nbytes for each in found):,} bytes"


def _remove(gone: Collection[Entry], console: Console) -> None:
    """Remove files and say how many; exit with status 1 where some cannot be removed."""
    left = remove(gone)
    console.print(f"removed: {_sum([each for each in gone if each not in left])}")
    if left:
        console.print(f"cannot be removed: {_sum(left)}; their owner can")
        raise SystemExit(1)
