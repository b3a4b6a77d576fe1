"""deltalake's settings of Parquet files: checked when they are made, and changeable afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeVar

E = TypeVar("E", bound=Enum)


def _item(kind: type[E], value: str) -> E:
    """The item of an enumeration by its value, in capitals or not."""
    try:
        return kind(value.upper())
    except ValueError:
        known = [item.value for item in kind]
        raise ValueError(f"{value} is not a valid {kind.__name__}. Valid values are: {known}") from None


class Compression(Enum):
    """The codecs of Parquet files."""

    UNCOMPRESSED = "UNCOMPRESSED"
    SNAPPY = "SNAPPY"
    GZIP = "GZIP"
    BROTLI = "BROTLI"
    LZ4 = "LZ4"
    ZSTD = "ZSTD"
    LZ4_RAW = "LZ4_RAW"

    @classmethod
    def from_str(cls, value: str) -> Compression:
        """The codec of a name, in capitals or not."""
        return _item(cls, value)

    def get_level_range(self) -> tuple[int, int]:
        """The lowest and the highest level."""
        return _LEVELS[self][:2]

    def get_default_level(self) -> int:
        """The level that is used if none is given."""
        return _LEVELS[self][2]

    def check_valid_level(self, level: int) -> bool:
        """True for a valid level; other levels are a ValueError."""
        low, high = self.get_level_range()
        if not low <= level <= high:
            raise ValueError(f"Compression level for {self.value} should fall between {low}-{high}")
        return True


class _Levels(dict[Compression, tuple[int, int, int]]):
    def __missing__(self, codec: Compression) -> tuple[int, int, int]:
        raise KeyError(f"{codec.value} does not have a compression level.")


# Lowest, highest and default level.
_LEVELS = _Levels({Compression.GZIP: (0, 10, 6), Compression.BROTLI: (0, 11, 1), Compression.ZSTD: (1, 22, 1)})


class Encoding(Enum):
    """The encodings of Parquet columns without a dictionary."""

    PLAIN = "PLAIN"
    RLE = "RLE"
    DELTA_BINARY_PACKED = "DELTA_BINARY_PACKED"
    DELTA_LENGTH_BYTE_ARRAY = "DELTA_LENGTH_BYTE_ARRAY"
    DELTA_BYTE_ARRAY = "DELTA_BYTE_ARRAY"
    BYTE_STREAM_SPLIT = "BYTE_STREAM_SPLIT"

    @classmethod
    def from_str(cls, value: str) -> Encoding:
        """The encoding of a name, in capitals or not."""
        return _item(cls, value)


@dataclass(init=True)
class BloomFilterProperties:
    """Whether a column's files get a Bloom filter, its probability of a wrong hit, and the number
    of
    distinct values."""

    def __init__(self, set_bloom_filter_enabled: bool | None, fpp: float | None = None, ndv: int | None = None) -> None:
        if fpp is not None and not 0 < fpp < 1:
            raise ValueError("fpp must be between 0 and 1 exclusive")
        self.set_bloom_filter_enabled = set_bloom_filter_enabled
        self.fpp = fpp
        self.ndv = ndv

    def __str__(self) -> str:
        return f"set_bloom_filter_enabled: {self.set_bloom_filter_enabled}, fpp: {self.fpp}, ndv: {self.ndv}"


@dataclass(init=True)
class ColumnProperties:
    """Settings of one column."""

    def __init__(
        self,
        dictionary_enabled: bool | None = None,
        statistics_enabled: Literal["NONE", "CHUNK", "PAGE"] | None = None,
        bloom_filter_properties: BloomFilterProperties | None = None,
        encoding: Literal[
            "PLAIN",
            "RLE",
            "DELTA_BINARY_PACKED",
            "DELTA_LENGTH_BYTE_ARRAY",
            "DELTA_BYTE_ARRAY",
            "BYTE_STREAM_SPLIT",
        ]
        | None = None,
    ) -> None:
        if isinstance(encoding, str) and dictionary_enabled:
            raise ValueError("Cannot specify dictionary_enabled=True and encoding")
        self.dictionary_enabled = dictionary_enabled
        self.statistics_enabled = statistics_enabled
        self.bloom_filter_properties = bloom_filter_properties
        self.encoding = encoding

    def __str__(self) -> str:
        return (
            f"dictionary_enabled: {self.dictionary_enabled}, statistics_enabled: {self.statistics_enabled}, "
            f"bloom_filter_properties: {self.bloom_filter_properties}, encoding: {self.encoding}"
        )


@dataclass(init=True)
class WriterProperties:
    """Settings of Parquet files. `compression` becomes the codec in capitals, with its level."""

    def __init__(
        self,
        data_page_size_limit: int | None = None,
        dictionary_page_size_limit: int | None = None,
        data_page_row_count_limit: int | None = None,
        write_batch_size: int | None = None,
        max_row_group_size: int | None = None,
        compression: Literal["UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"] | None = None,
        compression_level: int | None = None,
        statistics_truncate_length: int | None = None,
        default_column_properties: ColumnProperties | None = None,
        column_properties: dict[str, ColumnProperties] | None = None,
    ) -> None:
        self.data_page_size_limit = data_page_size_limit
        self.dictionary_page_size_limit = dictionary_page_size_limit
        self.data_page_row_count_limit = data_page_row_count_limit
        self.write_batch_size = write_batch_size
        self.max_row_group_size = max_row_group_size
        self.compression = _compression(compression, compression_level)
        self.statistics_truncate_length = statistics_truncate_length
        self.default_column_properties = default_column_properties
        self.column_properties = column_properties

    def __str__(self) -> str:
        columns = ", ".join(f"column '{name}': {chosen}" for name, chosen in (self.column_properties or {}).items())
        shown = {**vars(self), "column_properties": columns or None}
        return f"WriterProperties({', '.join(f'{name}: {value}' for name, value in shown.items())})"


def _compression(codec: str | None, level: int | None) -> str | None:
    if codec is None:
        if level is not None:
            raise ValueError("a compression level needs a compression type: give both")
        return None
    known = Compression.from_str(codec)
    if known not in _LEVELS:
        return known.value
    if level is not None:
        known.check_valid_level(level)
    return f"{known.value}({known.get_default_level() if level is None else level})"
