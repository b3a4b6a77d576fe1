"""Wheels and source archives are the same bytes again, smaller, and without the build machine: on
small archives that are made here.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import time
import zlib
from pathlib import Path
from zipfile import ZipFile

import pytest

from structure import repo

archives = repo.packaging_script("archives")
repack = repo.packaging_script("repack")
check_wheel = repo.packaging_script("check_wheel")

INFO = "deltaplane-9.9.dist-info"


@pytest.fixture(autouse=True)
def epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")


def files(source: Path) -> dict[str, bytes]:
    """The files of a small wheel, as a build in `source` writes them."""
    document = {
        "serialNumber": f"urn:uuid:{os.urandom(4).hex()}",
        "metadata": {"timestamp": str(time.time())},
        "components": [{"bom-ref": f"path+file://{source}/rust/log#0.1.0", "name": "deltaplane-log"}],
    }
    return {
        f"{INFO}/RECORD": b"",
        f"{INFO}/METADATA": b"Name: deltaplane\n",
        f"{INFO}/sboms/a.cyclonedx.json": json.dumps(document).encode(),
        **{f"{INFO}/licenses/{name}": b"text" for name in check_wheel.LICENSES},
        "deltaplane/__init__.py": b"",
        "deltaplane/py.typed": b"",
        "deltaplane/_native.pyi": b"...\n",
        "deltaplane/_native.abi3.so": b"\x7fELF" + b"code" * 5000,
    }


def built(folder: Path, contents: dict[str, bytes]) -> Path:
    """A wheel as a build writes it."""
    folder.mkdir()
    wheel = folder / "deltaplane-9.9-cp310-abi3-linux_x86_64.whl"
    with ZipFile(wheel, "w") as out:
        for name, content in contents.items():
            out.writestr(name, content)
    return wheel


def repacked(folder: Path) -> Path:
    """A small wheel that was built in `folder` and packed again."""
    wheel = folder / "packed.whl"
    repack.repack(built(folder / "built", files(folder / "source")), wheel, [folder / "source"], iterations=0)
    return wheel


def test_two_builds_become_the_same_wheel(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = repacked(tmp_path / "one"), repacked(tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()


def test_a_wheel_that_was_packed_again_is_whole(tmp_path: Path) -> None:
    with ZipFile(repacked(tmp_path)) as wheel:
        assert wheel.testzip() is None
        names = wheel.namelist()
        assert names[-1] == f"{INFO}/RECORD"
        assert names.index("deltaplane/py.typed") < names.index(f"{INFO}/METADATA")
        assert {info.date_time for info in wheel.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        module = wheel.getinfo("deltaplane/_native.abi3.so")
        assert module.compress_size < module.file_size
        assert module.external_attr >> 16 == 0o100755
        rows = list(csv.reader(io.StringIO(wheel.read(names[-1]).decode())))
        assert {row[0] for row in rows} == set(names)
        for name, digest, size in rows:
            if name != names[-1]:
                content = wheel.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                assert (digest, size) == (f"sha256={expected}", str(len(content)))
        document = wheel.read(f"{INFO}/sboms/a.cyclonedx.json").decode()
        assert str(tmp_path) not in document
        assert json.loads(document)["components"][0]["bom-ref"] == "deltaplane/rust/log#0.1.0"


def test_what_zlib_deflates_is_a_raw_stream() -> None:
    content = bytes(range(256)) * 40
    assert zlib.decompress(repack.deflated(content, 0), -15) == content
    assert zlib.decompress(repack.deflated(b"", 0), -15) == b""


def test_source_archives_are_the_same_bytes_again(tmp_path: Path) -> None:
    names = {}
    for name in ("b", "a", "folder/c"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        names[name] = path
    archives.pack("x-1", tmp_path / "one.tar.gz", names)
    for path in names.values():
        os.utime(path, (1, 1))
    archives.pack("x-1", tmp_path / "two.tar.gz", dict(reversed(names.items())))
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    begun = time.time()
    folder = archives.unpack(tmp_path / "one.tar.gz", tmp_path / "out")
    assert folder == tmp_path / "out/x-1"
    assert {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()} == {
        name: name for name in names
    }
    assert (folder / "a").stat().st_mtime >= begun - 2, "cargo would take the file for an unchanged one"


def test_a_wheel_with_what_users_need_passes(tmp_path: Path) -> None:
    wheel = repacked(tmp_path)
    assert list(check_wheel.content(wheel)) == []
    assert list(check_wheel.size(wheel)) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({f"{INFO}/licenses/NOTICE": None}, "licenses/NOTICE is missing"),
        ({"deltaplane/py.typed": None}, "py.typed is missing"),
        ({f"{INFO}/sboms/a.cyclonedx.json": None}, "no bill of materials"),
        ({"tests/test_x.py": b""}, "tests/test_x.py doesn't belong there"),
        ({"deltaplane/a.py": str(repo.ROOT).encode()}, f"a.py names {repo.ROOT}"),
    ],
)
def test_a_fault_of_a_wheel_is_seen(tmp_path: Path, change: dict[str, bytes | None], problem: str) -> None:
    contents = {name: content for name, content in (files(tmp_path) | change).items() if content is not None}
    record = contents.pop(f"{INFO}/RECORD")
    wheel = built(tmp_path / "built", contents | {f"{INFO}/RECORD": record})
    [seen] = check_wheel.content(wheel)
    assert seen.endswith(problem)


def test_a_wheel_that_is_too_large_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_wheel, "LARGEST", 10)
    assert len(list(check_wheel.size(repacked(tmp_path)))) == 1


def test_constraints_have_versions_and_no_digests() -> None:
    lines = check_wheel.locked().splitlines()
    assert any(line.startswith("pyarrow==") for line in lines)
    assert not any("hash" in line or "\\" in line for line in lines)
    # Python 3.10 has no such versions of most packages.
    assert all(line.endswith("python_version >= '3.11'") for line in lines)
    assert all("or" not in line.split() or " (" in line for line in lines)
