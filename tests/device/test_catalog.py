"""Consistency checks of all device files in the catalog, and comparison with the papers that they cite."""

import re
from pathlib import Path

import pytest

from loopyperf.device.description import Device
from loopyperf.device.device_files import load_description
from loopyperf.device.device_library import BUNDLED, names_without_brand
from loopyperf.device.parts import DescriptionTable
from loopyperf.testing import check_device

ROOT = Path(__file__).parents[2]
FILES = sorted(BUNDLED.glob("*.toml"))
DEVICES = {path.stem: load_description(path) for path in FILES}


def numbers(device: Device):
    for part in device.parts:
        for name, quantity in part.sources:
            yield ".".join(filter(None, (part.place, name))), quantity


def test_catalog_contains_the_devices_of_papers_and_data():
    papers = {
        # Lemeire, tables 4 to 6
        *("nvidia-tesla-c2050", "nvidia-gtx-650-ti", "nvidia-quadro-k620", "nvidia-gtx-1060"),
        *("nvidia-rtx-2070", "amd-r9-380"),
        # Dao, section 5; Stevens and Klöckner, section 5
        *("nvidia-gtx-280", "nvidia-gtx-580", "nvidia-gtx-680"),
        *("nvidia-gtx-titan-x", "nvidia-tesla-k40", "nvidia-tesla-c2070", "amd-r9-fury"),
        # measured data
        *("nvidia-titan-v", "nvidia-v100", "nvidia-a100", "nvidia-a100-40", "nvidia-a40", "nvidia-h100", "nvidia-h200"),
        *("nvidia-rtx-3090", "nvidia-rtx-4090", "amd-mi210", "amd-mi300x", "amd-rx-6900-xt"),
        # devices that frameworks run on
        *("nvidia-rtx-2080-ti", "nvidia-rtx-a4000", "nvidia-rtx-a6000", "nvidia-t4", "nvidia-l40", "nvidia-gh200"),
        *("amd-mi100", "amd-mi250x", "amd-mi300a"),
    }
    assert papers <= set(DEVICES)


def test_each_number_has_unit_and_source_on_its_line(subtests: pytest.Subtests):
    """The file text is matched directly: each value has a unit and a source, and each fact has a source."""
    for path in FILES:
        with subtests.test(path=str(path)):
            entry = r'(value = [\d._]+, unit = "[^"]+"|(pipeline|policy) = "[^"]+")'
            for line in path.read_text(encoding="utf-8").splitlines():
                if re.search(r"= *[\d{]", line) and line != "schema = 1":
                    assert re.fullmatch(rf'\w+ = \{{ {entry}, source = "[^"]+, [^"]+" \}}', line), line


def cited_documents(device: Device) -> set[str]:
    """Return the documents that the device file of *device* cites."""
    facts = [shared for _, shared in device.pipelines] + ([device.scheduling] if device.scheduling else [])
    sources = [quantity.source for _, quantity in numbers(device)] + [fact.source for fact in facts]
    return {source.partition(",")[0] for source in sources}


def test_cited_documents_are_listed(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            listed = re.findall(
                r"^\| ([^|]+?) \|", (ROOT / "docs" / "devices.md").read_text(encoding="utf-8"), re.MULTILINE
            )
            assert cited_documents(device) - set(listed) == set()


def test_listed_documents_are_cited():
    text = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8").partition("## The documents")[2]
    listed = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)[1:]
    assert set(listed) - set().union(*map(cited_documents, DEVICES.values())) == set()


def test_devices_page_documents_every_parameter():
    text = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    named = {name.split(".")[-1] for name in re.findall(r"`([\w.*]+)`", text)}
    declared = {name for part in DescriptionTable.__subclasses__() for name in part.declared()}
    assert len(declared) > 40
    assert declared - named == set()


def test_example_of_devices_page_is_valid(tmp_path: Path):
    text = (ROOT / "docs" / "devices.md").read_text(encoding="utf-8")
    (tmp_path / "my-gpu.toml").write_text(re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0])
    device = load_description(tmp_path / "my-gpu.toml")
    assert (device.slug, device.clock, device.level("L2").latency) == ("my-gpu", 1.4e9, 212)
    assert device.completion_latency("add", "f32") == 4


# {{{ names


