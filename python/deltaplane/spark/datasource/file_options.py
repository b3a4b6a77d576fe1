"""Translates the writer options of data files: their codec, and Spark's own options of Parquet
Bloom filters."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.properties import BloomFilterProperties, ColumnProperties, WriterProperties
from deltaplane.spark.datasource.stream_options import flag
from deltaplane.spark.execution.spark_files import BLOOM_FILTERS

__all__ = ["BLOOM_FILTERS", "file_properties", "is_own"]

# In a collection of own options the beginning of Spark's options of Bloom filters represents all of
# them; they end with `#` and a column.
_ENABLED, _NDV, _FPP = (f"{BLOOM_FILTERS}{name}" for name in ("enabled", "expected.ndv", "fpp"))
# Filters always get the size that their values need.
_WITHOUT_EFFECT = {f"{BLOOM_FILTERS}{name}" for name in ("adaptive.enabled", "candidates.number")}


def is_own(key: str, own: Collection[str]) -> bool:
    """Whether an option is among these, whose names are in lower case."""
    name = key.lower()
    return name in own or (BLOOM_FILTERS in own and name.startswith(BLOOM_FILTERS))


def file_properties(own: Mapping[str, str]) -> WriterProperties:
    """The settings of data files, by options in lower case.

    Raises:
        InvalidArgumentError: a value that isn't a number, a probability or a switch.
        UnsupportedFeatureError: a setting of Bloom filters that has no counterpart.

    >>> of_key = file_properties({"parquet.bloom.filter.enabled#id": "true"}).column_properties
    >>> of_key["id"].bloom_filter_properties.set_bloom_filter_enabled
    True
    """
    chosen = {key: value for key, value in own.items() if key.startswith(BLOOM_FILTERS)}
    for key in chosen:
        if key.partition("#")[0] not in {_ENABLED, _NDV, _FPP} | _WITHOUT_EFFECT:
            raise UnsupportedFeatureError(
                f"the option {key} isn't supported: Bloom filters get the size that their values need, give {_FPP} or {_NDV}"
            )
    columns = {column: None for _, mark, column in (key.partition("#") for key in chosen) if mark}
    by_column = {column: _filter(chosen, column) for column in columns}
    return WriterProperties(
        compression=own.get("compression"),
        default_column_properties=_filter(chosen, None) if _ENABLED in chosen else None,
        column_properties=by_column or None,
    )


def _filter(chosen: Mapping[str, str], column: str | None) -> ColumnProperties:
    """The filter of a column; None means all columns without options of their own."""
    end = "" if column is None else f"#{column}"

    def value(name: str) -> str | None:
        return chosen.get(name + end, chosen.get(name))

    enabled = flag(chosen, _ENABLED + end, chosen.get(_ENABLED, "false"))
    fpp, ndv = value(_FPP), value(_NDV)
    try:
        filters = BloomFilterProperties(enabled, None if fpp is None else float(fpp), None if ndv is None else int(ndv))
    except ValueError:
        raise InvalidArgumentError(f"the options {_FPP} and {_NDV} are numbers, not {fpp!r} and {ndv!r}") from None
    return ColumnProperties(bloom_filter_properties=filters)
