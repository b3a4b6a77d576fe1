"""Decodes deletion vectors: Z85 text, vector files, and 64-bit Roaring bitmaps in their portable
form."""

from __future__ import annotations

import struct
import urllib.parse
import uuid
import zlib
from pathlib import Path

from verifier.findings import Findings, Json

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
# A container lists up to this many values; a larger one is a bitmap.
_LISTED = 4096
_BITMAP_BYTES = 8192


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, form: str) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(f"<{form}")
        return values

    def raw(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]


def decoded_z85(text: str) -> bytes:
    """Decodes Z85 text: five characters represent four bytes."""
    decoded = b""
    for start in range(0, len(text), 5):
        number = 0
        for character in text[start : start + 5]:
            number = number * 85 + _Z85.index(character)
        decoded += number.to_bytes(4, "big")
    return decoded


def bitmap_positions(data: bytes) -> list[int]:
    """The positions of a 64-bit bitmap: a 32-bit bitmap for each value of the upper half."""
    cursor = _Cursor(data)
    if cursor.take("I")[0] != _MAGIC:
        raise ValueError("the bitmap has a wrong magic number")
    positions: list[int] = []
    for _ in range(cursor.take("Q")[0]):
        upper = cursor.take("I")[0] << 32
        positions += (upper | low for low in _half_positions(cursor))
    return positions


def _half_positions(cursor: _Cursor) -> list[int]:
    cookie = cursor.take("I")[0]
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = cursor.raw((count + 7) // 8)
    elif cookie == _WITHOUT_RUNS:
        count = cursor.take("I")[0]
    else:
        raise ValueError("the bitmap has a wrong cookie")
    containers = [cursor.take("HH") for _ in range(count)]
    if not runs or count >= 4:
        cursor.raw(4 * count)
    positions: list[int] = []
    for index, (key, cardinality) in enumerate(containers):
        is_run = bool(runs) and bool(runs[index // 8] >> (index % 8) & 1)
        positions += (key << 16 | low for low in _container(cursor, cardinality + 1, is_run))
    return positions


def _container(cursor: _Cursor, count: int, is_run: bool) -> list[int]:
    if is_run:
        pairs = [cursor.take("HH") for _ in range(cursor.take("H")[0])]
        return [value for start, more in pairs for value in range(start, start + more + 1)]
    if count <= _LISTED:
        return list(cursor.take(f"{count}H"))
    bits = cursor.raw(_BITMAP_BYTES)
    return [8 * index + bit for index, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1]


def vector_path(root: Path, vector: Json | None) -> Path | None:
    """The file of a deletion vector; None for one in the log, or none."""
    if vector is None or vector["storageType"] not in ("u", "p"):
        return None
    text = vector["pathOrInlineDv"]
    if vector["storageType"] == "p":
        return Path(urllib.parse.unquote(urllib.parse.urlparse(text).path))
    return root / text[:-20] / f"deletion_vector_{uuid.UUID(bytes=decoded_z85(text[-20:]))}.bin"


def vector_positions(findings: Findings, where: str, root: Path, vector: Json) -> list[int]:
    """The deleted positions of a file; checks the vector against the log.

    Raises:
        ValueError, OSError: the vector can't be decoded.
    """
    kind, text = vector["storageType"], vector["pathOrInlineDv"]
    path = vector_path(root, vector)
    if path is not None:
        data = _in_file(findings, where, path, vector)
    elif kind == "i":
        data = decoded_z85(text)[: vector["sizeInBytes"]]
    else:
        raise ValueError(f"the storage type {kind} is unknown")
    positions = bitmap_positions(data)
    said = vector["cardinality"]
    findings.unless(len(positions) == said, where, f"the vector has {len(positions)} rows, the log says {said}")
    findings.unless(sorted(set(positions)) == positions, where, "the vector's positions don't ascend")
    return positions


def _in_file(findings: Findings, where: str, path: Path, vector: Json) -> bytes:
    content, offset = path.read_bytes(), vector.get("offset") or 0
    findings.unless(content[0] == 1, where, "the file of vectors has a wrong format version")
    (size,) = struct.unpack_from(">i", content, offset)
    said = vector["sizeInBytes"]
    findings.unless(size == said, where, f"the vector has {size} bytes, the log says {said}")
    data = content[offset + 4 : offset + 4 + size]
    (checksum,) = struct.unpack_from(">I", content, offset + 4 + size)
    findings.unless(checksum == zlib.crc32(data), where, "the vector has a wrong checksum")
    return data