def test_slugs_start_with_the_vendor(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            assert device.slug.startswith(f"{device.vendor.lower()}-")


def test_device_names_are_unique():
    names = [name for device in DEVICES.values() for name in names_without_brand(device)]
    assert len(names) == len(set(names))


# }}}


# {{{ consistency of parameters


def test_parameters_needed_by_every_model_are_given(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            assert min(device.cores, device.clock, device.warp_size, device.schedulers) > 0
            assert (
                min(device.limits.warps, device.limits.groups, device.limits.registers, device.limits.local_memory) > 0
            )
            assert device.throughput.f32 > 0
            assert device.level("DRAM").bandwidth > 0


def test_every_device_passes_check_device(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            check_device(device)


def test_sustained_bandwidth_exceeds_half_of_the_peak(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for level in device.memory:
                if level.bandwidth and level.sustained_bandwidth:
                    assert level.sustained_bandwidth > level.bandwidth / 2


def test_most_devices_have_a_published_peak():
    assert sum(bool(device.peak_f32 or device.peak_f64) for device in DEVICES.values()) >= 18


def test_banks_deliver_a_word_every_cycle_or_every_other_cycle(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            for level in device.memory:
                if level.banks:
                    assert level.bandwidth_per_core in (
                        level.banks * level.bank_width,
                        level.banks * level.bank_width / 2,
                    )


def test_measured_local_loads_do_not_exceed_bank_bandwidth(subtests: pytest.Subtests):
    for name, device in DEVICES.items():
        with subtests.test(name=name):
            # On Fermi, 32 floats of 4 B take 128 / 64 = 2 cycles, as Lemeire measured.
            if any(each.name == "load local b32" for each in device.instructions) and device.vendor == "NVIDIA":
                least = device.warp_size * 4 / device.level("local").bandwidth_per_core
                assert device.issue_latency("load local", "b32") >= least


# }}}


# {{{ half precision, and caches

CUDA_HALVES = {"6.1": 2, "7.0": 128, "7.5": 128, "8.0": 256, "8.6": 128, "8.9": 128, "9.0": 256}
"""results per cycle of 16-bit additions by the CUDA C++ Programming Guide; earlier devices of the catalog have none"""


def test_half_precision_has_the_rate_of_the_cuda_guide():
    # The guide counts pairs. On 6.1, single numbers are as fast: a published matrix product takes 64 times as long.
    for name, device in DEVICES.items():
        if device.vendor == "NVIDIA":
            pairs = CUDA_HALVES.get(device.target)
            expected = pairs if pairs is None or device.target == "6.1" else pairs / 2
            assert device.throughput.f16 == expected, name


def test_every_described_cache_has_a_size():
    sizes = {name: [each.size for each in device.memory if each.name != "DRAM"][1:] for name, device in DEVICES.items()}
    assert [name for name, each in sizes.items() if None in each] == []
    assert [name for name, each in sizes.items() if not each] == ["nvidia-gtx-280"]
    assert sizes["nvidia-tesla-c2070"] == sizes["nvidia-tesla-c2050"] == sizes["nvidia-gtx-580"]


# }}}


# {{{ the papers

LEMEIRE_5 = """
                 Fermi     Kepler       Maxwell      Pascal     Turing      Tonga
special f32      8/40      1/18         1/15         1/15       2/21        5/24
mul f32          1/18      0.25/9       0.375/6      0.25/6     0.5/4       1/5.25
mul f64          2/22      4/22         7.5/42       8/43       19/45       8/76
mul i32          2/18      0.5/5        0.875/12.5   0.75/12    0.25/2      1/5.25
div f32          3/45      0.75/28.5    1.125/20     0.75/18    1.5/12.5    2.25/14
div f64          19/253    26/260       47/376       47/376     -           155/740
div i32          20/200    3/96         7/105        5/100      5/65        24/192
barrier          2/40      0.75/24      4.5/125      2.25/70    1.5/17      7.5/150
load global b32  23/475    7.5/300      18/440       12/345     18/450      42/136
load local b32   2/28      1/28         1/28         1/25       2/32        2/60
"""
"""λ/Λ in cycles; cos.apx.f32 is the special function, ld.local.s32 accesses OpenCL's local memory"""
OF_LEMEIRE = (
    *("nvidia-tesla-c2050", "nvidia-gtx-650-ti", "nvidia-quadro-k620"),
    *("nvidia-gtx-1060", "nvidia-rtx-2070", "amd-r9-380"),
)


def test_lemeire_table_5():
    for line in LEMEIRE_5.strip().splitlines()[1:]:
        name, cells = line[:17].strip(), line[17:].split()
        for slug, cell in zip(OF_LEMEIRE, cells, strict=True):
            found = [f"{x.issue:g}/{x.completion:g}" for x in DEVICES[slug].instructions if x.name == name]
            assert found == ([cell] if cell != "-" else []), (slug, name)


def test_lemeire_table_4():
    issue_limits = [DEVICES[slug].issue_limit for slug in OF_LEMEIRE]
    special = [DEVICES[slug].issue_latency("special", "f32") for slug in OF_LEMEIRE]
    assert (issue_limits, special) == ([1, 4, 4, 4, 2, 1], [8, 1, 1, 1, 2, 5])


def test_sim_table_3():
    c2050 = DEVICES["nvidia-tesla-c2050"]
    l1, l2, dram = (c2050.level(name) for name in ("L1", "L2", "DRAM"))
    assert (c2050.clock, dram.bandwidth, c2050.target, c2050.cores) == (1.15e9, 144e9, "2.0", 14)
    assert (c2050.throughput.f32, c2050.throughput.special) == (32, 4)
    assert (c2050.limits.local_memory, l1.size, l2.size) == (48 * 1024, 16 * 1024, 768 * 1024)
    assert (c2050.completion_latency("fma", "f32"), dram.latency, dram.departure_delay) == (18, 440, 20)
    assert (l1.latency, l2.latency) == (18, 130)


def test_lemeire_table_6_follows_from_table_5():
    """The throughput is cores · warp size · 4 B · clock / λ of loads (section 4.3), for cards at their nominal clock.

    Fermi: 14 · 32 · 4 · 1.15 GHz / 23 = 89.6 GB/s. Excluded: the Kepler card (measured at a different clock, see its
    note) and the AMD card (172 GB/s corresponds to 1008 MHz).
    """
    for name in ("nvidia-tesla-c2050", "nvidia-quadro-k620", "nvidia-gtx-1060", "nvidia-rtx-2070"):
        device = DEVICES[name]
        bytes_per_cycle = device.cores * device.warp_size * 4 / device.issue_latency("load global", "b32")
        # The table has three digits.
        assert bytes_per_cycle * device.clock == pytest.approx(device.level("DRAM").sustained_bandwidth, rel=0.005)


# }}}
