"""Tables that no correct writer produces: each fault is refused with a typed error that names it,
where the fault matters and nowhere else.

Each case changes the one commit of a small partitioned table. Opening, reading and appending each
work or fail as the case expects; without an expectation they work.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    CorruptFileError,
    CorruptLogError,
    DeltaError,
    FileMissingError,
    InvalidArgumentError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)

ROWS = pa.table({"x": [1, 2], "p": ["a", "b"]})
MORE = pa.table({"x": [3], "p": ["c"]})
Action = dict[str, Any]
Change = Callable[[list[Action]], None]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hostile") / "good"
    write_deltalake(path, ROWS, partition_by=["p"])
    return path


@pytest.fixture
def spoilt(good: Path, tmp_path: Path) -> Callable[[Change], Path]:
    """Makes a table with a changed commit."""

    def make(change: Change) -> Path:
        path = tmp_path / "t"
        shutil.copytree(good, path)
        for checksum in (path / "_delta_log").glob("*.crc"):
            checksum.unlink()
        commit = path / "_delta_log" / f"{0:020}.json"
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        change(actions)
        commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
        return path

    return make


def action_of(actions: list[Action], kind: str) -> Action:
    action: Action = next(a[kind] for a in actions if kind in a)
    return action


def put(kind: str, **members: Any) -> Change:
    """Sets members of the first action of a kind; `...` removes one."""

    def change(actions: list[Action]) -> None:
        action = action_of(actions, kind)
        action.update(members)
        for name in [n for n, value in members.items() if value is ...]:
            del action[name]

    return change


def protocol(reader: object, writer: object, *, readers: object = None, writers: object = None) -> Change:
    members = {"readerFeatures": readers, "writerFeatures": writers}
    members_set = {name: value for name, value in members.items() if value is not None}
    return put("protocol", minReaderVersion=reader, minWriterVersion=writer, **members_set)


def features(*names: str) -> Change:
    return protocol(1, 7, writers=list(names))


def both(*changes: Change) -> Change:
    return lambda actions: [change(actions) for change in changes] and None


def without(kind: str) -> Change:
    return lambda actions: actions.remove(next(a for a in actions if kind in a))


def added(**action: Any) -> Change:
    return lambda actions: actions.append(action)


def column(name: object, kind: object, **metadata: Any) -> Action:
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def columns(*fields: Action) -> Change:
    return put("metaData", schemaString=json.dumps({"type": "struct", "fields": [*fields, column("p", "string")]}))


def configured(**properties: str) -> Change:
    named = {f"delta.{key.replace('_', '.')}": value for key, value in properties.items()}
    return lambda actions: action_of(actions, "metaData")["configuration"].update(named)


def vector(**members: Any) -> Change:
    lists = {"readers": ["deletionVectors"], "writers": ["deletionVectors"]}
    default = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 1, "sizeInBytes": 40}
    return both(protocol(3, 7, **lists), put("add", deletionVector={**default, "cardinality": 6, **members}))


X = column("x", "long")
LONG = 2**70

# Fault → (the change, the error of opening, and a part of its text).
OPENING: dict[str, tuple[Change, type[DeltaError], str]] = {
    # P047, P048, P090, P092: the protocol
    "no protocol": (without("protocol"), CorruptLogError, "no protocol"),
    "version 0": (protocol(0, 2), CorruptLogError, r"\(0, 2\).*start at 1"),
    "a version as text": (protocol("1", 2), CorruptLogError, "expected i32"),
    "a version that is no whole number": (protocol(1.5, 2), CorruptLogError, "1.5"),
    "a version out of range": (protocol(2**40, 2), CorruptLogError, str(2**40)),
    "a version that is missing": (put("protocol", minWriterVersion=...), CorruptLogError, "minWriterVersion"),
    "a future reader": (protocol(4, 7, readers=[], writers=[]), UnsupportedFeatureError, "reader version 4"),
    "a reader's feature that nobody knows": (
        protocol(3, 7, readers=["flying"], writers=["flying"]),
        UnsupportedFeatureError,
        "flying.*newer deltaplane",
    ),
    "catalog-managed": (
        protocol(3, 7, readers=["catalogManaged"], writers=["catalogManaged"]),
        UnsupportedFeatureError,
        "catalogManaged",
    ),
    "features that aren't a list": (protocol(3, 7, readers="x", writers=["x"]), CorruptLogError, "sequence"),
    "a feature that isn't text": (protocol(3, 7, readers=[None], writers=[1]), CorruptLogError, "null"),
    "reader 3 without a list": (protocol(3, 7, writers=[]), CorruptLogError, "without a list of reader features"),
    "writer 7 without a list": (protocol(1, 7), CorruptLogError, "without a list of writer features"),
    "a list below version 7": (protocol(1, 2, writers=["appendOnly"]), CorruptLogError, "without writer version 7"),
    "reader 3 with writer 6": (protocol(3, 6, readers=[]), CorruptLogError, "writer version below 7"),
    # P032, P047, P173, P180, P181: the metadata
    "no metadata": (without("metaData"), CorruptLogError, "no metaData"),
    "no schema": (put("metaData", schemaString=...), CorruptLogError, "no schemaString"),
    "a schema that isn't JSON": (put("metaData", schemaString="{"), CorruptLogError, "isn't JSON"),
    "a schema that is a type": (put("metaData", schemaString='"long"'), CorruptLogError, "not a struct"),
    "a schema that is a number": (put("metaData", schemaString=5), CorruptLogError, "expected a string"),
    "a struct without fields": (put("metaData", schemaString='{"type":"struct"}'), CorruptLogError, "`fields`"),
    "a schema without end": (
        put("metaData", schemaString='{"type":"array","elementType":' * 3000),
        CorruptLogError,
        "recursion|isn't JSON",
    ),
    "files of another kind": (put("metaData", format={"provider": "orc"}), UnsupportedFeatureError, "`orc`.*parquet"),
    "an unknown type": (columns(column("x", "int128")), UnsupportedFeatureError, "`int128`"),
    "too many digits": (columns(column("x", "decimal(39,0)")), UnsupportedFeatureError, r"decimal\(39,0\)"),
    "more decimals than digits": (columns(column("x", "decimal(5,9)")), UnsupportedFeatureError, r"decimal\(5,9\)"),
    "a point on the earth": (columns(column("x", "geometry(4326)")), UnsupportedFeatureError, "geometry"),
    "a user's type": (columns(column("x", {"type": "udt"})), UnsupportedFeatureError, "`udt`"),
    "a list of nothing": (columns(column("x", {"type": "array"})), CorruptLogError, "`elementType`"),
    "a map without keys": (columns(column("x", {"type": "map"})), CorruptLogError, "`keyType`"),
    "a column without a name": (columns({"type": "long"}), CorruptLogError, "without a name"),
    "a column without a type": (columns({"name": "x"}), CorruptLogError, "without a type"),
    "a column with an empty name": (columns(X, column("", "long")), CorruptLogError, "empty name"),
    "a column with a NUL": (columns(X, column("a\0b", "long")), CorruptLogError, "NUL"),
    "columns that differ by case": (columns(X, column("X", "long")), CorruptLogError, "`x` and `X`"),
    "fields that differ by case": (
        columns(X, column("s", {"type": "struct", "fields": [X, column("X", "long")]})),
        CorruptLogError,
        "`x` and `X`",
    ),
    "a partition column that isn't there": (put("metaData", partitionColumns=["q"]), CorruptLogError, "`q`"),
    "a partition column twice": (put("metaData", partitionColumns=["p", "P"]), CorruptLogError, "`P` twice"),
    "partition columns as text": (put("metaData", partitionColumns="p"), CorruptLogError, "sequence"),
    "a property that isn't text": (put("metaData", configuration={"a": True}), CorruptLogError, "boolean"),
    # P110: column mapping
    "an unknown mapping": (
        both(protocol(2, 5), configured(columnMapping_mode="magic")),
        UnsupportedFeatureError,
        "columnMapping.mode.*`magic`",
    ),
    "a mapping without names": (
        both(protocol(2, 5), configured(columnMapping_mode="name")),
        CorruptLogError,
        "`x` has no physical name",
    ),
    # P020, P025: other actions
    "two actions in a line": (
        added(txn={"appId": "a", "version": 1}, remove={"path": "x", "dataChange": True}),
        CorruptLogError,
        "more than one action",
    ),
    "a transaction without version": (added(txn={"appId": "a"}), CorruptLogError, "version"),
    "a transaction of a number": (added(txn={"appId": 5, "version": 1}), CorruptLogError, "expected a string"),
    "a domain without configuration": (added(domainMetadata={"domain": "d"}), CorruptLogError, "configuration"),
}

# Fault → (the change, the error of reading the rows of a table that opens).
READING: dict[str, tuple[Change, type[DeltaError], str]] = {
    # P020-P022, P031: files
    **{
        f"a file without {member}": (put("add", **{member: ...}), CorruptLogError, member)
        for member in ("path", "partitionValues", "size", "modificationTime", "dataChange")
    },
    "a file without a name": (put("add", path=""), CorruptLogError, "empty"),
    "a file above the table": (put("add", path="../../etc/passwd"), CorruptLogError, r"'\.\.'"),
    "a file above the table, escaped": (put("add", path="%2e%2e/x"), CorruptLogError, r"'\.\.'"),
    "a file with a NUL": (put("add", path="a%00b"), CorruptLogError, "NUL"),
    "a file whose name is no text": (put("add", path="%ff%fe"), CorruptLogError, "UTF-8"),
    "a file in no store": (put("add", path="nosuch://x/y"), InvalidArgumentError, "nosuch://"),
    "a file that isn't there": (put("add", path="gone.parquet"), FileMissingError, "gone.parquet"),
    **{
        f"a file outside the table, {path}": (
            put("add", path=path),
            InvalidArgumentError,
            r"outside the table.*allow_external_files=/",
        )
        for path in ("/etc/passwd", "file:/etc/passwd", "file:///etc/passwd", "FILE:///etc/pa%73swd", "//etc/passwd")
    },
    "a file in another kind of store": (
        put("add", path="s3://bucket/f"),
        InvalidArgumentError,
        "another kind of store",
    ),
    "a size as text": (put("add", size="9"), CorruptLogError, "expected i64"),
    "a size out of range": (put("add", size=LONG), CorruptLogError, "expected i64"),
    "values that aren't text": (put("add", partitionValues={"p": 5}), CorruptLogError, "expected a string"),
    "values that aren't a map": (put("add", partitionValues=[]), CorruptLogError, "map"),
    "statistics that aren't text": (put("add", stats=5), CorruptLogError, "expected a string"),
    "a row id as text": (put("add", baseRowId="x"), CorruptLogError, "expected i64"),
    "a removal without path": (added(remove={"dataChange": True}), CorruptLogError, "path"),
    "a change file without path": (added(cdc={"size": 1}), CorruptLogError, "path"),
    # P170: partition values
    **{
        f"a text as {kind}": (
            put("metaData", schemaString=json.dumps({"type": "struct", "fields": [X, column("p", kind)]})),
            CorruptLogError,
            f"DELTA_FAILED_CAST_PARTITION_VALUE.*`p`.*{kind.split('(')[0]}",
        )
        for kind in ("integer", "byte", "date", "timestamp", "timestamp_ntz", "boolean", "double", "decimal(3,1)")
    },
    # P182: columns of other types than the table's
    "a column of another type": (columns(column("x", "date")), CorruptFileError, "`x` is of type date.*Int64"),
    # P120, P125: deletion vectors
    "a vector stored nowhere": (vector(storageType="x"), UnsupportedFeatureError, '"x"'),
    "a vector that is a number": (put("add", deletionVector=5), CorruptLogError, "DeletionVector"),
    "a vector without place": (vector(pathOrInlineDv=None), CorruptLogError, "expected a string"),
    "a vector of bad text": (vector(storageType="i", pathOrInlineDv="!!!"), CorruptFileError, "multiple of 5"),
    "an empty vector": (vector(storageType="i", pathOrInlineDv="", sizeInBytes=0), CorruptFileError, "end too early"),
    "a vector without magic": (vector(storageType="i", pathOrInlineDv="0" * 50), CorruptFileError, "magic"),
    "a vector of an endless size": (
        vector(storageType="i", pathOrInlineDv="0" * 20, sizeInBytes=10**9),
        CorruptFileError,
        "size mismatch",
    ),
    "a vector with a short name": (vector(pathOrInlineDv="short"), CorruptFileError, "shorter than 20"),
    "a vector whose file is gone": (vector(), FileMissingError, "deletion_vector_"),
    "a vector above the table": (vector(pathOrInlineDv="../x^-aqEH.-t@S}K{vb[*k^"), CorruptLogError, r"'\.\.'"),
    "a vector outside the table": (
        vector(storageType="p", pathOrInlineDv="file:///etc/passwd"),
        InvalidArgumentError,
        "outside the table.*/etc",
    ),
    "a vector before its file": (vector(offset=-5), CorruptFileError, "offset"),
    "a vector of negative size": (vector(sizeInBytes=-40), CorruptFileError, "-40"),
}

# Fault → (the change, the error of appending to a table that can be read).
WRITING: dict[str, tuple[Change, type[DeltaError], str]] = {
    # P091, P092, P098: the protocol's features
    "a future writer": (protocol(1, 8), UnsupportedFeatureError, "writer version 8"),
    "a writer's feature that nobody knows": (features("flying"), UnsupportedFeatureError, "flying"),
    "a coordinator": (
        features("coordinatedCommits-preview", "inCommitTimestamp", "vacuumProtocolCheck"),
        DeltaError,
        "coordinatedCommits|vacuumProtocolCheck",
    ),
    "a redirect": (features("redirectWriterOnly-preview"), UnsupportedFeatureError, "redirectWriterOnly-preview"),
    "clustering without domains": (features("clustering"), CorruptLogError, "clustering without domainMetadata"),
    "row ids without domains": (features("rowTracking"), CorruptLogError, "rowTracking without domainMetadata"),
    "Iceberg without mapping": (features("icebergCompatV1"), CorruptLogError, "icebergCompatV1 without columnMapping"),
    "a reader's feature for writers only": (features("deletionVectors"), CorruptLogError, "deletionVectors"),
    "a writer's feature for readers": (
        protocol(3, 7, readers=["appendOnly"], writers=["appendOnly"]),
        CorruptLogError,
        "appendOnly for readers",
    ),
    # P101, P103-P105, P107, P108: rules for rows
    "half a constraint": (configured(constraints_c="x >"), InvalidArgumentError, "x >"),
    "a constraint on no column": (configured(constraints_c="nope > 1"), InvalidArgumentError, "`nope`"),
    "a constraint by an unknown function": (configured(constraints_c="f(x) > 1"), UnsupportedExpressionError, "`f`"),
    **{
        f"{what} of {value!r}": (
            both(features(feature), columns(X, column("g", "long", **{key: value}))),
            error,
            says,
        )
        for what, feature, key, value, error, says in (
            ("an invariant", "invariants", "delta.invariants", 5, UnsupportedFeatureError, "`g`"),
            ("an invariant", "invariants", "delta.invariants", "g > 1", UnsupportedFeatureError, "`g`"),
            ("an invariant", "invariants", "delta.invariants", '{"rule":1}', UnsupportedFeatureError, "`g`"),
            ("a generation", "generatedColumns", "delta.generationExpression", 5, UnsupportedFeatureError, "`g` is 5"),
            ("a generation", "generatedColumns", "delta.generationExpression", "x +", InvalidArgumentError, "x +"),
            ("a generation", "generatedColumns", "delta.generationExpression", "y", InvalidArgumentError, "`y`"),
            ("a generation", "generatedColumns", "delta.generationExpression", "rand()", DeltaError, "rand"),
            ("a default", "allowColumnDefaults", "CURRENT_DEFAULT", [1], UnsupportedFeatureError, "`g`"),
            ("a default", "allowColumnDefaults", "CURRENT_DEFAULT", "1 +", InvalidArgumentError, "1 +"),
            ("a default", "allowColumnDefaults", "CURRENT_DEFAULT", "x", InvalidArgumentError, "`x`"),
            ("a default", "allowColumnDefaults", "CURRENT_DEFAULT", "'t'", DeltaError, "CAST_INVALID_INPUT|`g`"),
        )
    },
    **{
        f"a series {why}": (
            both(
                features("identityColumns"),
                columns(X, column("g", "long", **{f"delta.identity.{key}": value for key, value in series.items()})),
            ),
            error,
            "`g`",
        )
        for why, series, error in (
            ("without step", {"start": 1}, UnsupportedFeatureError),
            ("of step 0", {"start": 1, "step": 0, "allowExplicitInsert": False}, UnsupportedFeatureError),
            ("from a text", {"start": "a", "step": 1, "allowExplicitInsert": False}, UnsupportedFeatureError),
            (
                "at its end",
                {"start": 1, "step": 1, "highWaterMark": 2**63 - 1, "allowExplicitInsert": False},
                ConstraintViolationError,
            ),
        )
    },
    # P190: properties that another program stored
    **{
        f"{key} = {value}": (configured(**{key: value}), InvalidArgumentError, f"`{value}`.*unset_table_properties")
        for key, value in (
            ("appendOnly", "maybe"),
            ("enableDeletionVectors", "2"),
            ("enableChangeDataFeed", ""),
            ("checkpointInterval", "0"),
            ("checkpointInterval", "often"),
            ("dataSkippingNumIndexedCols", "-7"),
            ("logRetentionDuration", "forever"),
            ("deletedFileRetentionDuration", "interval 1 month"),
            ("setTransactionRetentionDuration", "interval -1 days"),
        )
    },
    "a codec that nobody knows": (configured(parquet_compression_codec="brotli9"), InvalidArgumentError, "brotli9"),
}


@pytest.mark.parametrize("case", OPENING)
def test_refused_when_opened(case: str, spoilt: Callable[[Change], Path]) -> None:
    change, error, says = OPENING[case]
    path = spoilt(change)
    for attempt in (DeltaTable, lambda p: write_deltalake(p, MORE, mode="append")):
        with pytest.raises(error, match=f"(?s){says}"):
            attempt(path)
    assert not (path / "_delta_log" / f"{1:020}.json").exists()


@pytest.mark.parametrize("case", READING)
def test_refused_when_read(case: str, spoilt: Callable[[Change], Path]) -> None:
    change, error, says = READING[case]
    table = DeltaTable(spoilt(change))
    with pytest.raises(error, match=f"(?s){says}"):
        table.to_pyarrow_table()


@pytest.mark.parametrize("case", WRITING)
def test_refused_when_written(case: str, spoilt: Callable[[Change], Path]) -> None:
    change, error, says = WRITING[case]
    path = spoilt(change)
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2
    with pytest.raises(error, match=f"(?s){says}"):
        write_deltalake(path, MORE, mode="append")
    assert DeltaTable(path).version() == 0


def test_what_lies_outside_is_read_where_it_is_allowed(good: Path, spoilt: Callable[[Change], Path]) -> None:
    """A shallow clone's files are another table's (P022): the option allows those, and no
    others."""
    data = next(good.rglob("*.parquet"))
    path = spoilt(put("add", path=data.as_uri()))
    for allowed in (str(good), f"/nowhere, {good.as_uri()}", str(good.parent)):
        table = DeltaTable(path, storage_options={"allow_external_files": allowed})
        assert table.to_pyarrow_table().num_rows == 2
        assert table.delete("x >= 0")["num_removed_files"] > 0
        assert data.is_file()
        (path / "_delta_log" / f"{1:020}.json").unlink()
    for allowed in ("", "/etc", f"{good}/p=x", f"{good}x"):
        with pytest.raises(InvalidArgumentError, match="outside the table"):
            DeltaTable(path, storage_options={"allow_external_files": allowed}).to_pyarrow_table()


def test_a_stored_property_can_be_set_right(spoilt: Callable[[Change], Path]) -> None:
    table = DeltaTable(spoilt(configured(appendOnly="maybe", checkpointInterval="often")))
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    table.alter.unset_table_properties("delta.checkpointInterval")
    write_deltalake(table.location, MORE, mode="append")
    assert DeltaTable(table.location).count() == 3


@pytest.mark.parametrize(
    "change",
    [
        # P020: unknown members and actions, nulls, blank members of the metadata
        added(future={"x": 1}),
        put("add", future={"x": 1}, tags=None),
        put("metaData", future=1, name=None, description=None),
        added(txn=None),
        # P165: statistics that can't be read keep the file
        put("add", stats="{"),
        put("add", stats='{"numRecords":"x","minValues":[]}'),
        put("add", stats=None),
        # P091: features that only writers must support
        features("flying"),
        # P041: the same file once more
        lambda actions: actions.append({"add": copy.deepcopy(action_of(actions, "add"))}),
        added(remove={"path": "nothere", "dataChange": True}),
        added(sidecar={"path": "x", "sizeInBytes": 1, "modificationTime": 1}),
    ],
)
def test_read_all_the_same(change: Change, spoilt: Callable[[Change], Path]) -> None:
    assert DeltaTable(spoilt(change)).to_pyarrow_table().sort_by("x").select(["x", "p"]) == ROWS


# --- damaged files ----------------------------------------------------------------------------------------------------


def test_damaged_bytes_end_in_an_error_or_in_rows(good: Path, tmp_path: Path) -> None:
    """Data files, checkpoints and hints with changed bytes yield typed errors or rows, never a
    panic or a crash."""
    path = tmp_path / "t"
    shutil.copytree(good, path)
    log = path / "_delta_log"
    DeltaTable(path).create_checkpoint()
    (log / f"{0:020}.json").unlink()
    data = next(path.rglob("*.parquet"))
    chance = random.Random(20260101)
    seen = {"rows": 0, "errors": 0}
    for file in (data, log / f"{0:020}.checkpoint.parquet", log / "_last_checkpoint"):
        sound = file.read_bytes()
        for _ in range(60):
            damaged = bytearray(sound)
            for _ in range(chance.choice((1, 3))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            if chance.random() < 0.2:
                del damaged[chance.randrange(len(damaged)) :]
            file.write_bytes(bytes(damaged))
            try:
                DeltaTable(path).to_pyarrow_table()
                seen["rows"] += 1
            except DeltaError as e:
                if e.kind == "Internal":
                    raise
                seen["errors"] += 1
        file.write_bytes(sound)
    assert DeltaTable(path).to_pyarrow_table().num_rows == 2
    assert min(seen.values()) > 0


@pytest.mark.parametrize(
    "columns",
    [
        {"x": [1]},
        {"add": ["text"]},
        {"add": [{"path": "x"}]},
        {"protocol": ["text"], "metaData": ["text"]},
        {"protocol": [{"minReaderVersion": 1, "minWriterVersion": 2}]},
        {"protocol": [None], "metaData": [{"id": "x"}]},
    ],
)
def test_a_file_without_state_is_no_checkpoint(columns: dict[str, list[Any]], good: Path, tmp_path: Path) -> None:
    """P010, P050: the checkpoint is neither taken for a table without files nor a hindrance to the
    commits, which contain the same state."""
    path = tmp_path / "t"
    shutil.copytree(good, path)
    write_deltalake(path, MORE, mode="append")
    log = path / "_delta_log"
    pq.write_table(pa.table(columns), log / f"{1:020}.checkpoint.parquet")
    assert DeltaTable(path).to_pyarrow_table().num_rows == 3
    (log / f"{0:020}.json").unlink()
    with pytest.raises((CorruptLogError, CorruptFileError), match="checkpoint"):
        DeltaTable(path).to_pyarrow_table()
