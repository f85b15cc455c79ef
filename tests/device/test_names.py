"""Slugs of device names."""

import pytest

from loopyperf.device.device_files import device_slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA TITAN V", "nvidia-titan-v"),
        ("pthread-AMD EPYC", "pocl-amd-epyc"),
        ("cpu-znver3-AMD EPYC 7B13", "pocl-znver3-amd-epyc-7b13"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-xeon-cpu-2-20ghz"),
        (" Tesla K40c ", "tesla-k40c"),
        ("../../etc/passwd", "etc-passwd"),
    ],
)
def test_slug_is_a_folder_name(name, slug):
    assert slug == device_slug(name)


def test_slug_of_a_slug_is_the_same():
    slug = device_slug("pthread-AMD EPYC")
    assert slug == device_slug(slug)
