"""Reads a file's columns and rows by format, with the table's types for formats that only contain
text.

Knows streams and a schema; the options of a format are checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.copying.quotes import DoubledQuotes
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMATS", "Open", "Opened"]

# A file's schema, and its batches.
Opened = tuple["pa.Schema", Iterator["pa.RecordBatch"]]
# A function that opens a file, given another function that returns the file's bytes from the
# beginning at each call; it returns None for an empty file.
Open = Callable[[Callable[[], "pa.NativeFile | None"]], Opened]

_CSV_OPTIONS = ("header", "sep", "delimiter", "quote", "escape", "nullvalue")
# Matches a time with a time zone; the pattern requires a time because a date alone ends in similar
# text.
_ZONED = r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$|[T ]\d\d(Z|[+-]\d\d(:?\d\d)?)$"


def _parquet(table: pa.Schema, options: Mapping[str, str], merges: bool) -> Open:
    import pyarrow.parquet as pq

    _known(options, ())

    def opened(source: Callable[[], pa.NativeFile | None]) -> Opened:
        file = pq.ParquetFile(source())
        return file.schema_arrow, file.iter_batches()

    return opened


def _csv(table: pa.Schema, options: Mapping[str, str], merges: bool) -> Open:
    import pyarrow as pa
    from pyarrow import csv

    settings = _known(options, _CSV_OPTIONS)
    header = _flag(settings.get("header", "false"), "header")
    nested = [f.name for f in table if pa.types.is_nested(f.type)]
    own = {f.name.lower(): f.type for f in table}
    separator = _sign(settings.get("sep", settings.get("delimiter", ",")), "sep")
    quote = _sign(settings.get("quote", '"'), "quote")
    escape = _sign(settings.get("escape", "\\"), "escape")
    read = csv.ReadOptions(column_names=None if header else table.names)
    # A value may span several lines, so blocks have no line limit.
    parse = csv.ParseOptions(delimiter=separator, quote_char=quote, escape_char=False, newlines_in_values=True)

    def begun(stream: pa.NativeFile, types: Mapping[str, pa.DataType]) -> Any:
        rewritten = DoubledQuotes(separator.encode(), quote.encode(), escape.encode())
        return csv.open_csv(pa.TransformInputStream(stream, rewritten), read, parse, _converted(types, settings))

    def opened(source: Callable[[], pa.NativeFile | None]) -> Opened:
        stream = source()
        if stream is None:
            return _nothing()
        # Types are assigned by the names as the file spells them.
        names = begun(stream, {}).schema.names if header else table.names
        types = {name: own[name.lower()] for name in names if name.lower() in own}
        if any(name in nested for name in types):
            raise SchemaMismatchError(f"the column `{nested[0]}` has fields or elements, which CSV can't hold")
        instants = {
            name for name, data_type in types.items() if pa.types.is_timestamp(data_type) and data_type.tz is not None
        }
        file = begun(
            source(), {name: pa.string() if name in instants else data_type for name, data_type in types.items()}
        )
        return file.schema, _each(file, {name: (types[name], _instants) for name in instants})

    return opened


def _converted(types: Mapping[str, pa.DataType], options: Mapping[str, str]) -> Any:
    from pyarrow import csv

    return csv.ConvertOptions(
        column_types=types,
        null_values=[options.get("nullvalue", "")],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        true_values=["true", "True", "TRUE"],
        false_values=["false", "False", "FALSE"],
    )


def _json(table: pa.Schema, options: Mapping[str, str], merges: bool) -> Open:
    import pyarrow as pa
    from pyarrow import json

    _known(options, ())
    # pyarrow reads dates from numbers, Spark from text.
    read = pa.schema([f.with_type(_with_text_days(f.type)) for f in table])
    days = {f.name: (f.type, _cast) for f, other in zip(table, read, strict=True) if f.type != other.type}
    unexpected = "infer" if merges else "error"
    parse = json.ParseOptions(explicit_schema=read, unexpected_field_behavior=unexpected)

    def opened(source: Callable[[], pa.NativeFile | None]) -> Opened:
        stream = source()
        if stream is None:
            return _nothing()
        file = json.open_json(stream, parse_options=parse)
        return file.schema, _each(file, days)

    return opened


FORMATS: dict[str, Callable[[pa.Schema, Mapping[str, str], bool], Open]] = {
    "parquet": _parquet,
    "csv": _csv,
    "json": _json,
}


def _nothing() -> Opened:
    import pyarrow as pa

    return pa.schema([]), iter(())


# --- values that a file writes as text --------------------------------------------------------------------------------

_Conversion = Callable[["pa.Array", "pa.DataType"], "pa.Array"]


def _each(
    batches: Iterator[pa.RecordBatch], conversions: Mapping[str, tuple[pa.DataType, _Conversion]]
) -> Iterator[pa.RecordBatch]:
    """Batches with some columns converted to other types."""
    import pyarrow as pa

    for batch in batches:
        for index, name in enumerate(batch.schema.names):
            if name not in conversions:
                continue
            to, converted = conversions[name]
            try:
                values = converted(batch.column(index), to)
            except pa.ArrowException as e:
                raise SchemaMismatchError(f"the column `{name}` takes no such value: {e}") from e
            batch = batch.set_column(index, pa.field(name, to), values)
        yield batch


def _cast(texts: pa.Array, to: pa.DataType) -> pa.Array:
    return texts.cast(to)


def _instants(texts: pa.Array, to: pa.DataType) -> pa.Array:
    """Converts texts to timestamps; those without time zone are in the session's, which is UTC
    here."""
    import pyarrow as pa
    import pyarrow.compute as pc

    none = pa.scalar(None, texts.type)
    zoned = pc.match_substring_regex(texts, _ZONED)
    elsewhere = pc.if_else(zoned, texts, none).cast(to)
    here = pc.if_else(zoned, none, texts).cast(pa.timestamp(to.unit)).view(to)
    return pc.coalesce(elsewhere, here)


def _with_text_days(data_type: pa.DataType) -> pa.DataType:
    """A type with dates replaced by text."""
    import pyarrow as pa

    if pa.types.is_date(data_type):
        return pa.string()
    if pa.types.is_struct(data_type):
        return pa.struct([f.with_type(_with_text_days(f.type)) for f in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_with_text_days(data_type.value_type)))
    return data_type


# --- options ----------------------------------------------------------------------------------------------------------


def _known(options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    unknown = [name for name in options if name.lower() not in known]
    if unknown:
        there = f": there are {', '.join(known)}" if known else ""
        raise UnsupportedFeatureError(f"the format option {unknown[0]!r} isn't one of this version{there}")
    return {name.lower(): str(value) for name, value in options.items()}


def _flag(value: str, name: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"the format option {name} is true or false, not {value!r}")
    return value.lower() == "true"


def _sign(value: str, name: str) -> str:
    if len(value) != 1 or not value.isascii():
        raise UnsupportedFeatureError(f"the format option {name} is one ASCII character, not {value!r}")
    return value
