"""The pieces between the variable parts of a Java-serialised scan plan, cut from samples of this very JVM.

A plan is an array of a row and a `PartitionDirectory[]`; the Rust core writes one of any size as one byte string, which
saves one call into the JVM per file. Knows bytes only: no JVM, no table. Called by `deltaplane.spark._internals`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

__all__ = ["BLOCK_SIZE", "MODIFIED", "ROW", "SHAPES", "SIZE", "URI", "UnexpectedLayout", "assemble", "cut"]

# Placeholders no real stream holds by chance.
SIZE = 0x1122334455667788
MODIFIED = 0x0102030405060708
URI = "file:/a-placeholder-for-the-uri"
# An UnsafeRow of one fixed-width field: eight bytes of null bits, eight of value.
ROW = b"\0" * 8 + b"Z" * 8
# What a file says of its blocks; Spark uses it to split files, Hadoop's own local default is 32 MiB.
BLOCK_SIZE = 128 << 20

# Files per directory in each sample. The first two show every transition between parts, the third checks the pieces.
# Not two directories: that is the length of the array that holds a row and the directories.
SHAPES = ((3, 5, 7), (1, 4, 3, 2), (2, 1, 6, 1))

_SIZE, _MODIFIED = struct.pack(">q", SIZE), struct.pack(">q", MODIFIED)
_URI = struct.pack(">H", len(URI)) + URI.encode()
_ROW = struct.pack(">BBii", 0x77, 8 + len(ROW), len(ROW), 1) + ROW
# TC_OBJECT: an array's length stands right before its first element.
_OBJECT = b"s"

# The names of the pieces, in the order in which the Rust core takes them.
_NAMES = (
    "head", "first_directory", "first_file", "size_modified", "modified_uri", "later_size_modified",
    "later_modified_uri", "file_after_first", "file_after_later", "row_after_first", "row_after_later",
    "later_row", "directory", "file", "end",
)  # fmt: skip


class UnexpectedLayout(Exception):
    """The samples aren't serialised in the expected order."""


def cut(samples: Mapping[tuple[int, ...], bytes]) -> tuple[bytes, ...]:
    """The pieces, from one sample for each of `SHAPES`.

    Raises:
        UnexpectedLayout: a sample isn't the alternation of placeholders and constants that `assemble` makes.
    """
    parts: dict[str, bytes] = {}
    for sizes in SHAPES[:2]:
        _cut_one(sizes, samples[sizes], parts)
    pieces = tuple(parts[name] for name in _NAMES)
    for sizes in SHAPES:
        if assemble(pieces, [(_ROW, [(_URI, SIZE, MODIFIED)] * n) for n in sizes]) != samples[sizes]:
            raise UnexpectedLayout(f"Java's serialisation of {sizes} files differs from the template's")
    return pieces


def assemble(pieces: Sequence[bytes], directories: Sequence[tuple[bytes, Sequence[tuple[bytes, int, int]]]]) -> bytes:
    """The stream for these directories of (row block, [(uri with its length, size, modified)]): what the Rust core writes."""
    p = dict(zip(_NAMES, pieces, strict=True))
    out = [p["head"], struct.pack(">i", len(directories))]
    for d, (row, files) in enumerate(directories):
        out += [p["directory"] if d else p["first_directory"], struct.pack(">i", len(files))]
        for f, (uri, size, modified) in enumerate(files):
            first = d == 0 and f == 0
            if f:
                out.append(p["file_after_first"] if d == 0 and f == 1 else p["file_after_later"])
            else:
                out.append(p["first_file"] if first else p["file"])
            out += [struct.pack(">q", size), p["size_modified" if first else "later_size_modified"]]
            out += [struct.pack(">q", modified), p["modified_uri" if first else "later_modified_uri"], uri]
        if d:
            out.append(p["later_row"])
        else:
            out.append(p["row_after_first"] if len(files) == 1 else p["row_after_later"])
        out.append(row)
    out.append(p["end"])
    return b"".join(out)


def _cut_one(sizes: tuple[int, ...], sample: bytes, parts: dict[str, bytes]) -> None:
    rest = sample

    def until(mark: bytes) -> bytes:
        nonlocal rest
        before, found, rest = rest.partition(mark)
        if not found:
            raise UnexpectedLayout(f"no placeholder {mark!r}")
        return before

    def keep(name: str, piece: bytes) -> None:
        if parts.setdefault(name, piece) != piece:
            raise UnexpectedLayout(f"two forms of the piece {name}")

    keep("head", until(struct.pack(">i", len(sizes)) + _OBJECT))
    rest = _OBJECT + rest
    for d, files in enumerate(sizes):
        keep("directory" if d else "first_directory", until(struct.pack(">i", files) + _OBJECT))
        rest = _OBJECT + rest
        for f in range(files):
            first = d == 0 and f == 0
            before = until(_SIZE)
            if f:
                keep("file_after_first" if d == 0 and f == 1 else "file_after_later", before)
            else:
                keep("first_file" if first else "file", before)
            keep("size_modified" if first else "later_size_modified", until(_MODIFIED))
            keep("modified_uri" if first else "later_modified_uri", until(_URI))
        before = until(_ROW)
        if d:
            keep("later_row", before)
        else:
            keep("row_after_first" if files == 1 else "row_after_later", before)
    keep("end", rest)
