"""Download the published measurements that slow tests and the tables of docs/accuracy use.

Files come from public GitHub repositories at fixed commits. Each is compared with its SHA-256, then all files of a data
set are converted into the file that the scripts read. The data keep the licenses of their repositories.

    .venv/bin/python benchmarks/download_data.py FOLDER [--only NAME]
    LOOPYPERF_SHARED_DATA=FOLDER make test-slow

``titan-v.pkl.xz`` is not covered, because feinsum's transformations create its kernels. The script only downloads the
archive of parameters and times from which feinsum creates them.
"""

import argparse
import csv
import gzip
import hashlib
import io
import json
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import parts  # noqa: F401 - turns the cache off

from loopyperf.files import write_whole

HOST = "https://raw.githubusercontent.com"
TIMEOUT = 60
"""seconds without a response after which a download fails"""
STREAM_KERNELS = ("init", "read", "scale", "triad", "3pt", "5pt")
ARCHITECTURES = {"TITANRTX": "Turing", "TITANV": "Volta"}
LATENCY = re.compile(r"PTX: (?P<ptx>.*)\nSASS: (?P<sass>.*)\n--> number of cycles = (?P<cycles>\d+)")


class DownloadError(Exception):
    """A file cannot be downloaded, or has an unexpected checksum."""


@dataclass(frozen=True, slots=True)
class Source:
    """Files of a public repository at a commit."""

    folder: str
    """owner/repository/commit/path, as in a URL"""
    license_name: str
    checksums: str
    """lines of a SHA-256 and the files in *folder* that have it"""

    def __str__(self) -> str:
        owner, repository, commit, _ = self.folder.split("/", 3)
        return f"{owner}/{repository}@{commit[:7]}"

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield each file in the folder with its SHA-256."""
        for checksum, *names in map(str.split, self.checksums.strip().splitlines()):
            yield from ((name, checksum) for name in names)

    def download(self, name: str, checksum: str) -> bytes:
        """Return the content of a file. Raises :class:`DownloadError`."""
        url = f"{HOST}/{self.folder}/{name}"
        try:
            with urlopen(url, timeout=TIMEOUT) as response:
                content = response.read()
        except (OSError, HTTPException) as error:
            raise DownloadError(f"cannot download {url}: {getattr(error, 'reason', error)}") from error
        return checked(content, checksum, f"{self}: {name}")


@dataclass(frozen=True, slots=True)
class DataSet:
    """A file of the data folder, its sources and its conversion."""

    file: str
    convert: Callable[[Mapping[str, bytes]], bytes]
    """takes a mapping from ``owner/repository@commit/name`` to the content"""
    sources: Sequence[Source]
    remark: str = ""

    def download(self) -> bytes:
        """Return the content of the file. Raises :class:`DownloadError`."""
        contents = {
            f"{source}/{name}": source.download(name, checksum)
            for source in self.sources
            for name, checksum in source.files()
        }
        return self.convert(contents)


def checked(content: bytes, checksum: str, name: str) -> bytes:
    """Return *content*. Raises :class:`DownloadError` if it has another SHA-256."""
    found = hashlib.sha256(content).hexdigest()
    if found != checksum:
        raise DownloadError(f"{name} has SHA-256 {found[:12]}…, expected {checksum[:12]}…; file refused")
    return content


def table(rows: Iterable[Sequence[object]]) -> bytes:
    """Return *rows* as CSV."""
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def stream_table(contents: Mapping[str, bytes]) -> bytes:
    """Return the bandwidths of gpu-benches' ``gpu-stream``, a row for each kernel and occupancy."""
    rows = [["source", "device", "kernel", "block_size", "blocks_per_sm", "sm_count", "GBps"]]
    for key, content in contents.items():
        repository, _, file = key.partition("@")
        commit, name = file.removesuffix(".txt").split("/")
        source = f"{repository.split('/')[0].removesuffix('-HPC')}@{commit}"
        for line in content.decode().splitlines()[1:]:
            launch, _, bandwidths = line.partition("|")
            # Older files have no column for groups per core. A core had two, but the threads column counts only one.
            # The headers of some of these files call the stencils 1pt and 3pt; the kernels are the same.
            size, threads, *groups = launch.replace("%", " ").split()[:-1]
            cores = int(threads) / int(size) / int(*groups or (1,))
            measured = bandwidths.removeprefix("  GB/s:").split()
            for kernel, bandwidth in zip(STREAM_KERNELS, measured, strict=True):
                rows.append([source, name.lower(), kernel, size, *(groups or "2"), str(cores), f"{bandwidth}.0"])
    return table(rows)


