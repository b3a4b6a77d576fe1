"""Decompresses files that are compressed as a whole; as in Spark, the ending of the name selects
the codec.

Uses streams only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from deltaplane.exceptions import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["decompressed", "is_compressed"]

_CODECS = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
# Endings of codecs that only Spark reads, with Hadoop's framing.
_UNKNOWN = ("deflate", "lz4", "snappy")


def is_compressed(path: str) -> bool:
    """Whether a name's ending is that of a compressed file.

    >>> is_compressed("a.csv.GZ"), is_compressed("gz/a.csv")
    (True, False)
    """
    return _end(path) in (*_CODECS, *_UNKNOWN)


def decompressed(opened: Callable[[], pa.NativeFile], path: str) -> pa.NativeFile | None:
    """The decompressed content of a file as a stream; None if it is empty.

    Raises:
        UnsupportedFeatureError: an unsupported compression; lists the supported ones.
    """
    import pyarrow as pa

    codec = _CODECS.get(_end(path))
    if codec is None:
        known = ", ".join(f".{end}" for end in _CODECS)
        raise UnsupportedFeatureError(
            f"the file `{path}` is compressed in a way that can't be read ({known} can): compress it anew", path=path
        )
    # The size of a compressed file doesn't show whether its content is empty.
    if not pa.CompressedInputStream(opened(), codec).read(1):
        return None
    return pa.CompressedInputStream(opened(), codec)


def _end(path: str) -> str:
    return path.rpartition("/")[2].rpartition(".")[2].lower()
