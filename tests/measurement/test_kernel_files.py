"""Tests of loading kernel files."""

import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest

from loopyperf.errors import KernelFileError
from loopyperf.measurement import kernel_files
from loopyperf.measurement.kernel_files import bundled_folder, configurations_of, load_kernel_files

from .synthetic import LIMITS, configuration, kernel_file

GOOD = '''"""b = 2 a: a test."""

NAME = "{name}"


def configurations(limits):
    return []


class Marker:
    value = {value}
'''


def write(folder: Path, file: str, name: str, value: int = 0) -> Path:
    path = folder / file
    path.write_text(GOOD.format(name=name, value=value))
    return path


def marker(path: Path):
    (file,) = load_kernel_files(path.parent)
    return file.configurations.__globals__["Marker"]


def test_files_are_sorted_by_file_name_without_private_files(tmp_path):
    write(tmp_path, "b.py", "first by name")
    write(tmp_path, "a.py", "second by name")
    for other in ("_shared.py", ".#a.py", "README.md"):
        (tmp_path / other).write_text("no kernel")
    files = load_kernel_files(tmp_path)
    assert [file.name for file in files] == ["second by name", "first by name"]
    assert files[0].doc == "b = 2 a: a test."
    assert files[0].configurations(LIMITS) == []


# {{{ one module per version of a file


def test_an_unchanged_file_is_loaded_once(tmp_path):
    path = write(tmp_path, "scale.py", "scale")
    assert marker(path) is marker(path)


def test_an_edited_file_is_loaded_again(tmp_path, monkeypatch):
    # Both versions have the same length and modification second, so Python would reuse cached bytecode.
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write(tmp_path, "scale.py", "scale", value=1)
    before = marker(path)
    write(tmp_path, "scale.py", "scale", value=2)
    assert (before.value, marker(path).value) == (1, 2)
    assert [path] == list(tmp_path.iterdir())


def test_failed_import_is_retried(tmp_path, monkeypatch):
    path = write(tmp_path, "scale.py", "scale")
    path.write_text(path.read_text() + "import os\nos.environ['LOOPYPERF_KERNEL_FILE_TEST']\n")
    with pytest.raises(KernelFileError, match=r"scale\.py: KeyError"):
        load_kernel_files(tmp_path)
    monkeypatch.setenv("LOOPYPERF_KERNEL_FILE_TEST", "set")
    assert len(load_kernel_files(tmp_path)) == 1


def test_objects_of_a_kernel_file_pickle(tmp_path):
    loaded = marker(write(tmp_path, "scale.py", "scale"))
    assert pickle.loads(pickle.dumps(loaded())).__class__ is loaded


def test_objects_pickled_before_an_edit_still_load(tmp_path):
    path = write(tmp_path, "scale.py", "scale", value=1)
    before = pickle.dumps(marker(path)())
    write(tmp_path, "scale.py", "scale", value=2)
    assert (pickle.loads(before).value, marker(path).value) == (1, 2)


def value_of(loaded) -> tuple[int, int]:
    return os.getpid(), loaded.value


def test_objects_of_a_kernel_file_pickle_into_a_forked_worker(tmp_path):
    (tmp_path / "_shared.py").write_text("class Marker:\n    value = 7\n")
    path = write(tmp_path, "scale.py", "scale")
    path.write_text(path.read_text().partition("class Marker")[0] + "from ._shared import Marker\n")
    loaded = marker(path)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        process, value = pool.submit(value_of, loaded()).result()
    assert process != os.getpid()
    assert value == 7


def test_files_of_the_same_name_in_two_folders_are_two_modules(tmp_path):
    for folder in ("measured", "tested"):
        (tmp_path / folder).mkdir()
    one = marker(write(tmp_path / "measured", "scale.py", "scale"))
    other = marker(write(tmp_path / "tested", "scale.py", "scale"))
    assert one.__module__ != other.__module__


# }}}


# {{{ shared private files

SHARING = '''"""b = {factor} a: a test."""

from ._shared import Marker, scaled_configurations

NAME = "scale by {factor}"


def configurations(limits):
    return scaled_configurations({factor})
'''


def write_shared(folder: Path, value: int = 0) -> None:
    (folder / "_shared.py").write_text(
        f"def scaled_configurations(factor):\n    return []\n\n\nclass Marker:\n    value = {value}\n"
    )


def test_files_share_the_objects_of_a_private_file(tmp_path):
    write_shared(tmp_path)
    for factor in (2, 3):
        (tmp_path / f"scale_{factor}.py").write_text(SHARING.format(factor=factor))
    two, three = load_kernel_files(tmp_path)
    assert (two.name, three.name) == ("scale by 2", "scale by 3")
    assert two.configurations(LIMITS) == []
    assert two.configurations.__globals__["Marker"] is three.configurations.__globals__["Marker"]