def latency_table(contents: Mapping[str, bytes]) -> bytes:
    """Return the latencies of GPUs-ISA-Latencies, in cycles, a row for each instruction and GPU."""
    rows = ["arch,gpu,test,ptx,sass,cycles"]
    for key in sorted(contents, key=lambda key: key.split("/")[-3:]):
        gpu, test = key.split("/")[-2:]
        found = LATENCY.match(contents[key].decode())
        rows.append(f'{ARCHITECTURES[gpu]},{gpu},{test},"{found["ptx"]}","{found["sass"]}",{found["cycles"]}')
    return "".join(f"{row}\n" for row in rows).encode()


def convolution_table(contents: Mapping[str, bytes]) -> bytes:
    """Return KTT's successful configurations of the convolution: parameters, time, resources, launch and counters."""
    (content,) = contents.values()
    results = json.loads(gzip.decompress(content))["Results"]
    rows = [configuration(result) for result in results if result["Status"] == "Ok"]
    return lzma.compress(table([[*rows[0]], *([*row.values()] for row in rows)]), preset=6)


def configuration(result: Mapping[str, Any]) -> dict[str, object]:
    """Return the columns of a measured configuration."""
    (run,) = result["ComputationResults"]
    compiled, grid, block = run["CompilationData"], run["GlobalSize"], run["LocalSize"]
    return {
        **{each["Name"]: each["Value"] for each in result["Configuration"]},
        "microseconds": shortened(run["Duration"]),
        "registers": compiled["RegistersCount"],
        "shared_bytes": compiled["LocalMemorySize"],  # OpenCL's terms: local memory is shared
        "stack_bytes": compiled["PrivateMemorySize"],
        "grid_x": grid["X"],
        "grid_y": grid["Y"],
        "block_x": block["X"],
        "block_y": block["Y"],
        **{each["Name"]: shortened(each["Value"]) for each in run["ProfilingData"]["Counters"]},
    }


def shortened(value: float) -> float:
    """Return *value* as an integer if it is one, with four decimals otherwise."""
    return int(value) if value == int(value) else round(value, 4)


def unchanged(contents: Mapping[str, bytes]) -> bytes:
    """Return the content of the only file, unchanged."""
    (content,) = contents.values()
    return content


