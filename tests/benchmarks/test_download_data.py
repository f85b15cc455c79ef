"""Downloads of published measurements are verified and converted. The excerpts in this file are synthetic."""

import gzip
import hashlib
import json
import lzma
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import download_data
import pytest
from download_data import DATA, DataSet, DownloadError, Source

ROOT = Path(__file__).parents[2]
CONTENT = b"measured"
SHA_256 = hashlib.sha256(CONTENT).hexdigest()


def source(checksum: str = SHA_256) -> Source:
    return Source("owner/repository/0123456789abcdef/folder", "MIT", f"{checksum} a b")


def fake_downloads(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Return *content* for all downloads; return a list that collects their URLs."""
    urls: list[str] = []

    def urlopen(url: str, timeout: float) -> BytesIO:
        assert timeout > 0
        urls.append(url)
        return BytesIO(content)

    monkeypatch.setattr(download_data, "urlopen", urlopen)
    return urls


def test_files_are_downloaded_at_a_commit_and_converted_together(monkeypatch: pytest.MonkeyPatch):
    urls = fake_downloads(monkeypatch, CONTENT)
    data = DataSet("file", lambda contents: json.dumps([*contents]).encode(), [source()])
    assert json.loads(data.download()) == ["owner/repository@0123456/a", "owner/repository@0123456/b"]
    assert urls == [f"{download_data.HOST}/owner/repository/0123456789abcdef/folder/{name}" for name in "ab"]


def test_wrong_checksum_raises_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    fake_downloads(monkeypatch, CONTENT)
    with pytest.raises(DownloadError, match="expected 000000000000…; file refused"):
        source("0" * 64).download("a", "0" * 64)
    monkeypatch.setattr(sys, "argv", ["download_data.py", str(tmp_path / "data"), "--only", "isa-latencies"])
    with pytest.raises(SystemExit) as raised:
        download_data.main()
    assert raised.value.code == 1
    assert "has SHA-256" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_missing_network_prints_one_line(tmp_path: Path):
    # With a proxy that does not exist, every download fails as without a network.
    environment = {"https_proxy": "http://127.0.0.1:9", "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    command = [sys.executable, str(ROOT / "benchmarks" / "download_data.py"), str(tmp_path / "data")]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout) == (1, "")
    (line,) = completed.stderr.splitlines()
    assert line.startswith(f"download_data.py: cannot download {download_data.HOST}/RRZE-HPC/gpu-benches/")
    assert not (tmp_path / "data").exists()


def test_written_file_and_its_license_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    fake_downloads(monkeypatch, CONTENT)
    data = DataSet("file", download_data.unchanged, [Source("a/b/0123456789/c", "MIT", f"{SHA_256} d")], "a remark")
    monkeypatch.setitem(DATA, "titan-v", data)
    monkeypatch.setattr(sys, "argv", ["download_data.py", str(tmp_path / "data"), "--only", "titan-v"])
    download_data.main()
    assert (tmp_path / "data" / "file").read_bytes() == CONTENT
    wrote, remark, export = capsys.readouterr().out.splitlines()
    assert wrote == f"wrote {tmp_path / 'data' / 'file'} from a/b@0123456 (MIT)"
    assert (remark, export) == ("a remark", f"export LOOPYPERF_SHARED_DATA={tmp_path / 'data'}")


def test_bandwidth_files_of_both_formats_are_converted():
    older = """blockSize   threads       %occ  |        init       read       scale     triad       1pt        3pt
       32         320    3.1 %  |  GB/s:          11         12         13         14         15         16
"""
    newer = """block smBlocks   threads    occ%   |        init       read       scale     triad       3pt        5pt
  64      1280       2      6%     |  GB/s:          21         22         23         24         25         26
"""
    contents = {"RRZE-HPC/gpu@0123456/GPU1.txt": older.encode(), "a/gpu@abcdef0/gpu2.txt": newer.encode()}
    head, *rows = download_data.stream_table(contents).decode().split("\r\n")
    assert head == "source,device,kernel,block_size,blocks_per_sm,sm_count,GBps"
    assert (rows[0], rows[5]) == ("RRZE@0123456,gpu1,init,32,2,10.0,11.0", "RRZE@0123456,gpu1,5pt,32,2,10.0,16.0")
    assert (rows[6], rows[11]) == ("a@abcdef0,gpu2,init,64,2,10.0,21.0", "a@abcdef0,gpu2,5pt,64,2,10.0,26.0")
    assert rows[12:] == [""]


def test_latency_files_are_converted():
    contents = {
        "a/b@0123456/Volta/TITANV/Neg": b"PTX: neg.s32\nSASS: [emulated] A + B\n--> number of cycles = 21\n",
        "a/b@0123456/Turing/TITANRTX/Neg": b"PTX: neg.s32 \nSASS: IADD\n--> number of cycles = 3",
    }
    assert download_data.latency_table(contents).decode().splitlines() == [
        "arch,gpu,test,ptx,sass,cycles",
        'Turing,TITANRTX,Neg,"neg.s32 ","IADD",3',
        'Volta,TITANV,Neg,"neg.s32","[emulated] A + B",21',
    ]


def test_only_successful_convolutions_are_converted():
    def result(width: int, status: str, runs: list[object]) -> dict[str, object]:
        configured = [{"Name": "WIDTH", "Value": width, "ValueType": "UnsignedInt"}]
        return {"Configuration": configured, "Status": status, "ComputationResults": runs}

    run = {
        "CompilationData": {"RegistersCount": 28, "LocalMemorySize": 512, "PrivateMemorySize": 8},
        "Duration": 12.0,
        "GlobalSize": {"X": 3, "Y": 4, "Z": 1},
        "LocalSize": {"X": 5, "Y": 6, "Z": 1},
        "ProfilingData": {"Counters": [{"Name": "a.sum", "Value": 7.0}, {"Name": "a.pct", "Value": 1.23456}]},
    }
    results = [result(1, "ComputationFailed", []), result(2, "Ok", [run])]
    content = gzip.compress(json.dumps({"Results": results}).encode())
    assert lzma.decompress(download_data.convolution_table({"a": content})).decode().splitlines() == [
        "WIDTH,microseconds,registers,shared_bytes,stack_bytes,grid_x,grid_y,block_x,block_y,a.sum,a.pct",
        "2,12,28,512,8,3,4,5,6,7,1.2346",
    ]


def test_each_file_has_a_checksum_and_each_source_a_commit():
    for data in DATA.values():
        for each in data.sources:
            files = [*each.files()]
            assert len(dict(files)) == len(files) > 0
            assert all(len(bytes.fromhex(checksum)) == 32 for _, checksum in files)
            assert len(bytes.fromhex(each.folder.split("/")[2])) == 20