def test_an_edited_shared_file_is_loaded_again(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "scale.py"
    path.write_text(SHARING.format(factor=2))
    write_shared(tmp_path, value=1)
    before = marker(path)
    write_shared(tmp_path, value=2)
    after = marker(path)
    assert (before.value, after.value) == (1, 2)
    assert all(pickle.loads(pickle.dumps(loaded())).__class__ is loaded for loaded in (before, after))


def test_files_may_import_each_other(tmp_path):
    write(tmp_path, "a.py", "first")
    write(tmp_path, "b.py", "second")
    (tmp_path / "b.py").write_text((tmp_path / "b.py").read_text() + "from .a import Marker\n")
    first, second = load_kernel_files(tmp_path)
    assert first.configurations.__globals__["Marker"] is second.configurations.__globals__["Marker"]


def test_file_has_its_own_path(tmp_path):
    path = write(tmp_path, "scale.py", "scale")
    (file,) = load_kernel_files(tmp_path)
    assert Path(file.configurations.__globals__["__file__"]) == path.resolve()


@pytest.mark.parametrize(
    ("shared", "message"),
    [
        ("def scaled_configurations(factor) return []\n", "SyntaxError: .*_shared.py, line 1"),
        ("Marker = no_such_name\n", "NameError"),
        ("raise SystemExit('done')\n", "SystemExit: done"),
        ("Marker = 1\n", "ImportError: cannot import name 'scaled_configurations' .*_shared.py"),
        (None, r"ModuleNotFoundError: .*\._shared"),
    ],
)
def test_error_names_the_file_that_imports_a_broken_private_file(tmp_path, shared, message):
    (tmp_path / "scale.py").write_text(SHARING.format(factor=2))
    if shared is not None:
        (tmp_path / "_shared.py").write_text(shared)
    with pytest.raises(KernelFileError, match=rf"cannot import .*scale\.py: {message}"):
        load_kernel_files(tmp_path)


# }}}


# {{{ errors


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"""doc"""\ndef configurations(limits): return []\n', "has no NAME"),
        ('"""doc"""\nNAME = 3\ndef configurations(limits): return []\n', "has no NAME"),
        ('"""doc"""\nNAME = "k"\n', "has no function configurations"),
        ('"""doc"""\nNAME = "k"\nconfigurations = []\n', "has no function configurations"),
        ('NAME = "k"\ndef configurations(limits): return []\n', "has no docstring"),
        ('" "\nNAME = "k"\ndef configurations(limits): return []\n', "has no docstring"),
        ("def configurations(limits) return []\n", "SyntaxError"),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError"),
    ],
)
def test_error_names_the_incomplete_file(tmp_path, content, message):
    (tmp_path / "lacking.py").write_text(content)
    with pytest.raises(KernelFileError, match=rf"lacking\.py:? {message}"):
        load_kernel_files(tmp_path)


def test_error_names_the_file_without_a_valid_module_name(tmp_path):
    write(tmp_path, "scale.v2.py", "scale")
    with pytest.raises(KernelFileError, match=r"cannot import .*scale\.v2\.py: .* cannot have a dot; rename"):
        load_kernel_files(tmp_path)


def test_error_names_the_unreadable_file(tmp_path):
    write(tmp_path, "scale.py", "scale")
    (tmp_path / "gone.py").symlink_to(tmp_path / "nowhere.py")
    with pytest.raises(KernelFileError, match=r"cannot read .*gone\.py"):
        load_kernel_files(tmp_path)


def test_error_names_both_files_with_the_same_kernel_name(tmp_path):
    write(tmp_path, "a.py", "scale")
    write(tmp_path, "b.py", "scale")
    with pytest.raises(KernelFileError, match=r"b\.py and .*a\.py both have NAME = 'scale'"):
        load_kernel_files(tmp_path)


def test_a_folder_without_kernels_is_refused(tmp_path):
    with pytest.raises(KernelFileError, match="has no kernel files"):
        load_kernel_files(tmp_path)
    with pytest.raises(KernelFileError, match="is not a folder"):
        load_kernel_files(tmp_path / "nowhere")


def test_duplicate_labels_are_rejected():
    with pytest.raises(KernelFileError, match="has the label 'twice'"):
        configurations_of(kernel_file("k", configuration("twice"), configuration("twice")), LIMITS)


@pytest.mark.parametrize("error", [ValueError("no such tile"), SystemExit("no such tile")], ids=["error", "exit"])
def test_error_in_configurations_names_the_file(error, tmp_path):
    def fail(limits):
        raise error

    broken = replace(kernel_file("k"), path=tmp_path / "k.py", configurations=fail)
    with pytest.raises(KernelFileError, match=rf"k\.py: configurations\(\) raised {type(error).__name__}: no such"):
        configurations_of(broken, LIMITS)


@pytest.mark.parametrize("changes", [{"sizes": ()}, {"further": ((),)}, {"steps": 0}, {"stride": 0}])
def test_configuration_without_sizes_or_steps_is_rejected(changes):
    with pytest.raises(KernelFileError, match="'lacking' needs sizes"):
        configurations_of(kernel_file("k", configuration("lacking", **changes)), LIMITS)


# }}}


def test_a_bundled_folder_is_inside_the_package_or_beside_it(tmp_path, monkeypatch):
    package = tmp_path / "loopyperf"
    monkeypatch.setattr(kernel_files, "PACKAGE", package)
    with pytest.raises(KernelFileError, match="kernel folder 'measurement_kernels' is missing"):
        bundled_folder("measurement_kernels")
    beside, inside = tmp_path / "measurement_kernels", package / "measurement_kernels"
    beside.mkdir()
    assert beside == bundled_folder("measurement_kernels")
    inside.mkdir(parents=True)
    assert inside == bundled_folder("measurement_kernels")