RRZE_FILES = """
2a084339d5e45f2ca0b1895815f6cb2fcf5984fd31c41f201b0936810da1aa98 a100_40.txt
d9912ab4bb031aa1422d5c5f94a41f8775639e4efef1280c738f4a63aa5a523b a40.txt
e95ad6c4091cfdaac53715567cb044cba338df555b85e018d31d6eb54cbb554d h100_pcie.txt
c2feeeb0d5a472ac000443ca1294053cc196ee817dcc099472877c26c093e242 mi210.txt
90c46f4e57f53172ffd9fc8ac0c1626e7aecfb45b80a5fb695cc80d60439a25f rx6900xt.txt
a70ec0ceb4a59820bde007ba96736170a0b5e7553f1cc9b51b49e75f60fe5cf2 v100.txt
"""
TE42KYFO_FILES = """
3ee0dadc116c9c9716baacadffb39e1980c903f5a4d5f936e720f384a62b0efd RX6900XT.txt
9615e5dbaaaf0bf6824fadb3be30a79b2f1c99cd70fe439dd3496a40de837c54 a100_40.txt
5fc5ffa72735f1af8bc401d5369b4c526cfe0c8c6f3d3faa10e7faaed706b720 a40.txt
e95ad6c4091cfdaac53715567cb044cba338df555b85e018d31d6eb54cbb554d h100_pcie.txt
9b46bc3f3455db98fbb4e32fab158e5c0a40b1a7b08ff12363703699a04a1054 mi210.txt
b1d3acb80c1ed90965b6437c62d3cfd6d0baaadf1622d43277066a86dee8c7b0 v100.txt
"""
LATENCY_FILES = """
a42e94285e4ae53162a969af61954e8473af4cd792b8dad45366119eaca87b17 Turing/TITANRTX/Add Volta/TITANV/Add
13e2c0f47d71f2bf902d35cb11372b51c4538d4959275488a87d704e98472396 Turing/TITANRTX/And Volta/TITANV/And
5028df9e8bd0edb51fa70f103e81111df9a80cc3cc49e60bb51c1cc7324c3bac Turing/TITANRTX/Bfe
4e2f8d8b2b44bb7c28e4dacd1199d5c1302d2edb906d6ca9161b514b7762b1ba Volta/TITANV/Bfe
797e71cc1e950b3c188231b23ad70ea91d7061acfe2b03a11b4fabe08ea27031 Turing/TITANRTX/Bfind Volta/TITANV/Bfind
32278296fb71a30c0de1fb9404b3213f4f3ba15fa8e9be79d56d8dfa9da787cd Turing/TITANRTX/Brev Volta/TITANV/Brev
2c883247c7796d210d7ac92f0d75180199f7442c13ce1573abc8756857957914 Turing/TITANRTX/Clz Volta/TITANV/Clz
4729d4e4fe8ad12cd54fc2d5556e750199d3b47d0b97a7b8516cf52bb57f1fec Turing/TITANRTX/Cnot
97f5b7c988edcf183bcfb126444a46c938d3df373af7cf9a6d6be3986e6df2c4 Volta/TITANV/Cnot
30d65a831e4760600613fbdb747bf12dac1972e4194f3b5f711184a64529bba0 Turing/TITANRTX/Cvt Volta/TITANV/Cvt
e591a2678374481eb76f7adedaa2bf6c995a08c8de0e9f7682ac84326a3558bb Turing/TITANRTX/DFAdd
9cd2cf55a5e775c9327cd763d81ecb74e317f5eade9cf7d207adbce1af942e40 Volta/TITANV/DFAdd
ff089a3580b8405cb11a6b4708c7f61551a948f6957cd6e0e2a43fe6d5db8d19 Turing/TITANRTX/DFDiv
5c7bec10734256a3c8922fdec4740ad50af97803f0b70728150ff8199f2ac057 Volta/TITANV/DFDiv
5ef7fad70bac294e78a0190e987e47f2eeb4b752723725ef2957b4dbf58ad741 Turing/TITANRTX/DFFMA
18935a6448f142f77b77e00e7972f7defa9e1185ae5cf136ff03242c47a2777c Volta/TITANV/DFFMA
380093dcd7bb2df5572ef85f160aa9cee08c939549a6470f742383f216d0ac76 Turing/TITANRTX/DFMul
56b78c28618c86109165769ad8f3e46b990e158f07f4eb755fac693ad234ffed Volta/TITANV/DFMul
de2a01ee83a14b2ac851d4f18dd6360f8c65c1da1d589243f99234ef077b7274 Turing/TITANRTX/DRcp
e4d5bfd3b5526495aa23f343bfa36551b8d98b4bc1d47ca1c342c488144dce1f Volta/TITANV/DRcp
83b20e7d5f2284b211442253a791e2b698f8ec4cd712cf0f63a2fa24892c1291 Turing/TITANRTX/DSqrt
0da4cf7469e5db957d85b93c9319dec78f644eaf4880d84508f77727e8880e4e Volta/TITANV/DSqrt
01f2616bc0431a0235c1ebcbbf11141b0b9fbb81b7cb692a03b43d391bf8e105 Turing/TITANRTX/Div
37270c51c6a647318a169443a100699ad7f80218e002d604bdad912a1d07ed6a Volta/TITANV/Div
0f96d7b87ada32b6fa85c36f7a9a3bdc8a149277122c180c5474d6c3323d368a Turing/TITANRTX/DivU
dd570d56c7141dfa5b9241e9f5ee92de3ac1a93086b91d6c5a6aa6bbe6c737f7 Volta/TITANV/DivU
baddc5a94826a83149b1830eb424161e9c61f8103f4a7791e26121295aaf7d4f Turing/TITANRTX/Ex2 Volta/TITANV/Ex2
922c9c2ecf83dce9a2af905b5a689c8d8abfb78eb081342f5bb6f0e4897bc891 Turing/TITANRTX/FAdd Volta/TITANV/FAdd
d65ae71b1c54400f5fcffe5643b70deaab774cd0aaa4344fd9d6024464f0334e Turing/TITANRTX/FDiv
6169f73edfe776f3156261a3aeb2f2485784ec472496167ac71fd9727f560454 Volta/TITANV/FDiv
3baf7501d7da60404bd3efca8b0818910ab9c51125a3a2a17d3f8e7126eec77e Turing/TITANRTX/FFMa Volta/TITANV/FFMa
a4c9fd79e5fcc8ea3fe07fad82aaefb1d54e5c12e9f81e063de061e4bed4b905 Turing/TITANRTX/FMul Volta/TITANV/FMul
9125f6b59e5188889ca1bcff6a46ef8f4dc3e76424d90cd5f65c9c4131b3f275 Turing/TITANRTX/FastDRsqrt
54548591e5b5640c864c00a3d64a491283d471d216c362aea9b276dc0d053554 Volta/TITANV/FastDRsqrt
c0e1c45991318c3d8a122f4ed33e5440e0ee166103e9470ca30bf5c5a744e0c2 Turing/TITANRTX/FastRcp
34ee2ca4916970ae57dea38a406a9041be9eb39b98bb464bd22ae6272d093ed3 Volta/TITANV/FastRcp
4aae932baf7948865390b123bcdb69653a59eb8a234a4efa0b7cabba8be8fb6a Turing/TITANRTX/FastSqrt
9fefcf9a83c3e43bce417839de5e9dcb1e957ea70d798b250ced11a13d4033d1 Volta/TITANV/FastSqrt
578b04018a110f4898fb9ea5c841c29b9dc8f2409d48a1778a0abb5782bfcd0b Turing/TITANRTX/HFAdd Volta/TITANV/HFAdd
85a071b2414f2d447b775ce36570d44200409b0223e458b65ce30a54f25c8dd1 Turing/TITANRTX/HFFMa Volta/TITANV/HFFMa
258a9f17a46b60cf8a11a0e92745504490b8965246259e75ad88feedd74f5ba4 Turing/TITANRTX/HFMul Volta/TITANV/HFMul
fa15952221a2913b2195512f370a2d373628eb74b806fd989db75a2ea9590d97 Turing/TITANRTX/MAddc Volta/TITANV/MAddc
0701dd8a835f872da5f818ff526b114589afb05f2819502b9380a88aeb032dfd Turing/TITANRTX/MovSpec Volta/TITANV/MovSpec
acdeda35ffa46d6a40c0025c1095491a91b6154459b6c187fbc3fe7d9b9b85b8 Turing/TITANRTX/Mul Volta/TITANV/Mul
29a49ea739cbc394a643c689b13b61308f439434c922a25d2cedf9ee46830c1c Turing/TITANRTX/Mul24Hi Volta/TITANV/Mul24Hi
63cc56597c9141147938f7333f4f7790a4ceddfb6b32d27e10e4f878245ee7fa Turing/TITANRTX/Mul24Lo Volta/TITANV/Mul24Lo
d791b842cd793fa964cd21fd45006a010e58494e344a2b86809c60d02a656777 Turing/TITANRTX/Nop Volta/TITANV/Nop
83faa0788c95eae5442f6d2e752262085aa01e39f469c6eb97afe5d8c619fbf2 Turing/TITANRTX/Ovhd Volta/TITANV/Ovhd
f55c9ad6144be7522439fc8b292bd5f4798e78dc2124785f5d34f07b28176d7f Turing/TITANRTX/Popc Volta/TITANV/Popc
1abb6851f09900b74c0327816740861cee0aa47b21d7d784a0c462573c1f06f0 Turing/TITANRTX/Rcp
6a1a081a02951c63b4922de76554417f5b8c26ebc8a904c6de5b10e99971889e Volta/TITANV/Rcp
4f6cecd9f4436cce7d6eab7af04198415df81c3a9cf90854478ce8b1ed40898a Turing/TITANRTX/Rem
717af041fd966c6ce09a2dfbeafa4ccdf4c3b63cd7e2dfc0475c2c3e91756b97 Volta/TITANV/Rem
b8db49b0f36e9697616122b6e587eec5b4afc6e0009aa8e123d2c858d7e92e26 Turing/TITANRTX/RemU
67b71956a4cfb29a548dc6d50948266a670bfa962c7759342596136e46fecf40 Volta/TITANV/RemU
632fba2f6f2ee7e039557bc38f5ebec63efe663f34635123a671ad531233b614 Turing/TITANRTX/Rsqrt
0b011acf3d8e4d64475c296fe7f13fe093948e0a3eff0ae339b3e9e187e3320b Volta/TITANV/Rsqrt
a2e2770a0bdca3513a67aa159a332763fb92c818beed3a0b91fc84834feb7a7a Turing/TITANRTX/Sad Volta/TITANV/Sad
946807f723494e3f2d7a9b0c1b2374e37f54e734c1c8fde17023c1a315a97b09 Turing/TITANRTX/Setp Volta/TITANV/Setp
e78973c3a0a08c4cf44983712da952537c7eedee8d6829727fe3f5e208533058 Turing/TITANRTX/Sin Volta/TITANV/Sin
b95f63dc206e661d750921422a081853c0a5afb439bb9aadf137be219f49114d Turing/TITANRTX/Sqrt
24478a1cdff1fc0d49232bed1d82f42ea4ac65f5a6d9aee50fb77ad60cf3918f Volta/TITANV/Sqrt
"""
CONVOLUTION_FILE = "3a87cc569a2b732e843ebb4ea3b35b784aab3ddb09289597dc40f12c4ccc5a37 KTConvolutionOutput_2080Ti.json.gz"
EINSUM_FILE = "a43faa50ce3708ca4eeb8e6420ed41f4b237d0b63408f058b4571a5c68128db0 transform_archive_v6.sqlite"

