"""Tests of output files: early checks, existing files, and atomic writes."""

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from loopyperf.cli.command_table import COMMANDS
from loopyperf.files import write_whole
from tests.cli.runner import run

FAILING_ARGUMENTS = {
    "calibrate": ("--device", "none of that name"),
    "fit": ("nowhere.jsonl",),
    "microbenchmark": ("--from-archive", "nowhere.jsonl"),
    "report": ("nowhere.py:f",),
    "trace": ("nowhere.py:f",),
    "train": ("nowhere.jsonl",),
}
"""by command: arguments for which it fails"""
MAKE_FOLDERS = ("calibrate", "fit", "train")


def test_all_commands_with_an_output_option_are_tested_and_accept_o() -> None:
    outputs = {
        name: each.opts for name, command in COMMANDS.items() for each in command.params if each.name == "output"
    }
    assert outputs == {name: ["--output", "-o"] for name in FAILING_ARGUMENTS}


@pytest.mark.parametrize("name", ["calibrate", "report"])  # the others declare the same option
def test_unwritable_output_is_refused_first_with_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    refusals = {
        tmp_path: "it is a folder",
        tmp_path / "file" / "page": f"{tmp_path / 'file'} is not a folder",
        tmp_path / "none" / "page": f"there is no folder {tmp_path / 'none'}",
        tmp_path / "page": f"the folder {tmp_path} is not writable",
        tmp_path / "file": "it is not writable",
    }
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # everything is writable for root
    for path, reason in refusals.items():
        if name in MAKE_FOLDERS and path.parent.name == "none":
            reason = f"the folder {tmp_path} is not writable"
        refused = run(name, *FAILING_ARGUMENTS[name], "-o", path)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr == f"Error: cannot write --output {path}: {reason}; give another path\n"


@pytest.mark.parametrize("name", ["calibrate", "report"])
def test_writable_output_is_not_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "new" / "page" if name in MAKE_FOLDERS else tmp_path / "page"
    refused = run(name, *FAILING_ARGUMENTS[name], "-o", path)
    assert refused.exit_code == 1
    assert "--output" not in refused.stderr
    assert list(tmp_path.glob("*")) == []


# {{{ existing files

DOUBLED = f"{Path(__file__).parents[1] / 'kernels.py'}:doubled"
ARGUMENTS = (DOUBLED, "--set", "n=4096", "--device", "nvidia-v100")
DEFAULT = {"report": "doubled.html", "trace": "trace.json"}
"""by command: the file that it writes for this kernel without --output"""
by_default = pytest.mark.parametrize(("name", "file"), DEFAULT.items())


@by_default
def test_default_output_does_not_overwrite_foreign_files(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text("my own")
    refused = run(name, *ARGUMENTS)
    assert (refused.exit_code, refused.stdout, Path(file).read_text()) == (1, "", "my own")
    assert refused.stderr == (
        f"Error: {file} exists and was not written by loopyperf; use --output to overwrite it or to give another path\n"
    )


@by_default
def test_named_output_and_own_files_are_overwritten(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(file).write_text("my own")
    assert run(name, *ARGUMENTS, "-o", file).exit_code == 0
    first = Path(file).read_text()
    assert "my own" not in first
    assert run(name, DOUBLED, "--set", "n=8192", "--device", "nvidia-v100").exit_code == 0
    assert Path(file).read_text() != first


def test_measured_device_file_does_not_overwrite_existing_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = Path(__file__).parents[1] / "measurement" / "microbenchmarks" / "recorded" / "pocl.jsonl.gz"
    monkeypatch.chdir(tmp_path)
    for _ in range(3):
        assert run("microbenchmark", "--from-archive", recorded).exit_code == 0
    written = {path.stem for path in tmp_path.glob("*.toml")}
    first = min(written, key=len)
    assert written == {first, f"{first}-2", f"{first}-3"}


# }}}

# {{{ atomic writes


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a disk that is full after part of a file was written."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)


@by_default
def test_full_disk_leaves_the_existing_file_unchanged(
    name: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_text("an earlier one, whole")
    with monkeypatch.context() as full:
        fill_disk(full)
        refused = run(name, *ARGUMENTS, "-o", tmp_path / file)
        nothing = run(name, *ARGUMENTS, "-o", tmp_path / "new")
    assert (refused.exit_code, nothing.exit_code) == (1, 1)
    assert refused.stderr.endswith(
        f"cannot be written to {tmp_path / file}: No space left on device; give another path\n"
    )
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(file, "an earlier one, whole")]


def test_links_and_file_modes_are_preserved(tmp_path: Path) -> None:
    file, link, dangling = tmp_path / "file", tmp_path / "link", tmp_path / "dangling"
    file.write_text("before")
    file.chmod(0o640)
    link.symlink_to("file")
    dangling.symlink_to("new")
    write_whole(link, b"after")
    write_whole(dangling, b"new")
    assert (link.is_symlink(), file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (True, "after", 0o640)
    assert (dangling.is_symlink(), (tmp_path / "new").read_text()) == (True, "new")
    assert {path.name for path in tmp_path.iterdir()} == {"file", "link", "dangling", "new"}


def test_new_file_has_the_default_mode(tmp_path: Path) -> None:
    write_whole(tmp_path / "ours", b"")
    (tmp_path / "other").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as reader:
        read = reader.submit(pipe.read_bytes)
        write_whole(pipe, b"through a pipe")
        assert read.result(10) == b"through a pipe"
    assert pipe.is_fifo()


def test_open_file_descriptor_is_written_to(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as file:
        write_whole(f"/dev/fd/{file.fileno()}", b"answer")
        file.seek(0, os.SEEK_END)
        file.write(b", and more")
    assert (tmp_path / "file").read_bytes() == b"answer, and more"


# }}}
