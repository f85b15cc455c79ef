import pickle
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


def test_files_are_sorted_by_file_name_and_private_ones_left_out(tmp_path):
    write(tmp_path, "b.py", "first by name")
    write(tmp_path, "a.py", "second by name")
    (tmp_path / "_shared.py").write_text("no kernel")
    (tmp_path / "README.md").write_text("no kernel")
    files = load_kernel_files(tmp_path)
    assert [file.name for file in files] == ["second by name", "first by name"]
    assert files[0].doc == "b = 2 a: a test."
    assert files[0].configurations(LIMITS) == []


def test_what_a_file_defines_pickles(tmp_path):
    loaded = marker(write(tmp_path, "scale.py", "scale"))
    assert pickle.loads(pickle.dumps(loaded())).__class__ is loaded


def test_an_unchanged_file_is_loaded_once(tmp_path):
    path = write(tmp_path, "scale.py", "scale")
    assert marker(path) is marker(path)


def test_an_edited_file_is_loaded_again(tmp_path):
    path = write(tmp_path, "scale.py", "scale", value=1)
    before = marker(path)
    write(tmp_path, "scale.py", "scale", value=2)
    assert (before.value, marker(path).value) == (1, 2)


def test_files_of_the_same_name_in_two_folders_are_two_modules(tmp_path):
    for folder in ("measured", "tested"):
        (tmp_path / folder).mkdir()
    one = marker(write(tmp_path / "measured", "scale.py", "scale"))
    other = marker(write(tmp_path / "tested", "scale.py", "scale"))
    assert one.__module__ != other.__module__


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('"""doc"""\ndef configurations(limits): return []\n', "has no NAME"),
        ('"""doc"""\nNAME = 3\ndef configurations(limits): return []\n', "has no NAME"),
        ('"""doc"""\nNAME = "k"\n', "has no function configurations"),
        ('"""doc"""\nNAME = "k"\nconfigurations = []\n', "has no function configurations"),
        ('NAME = "k"\ndef configurations(limits): return []\n', "has no docstring"),
        ('" "\nNAME = "k"\ndef configurations(limits): return []\n', "has no docstring"),
        ("def configurations(limits) return []\n", "cannot be imported: SyntaxError"),
        ("import no_such_module_anywhere\n", "cannot be imported: ModuleNotFoundError"),
    ],
)
def test_a_file_that_lacks_something_is_named(tmp_path, content, message):
    (tmp_path / "lacking.py").write_text(content)
    with pytest.raises(KernelFileError, match=rf"lacking\.py {message}"):
        load_kernel_files(tmp_path)


def test_two_files_of_one_name_are_named(tmp_path):
    write(tmp_path, "a.py", "scale")
    write(tmp_path, "b.py", "scale")
    with pytest.raises(KernelFileError, match=r"b\.py and .*a\.py both have NAME = 'scale'"):
        load_kernel_files(tmp_path)


def test_a_folder_without_kernels_is_refused(tmp_path):
    with pytest.raises(KernelFileError, match="holds no kernel files"):
        load_kernel_files(tmp_path)
    with pytest.raises(KernelFileError, match="is not a folder"):
        load_kernel_files(tmp_path / "nowhere")


def test_configurations_that_cannot_be_told_apart_are_refused():
    with pytest.raises(KernelFileError, match="labelled 'twice'"):
        configurations_of(kernel_file("k", configuration("twice"), configuration("twice")), LIMITS)


@pytest.mark.parametrize("changes", [{"sizes": ()}, {"steps": 0}, {"stride": 0}])
def test_a_configuration_that_cannot_be_measured_is_refused(changes):
    with pytest.raises(KernelFileError, match="'lacking' needs sizes"):
        configurations_of(kernel_file("k", configuration("lacking", **changes)), LIMITS)


def test_a_bundled_folder_is_inside_the_package_or_beside_it(tmp_path, monkeypatch):
    package = tmp_path / "loopyperf"
    monkeypatch.setattr(kernel_files, "PACKAGE", package)
    with pytest.raises(KernelFileError, match="no folder 'measurement_kernels'"):
        bundled_folder("measurement_kernels")
    beside, inside = tmp_path / "measurement_kernels", package / "measurement_kernels"
    beside.mkdir()
    assert beside == bundled_folder("measurement_kernels")
    inside.mkdir(parents=True)
    assert inside == bundled_folder("measurement_kernels")