RRZE = Source("RRZE-HPC/gpu-benches/1038c5d0d0f48cfe9912930d34eb2d8a31b72b9b/gpu-stream", "GPL-3.0", RRZE_FILES)
TE42KYFO = Source("te42kyfo/gpu-benches/1c36d509ee717dca9215c27135fa1e611bb03ed1/gpu-stream", "GPL-3.0", TE42KYFO_FILES)
PEARL = Source(
    "NMSU-PEARL/GPUs-ISA-Latencies/3954b54f7142c38f4a3fdbaf07dd2f1106a5c9f0/ALU/output", "PPT License", LATENCY_FILES
)
HUB = Source(
    "AutoTuningAssociation/benchmark_hub/8eeb99e7179e6838af95d392ac6c60cebfd8c434/"
    "currently_unused/cachefiles/KTT%20data",
    "MIT",
    CONVOLUTION_FILE,
)
FEINSUM = Source("kaushikcfd/feinsum/1b417bec4ebd4b25f2f6f81efd77531c4bf839fc/src/feinsum/data", "MIT", EINSUM_FILE)
NOT_CREATED = "titan-v.pkl.xz is not created: its kernels must be built from this archive with feinsum"
DATA = {
    "gpu-stream": DataSet("gpu-stream.csv", stream_table, [RRZE, TE42KYFO]),
    "isa-latencies": DataSet("isa-latencies.csv", latency_table, [PEARL]),
    "convolution": DataSet("ktt-convolution-rtx-2080-ti.csv.xz", convolution_table, [HUB]),
    "titan-v": DataSet("transform_archive_v6.sqlite", unchanged, [FEINSUM], NOT_CREATED),
}


def main() -> None:
    """Download published measurements into a folder, to which LOOPYPERF_SHARED_DATA can then be set."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="created if it does not exist")
    parser.add_argument("--only", action="append", choices=DATA, help="a data set, may be repeated; by default all")
    options = parser.parse_args()
    for name in options.only or DATA:
        data = DATA[name]
        try:
            write_whole(options.folder / data.file, data.download(), makes_folders=True)
        except (DownloadError, OSError) as error:
            parser.exit(1, f"{parser.prog}: {error}\n")
        sources = ", ".join(f"{source} ({source.license_name})" for source in data.sources)
        print(f"wrote {options.folder / data.file} from {sources}")
        if data.remark:
            print(data.remark)
    print(f"export LOOPYPERF_SHARED_DATA={options.folder.resolve()}")


if __name__ == "__main__":
    main()
