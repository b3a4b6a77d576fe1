"""Random data, options and schemas for the core, one seed per case:
`python fuzz.py KIND FIRST SECONDS [CASES]`.

Prints the seed of each case before it runs, so that the output identifies the case that ended the
process.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltaplane as dp
from deltaplane import _native
from deltaplane.exceptions import DeltaError, InternalError

sys.path.insert(0, str(Path(__file__).parent))

import fuzz_arrow

_ROOT = Path(__file__).parents[2]
_PLACES = [
    "s3://bucket/t",
    "gs://bucket/t",
    "az://container/t",
    "abfss://c@account.dfs.core.windows.net/t",
    "hdfs://localhost:1/t",
]
# A port without a listener, with short timeouts.
_QUICK = {"max_retries": "0", "retry_timeout": "1s", "timeout": "300ms", "connect_timeout": "200ms"}
_KEYS = {
    "aws_access_key_id": "a" * 20,
    "aws_secret_access_key": "b" * 40,
    "aws_region": "eu-west-1",
    "google_skip_signature": "true",
    "azure_storage_account_name": "account",
    "azure_storage_account_key": "YWJjZA==",
}
_VALUES = [
    *(
        "",
        " ",
        "host:9000",
        "http://",
        "https://",
        "http://127.0.0.1:1",
        "https://127.0.0.1:1",
        "127.0.0.1:1",
        "//x",
        "http://[::1",
    ),
    *(
        "http://a b",
        "https://user:pw@127.0.0.1:1",
        "https://127.0.0.1:99999",
        "ftp://127.0.0.1:1",
        "file:///etc",
        "🦆",
        "\n",
        "a\tb",
    ),
    *(
        "true",
        "false",
        "maybe",
        "0",
        "1",
        "-1",
        "1e9",
        "18446744073709551616",
        "NaN",
        "1s",
        "-1s",
        "1 fortnight",
        "x" * 5000,
        "%zz",
    ),
    *(
        "{}",
        "[]",
        "{",
        '{"a": 1}',
        "null",
        "../../etc/passwd",
        "/nowhere/file.json",
        "a=b&c=d",
        "?sig=%00",
        "sv=1&sig=abc",
        "etag",
        "disabled",
    ),
]


def _option_names() -> list[str]:
    """The options that the stores suggest, from their own files."""
    names: set[str] = set()
    for path in (_ROOT / "rust/store/src/stores").glob("*.rs"):
        for listed in re.findall(r"names: &\[(.*?)\]", path.read_text(), re.DOTALL):
            names.update(re.findall(r'"(\w+)"', listed))
    assert len(names) > 40, "the stores list the names of their options elsewhere now"
    return sorted(names)


_NAMES = _option_names()


def options_case(r: random.Random, path: str) -> None:
    """Any options yield a store or a typed error, at once."""
    place = r.choice([*_PLACES, path])
    chosen = {r.choice(_NAMES): r.choice(_VALUES) for _ in range(r.randint(1, 4))}
    options = {**_QUICK, **(_KEYS if r.random() < 0.8 else {}), **chosen, "allow_http": r.choice(["true", "false"])}
    try:
        store = _native.RawStore.open(place, options)
        if place != path and not place.startswith("hdfs"):
            store.head("x")
    except DeltaError as e:
        fuzz_arrow.expect(not isinstance(e, InternalError), f"{place} {chosen}: {e}")


_NAME_PARTS = [
    "a",
    "A",
    "b",
    ".",
    "`",
    '"',
    "'",
    " ",
    "ü",
    "🦆",
    "\x00",
    "\n",
    "=",
    "%",
    "/",
    "_commit_version",
    "delta.",
    "x" * 300,
    "",
]
_METADATA = [
    *(
        "comment",
        "delta.generationExpression",
        "delta.invariants",
        "delta.identity.start",
        "delta.identity.step",
        "CURRENT_DEFAULT",
    ),
    *(
        "delta.identity.allowExplicitInsert",
        "delta.columnMapping.id",
        "delta.columnMapping.physicalName",
        "delta.unknown",
        "__CHAR_VARCHAR_TYPE_STRING",
    ),
    *(
        "PARQUET:field_id",
        "ARROW:extension:name",
        "ARROW:extension:metadata",
        "parquet.field.id",
        "delta.typeChanges",
        "",
        "\x00",
        "🦆",
    ),
]
_TEXTS = [
    "",
    "1",
    "-1",
    "true",
    "a + 1",
    "year(a)",
    "not sql (",
    "'x'",
    "varchar(3)",
    "char(0)",
    "[]",
    "{}",
    "\x00",
    "\xff",
    "arrow.uuid",
    "9" * 30,
]


def _type(r: random.Random, depth: int) -> pa.DataType:
    kind = r.randrange(8) if depth else 0
    if kind == 1:
        return pa.struct(_fields(r, depth - 1))
    if kind == 2:
        return pa.list_(_field(r, depth - 1))
    if kind == 3:
        key = _type(r, depth - 1)
        return pa.map_(pa.int8() if pa.types.is_null(key) else key, _field(r, depth - 1))
    odd = [
        pa.time32("s"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(76, 3),
        pa.decimal128(5, -2),
        pa.float16(),
    ]
    return r.choice(odd) if r.random() < 0.1 else fuzz_arrow.primitive(r, 0).type


def _field(r: random.Random, depth: int) -> pa.Field:
    name = "".join(r.choice(_NAME_PARTS) for _ in range(r.randint(1, 3)))
    metadata = {r.choice(_METADATA): r.choice(_TEXTS) for _ in range(r.choice([0, 0, 1, 3]))}
    t = _type(r, depth)
    return pa.field(name, t, nullable=r.random() < 0.8 or pa.types.is_null(t), metadata=metadata or None)


def _fields(r: random.Random, depth: int) -> list[pa.Field]:
    return [_field(r, depth) for _ in range(r.randint(0, 4))]


def schema_case(r: random.Random, path: str) -> None:
    """Any schema yields a table with the same columns, or a typed error and no table."""
    schema = pa.schema(_fields(r, 3))
    mapping = {"delta.columnMapping.mode": r.choice(["none", "name", "id"])}
    try:
        made = dp.DeltaTable.create(path, schema, configuration=mapping)
    except (DeltaError, ValueError, TypeError) as e:
        fuzz_arrow.expect(not isinstance(e, InternalError), f"{schema.to_string()}: {e}")
        fuzz_arrow.expect(not dp.DeltaTable.is_deltatable(path), "a table of a refused schema")
        return
    assert made.schema().to_arrow().names == schema.names
    again = dp.DeltaTable.create(path + "/again", made.schema().to_arrow(), configuration=mapping)
    assert again.schema().to_arrow().equals(made.schema().to_arrow(), check_metadata=True)
    assert dp.DeltaTable(path).to_pyarrow_table().num_rows == 0


KINDS: dict[str, Callable[[random.Random, str], Any]] = {
    "valid": fuzz_arrow.valid_case,
    "damaged": fuzz_arrow.damaged_case,
    "options": options_case,
    "schema": schema_case,
}


def main(kind: str, first: int, seconds: float, cases: int = 10**9) -> int:
    """Runs cases until the time is over; returns their number."""
    end, done = time.monotonic() + seconds, 0
    while done < cases and time.monotonic() < end:
        seed = first + done
        print(kind, seed, flush=True)
        path = tempfile.mkdtemp()
        try:
            KINDS[kind](random.Random(f"{kind} {seed}"), f"{path}/t")
        finally:
            shutil.rmtree(path, ignore_errors=True)
        done += 1
    print("done", done)
    return done


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:]))
