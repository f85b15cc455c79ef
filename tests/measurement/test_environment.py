"""Tests of the recorded environment."""

import platform
import socket
from pathlib import Path

import msgspec
import pytest

from loopyperf.measurement.environment import Environment, incompatibilities

from .synthetic import environment


@pytest.mark.parametrize("field", ["device", "driver", "platform", "backend", "vendor"])
def test_fields_that_affect_times_must_match(field):
    assert incompatibilities(environment(), environment(**{field: "another"})) == (field,)


def test_another_number_of_threads_is_incompatible():
    assert incompatibilities(environment(threads=1), environment(threads="unset")) == ("threads",)


def test_another_python_is_compatible():
    assert incompatibilities(environment(), environment(versions={"python": "3.12.0"})) == ()


def test_versions_of_the_code_generators_are_recorded():
    here = Environment.here(backend="b", platform="p", vendor="v", device="d", driver="1")
    assert {"python", "loopyperf", "loopy", "numpy"} <= set(here.versions)


def test_neither_host_name_nor_paths_are_recorded():
    here = Environment.here(backend="b", platform="p", vendor="v", device="d", driver="1")
    text = msgspec.json.encode(here).decode()
    assert platform.node() not in text
    assert socket.gethostname() not in text
    assert str(Path.home()) not in text
