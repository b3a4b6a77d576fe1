"""Packs a wheel again: smaller, in the same order and with the same times on each machine, and
without the build folder in its bill of materials. Knows zip files and `RECORD`, no project.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from zipfile import ZipFile

from archives import epoch

_UNIX = 3
_DEFLATED = 8


def repack(wheel: Path, into: Path, paths: Iterable[Path], iterations: int) -> None:
    """Writes the wheel's files into another wheel.

    Args:
        wheel: what a build wrote.
        into: the wheel to write.
        paths: folders of the build machine that must not be named in bills of materials.
        iterations: how often zopfli improves each file; 0 for zlib's best.
    """
    with ZipFile(wheel) as before:
        files = {info.filename: before.read(info) for info in before.infolist() if not info.is_dir()}
    for name in files:
        if "/sboms/" in name and name.endswith(".json"):
            files[name] = bill_of_materials(files[name], [str(path) for path in paths])
    [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
    files[record] = record_of(files, record)
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_bytes(zipped(in_order(files), iterations))


def bill_of_materials(content: bytes, paths: Iterable[str]) -> bytes:
    """A CycloneDX document without folders of the build machine, with a serial number that is its
    content's and with the time of the build's sources."""
    text = content.decode()
    for path in paths:
        text = re.sub(rf"(?:path\+)?(?:file://)?{re.escape(path)}", "deltaplane", text)
    document = json.loads(text)
    document.pop("serialNumber", None)
    document.setdefault("metadata", {})["timestamp"] = moment().strftime("%Y-%m-%dT%H:%M:%SZ")
    content_id = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document, sort_keys=True))
    document["serialNumber"] = f"urn:uuid:{content_id}"
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()


def record_of(files: Mapping[str, bytes], record: str) -> bytes:
    """The content of `RECORD`: name, digest and size of each other file."""
    lines = [f"{record},,"]
    for name, content in files.items():
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}")
    return ("\n".join(sorted(lines)) + "\n").encode()


def in_order(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Sorted by name, with the metadata last, as PEP 427 asks, and `RECORD` behind all."""
    return dict(
        sorted(files.items(), key=lambda item: (".dist-info/" in item[0], item[0].endswith("/RECORD"), item[0]))
    )


def moment() -> datetime:
    return datetime.fromtimestamp(epoch(), timezone.utc)


def deflated(content: bytes, iterations: int) -> bytes:
    """A raw deflate stream of these bytes."""
    if iterations and content:
        from zopfli.zlib import compress

        # Two bytes of header before the stream, and four of a checksum behind it.
        return bytes(compress(content, numiterations=iterations))[2:-4]
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    return packer.compress(content) + packer.flush()


def zipped(files: Mapping[str, bytes], iterations: int) -> bytes:
    """A zip file: its bytes depend on the arguments and on `epoch` only.

    Written here because Python's own `zipfile` takes no streams that are already deflated.
    """
    now = moment()
    date = (now.year - 1980) << 9 | now.month << 5 | now.day
    time = now.hour << 11 | now.minute << 5 | now.second // 2
    out, directory = bytearray(), bytearray()
    for name, content in files.items():
        stream, raw_name = deflated(content, iterations), name.encode()
        # Version 2.0, flag 11 for UTF-8 names.
        common = struct.pack(
            "<HHHHHIIIHH",
            *(20, 1 << 11, _DEFLATED, time, date),
            *(zlib.crc32(content), len(stream), len(content), len(raw_name), 0),
        )
        mode = 0o100755 if name.endswith((".so", ".pyd")) else 0o100644
        directory += b"PK\x01\x02" + struct.pack("<BB", 20, _UNIX) + common
        directory += struct.pack("<HHHII", 0, 0, 0, mode << 16, len(out)) + raw_name
        out += b"PK\x03\x04" + common + raw_name + stream
    end = struct.pack("<HHHHIIH", 0, 0, len(files), len(files), len(directory), len(out), 0)
    return bytes(out + directory + b"PK\x05\x06" + end)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("into", type=Path)
    parser.add_argument("--path", type=Path, action="append", default=[], help="a folder to leave out")
    parser.add_argument("--iterations", type=int, default=5, help="how often zopfli improves each file")
    arguments = parser.parse_args()
    repack(arguments.wheel, arguments.into, arguments.path, arguments.iterations)


if __name__ == "__main__":
    main()
