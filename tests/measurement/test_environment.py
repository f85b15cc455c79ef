"""Tests of the recorded environment."""

import platform
import socket
from pathlib import Path

import msgspec

from loopyperf.measurement.environment import Environment, incompatibilities

from .synthetic import environment


def test_fields_that_affect_times_must_match():
    for field in ("device", "driver", "platform", "backend", "vendor"):
        assert incompatibilities(environment(), environment(**{field: "another"})) == (field,)
    assert incompatibilities(environment(threads=1), environment(threads="unset")) == ("threads",)
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
