"""The hostile tables: each made to exhaust, overflow, confuse or mislead a reader, from one small
sound table.

Independent of the actions that use them.
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltaplane import DeltaTable, write_deltalake

Action = dict[str, Any]
DEEP = "[" * 100_000 + "]" * 100_000
MOST, LEAST = 2**63 - 1, -(2**63)
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def action_of(actions: list[Action], kind: str) -> Action:
    action: Action = next(a[kind] for a in actions if kind in a)
    return action


def lines(actions: list[Action]) -> str:
    return "".join(json.dumps(action) + "\n" for action in actions)


Change = Callable[[list[Action]], str | None]


def put(kind: str, **members: Any) -> Change:
    return lambda actions: action_of(actions, kind).update(members)


def text(before: str, after: str) -> Change:
    return lambda actions: lines(actions).replace(before, after)


def behind(line: str) -> Change:
    return lambda actions: f"{lines(actions)}{line}\n"


def z85(data: bytes) -> str:
    data += b"\0" * (-len(data) % 4)
    out = ""
    for offset in range(0, len(data), 4):
        word, block = int.from_bytes(data[offset : offset + 4], "big"), ""
        for _ in range(5):
            word, digit = divmod(word, 85)
            block = Z85[digit] + block
        out += block
    return out


def vector(bitmaps: list[tuple[int, bytes]], cardinality: int, claimed: int | None = None) -> Change:
    """A file with an inline vector of these 32-bit bitmaps, and statistics without a number of
    rows."""
    count = len(bitmaps) if claimed is None else claimed
    data = struct.pack("<IQ", 1681511377, count) + b"".join(struct.pack("<I", key) + body for key, body in bitmaps)

    def change(actions: list[Action]) -> None:
        lists = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors", "changeDataFeed"]}
        action_of(actions, "protocol").update(minReaderVersion=3, minWriterVersion=7, **lists)
        described = {
            "storageType": "i",
            "pathOrInlineDv": z85(data),
            "sizeInBytes": len(data),
            "cardinality": cardinality,
        }
        action_of(actions, "add").update(deletionVector=described, stats="{}")

    return change


def single(high: int, low: int) -> bytes:
    """A bitmap of one row."""
    return struct.pack("<IIHHIH", 12346, 1, high, 0, 16, low)


def full(containers: int) -> bytes:
    """A bitmap of runs: six bytes for each 65,536 rows."""
    head = struct.pack("<I", 12347 | (containers - 1) << 16) + b"\xff" * ((containers + 7) // 8)
    head += b"".join(struct.pack("<HH", n, 65535) for n in range(containers))
    first = len(head) + 4 * containers
    head += b"".join(struct.pack("<I", first + n * 6) for n in range(containers))
    return head + struct.pack("<HHH", 1, 0, 65535) * containers


def row_ids(last: int) -> Change:
    def change(actions: list[Action]) -> None:
        features = ["rowTracking", "domainMetadata", "changeDataFeed"]
        action_of(actions, "protocol").update(minReaderVersion=1, minWriterVersion=7, writerFeatures=features)
        names = {"RowId": "ids", "RowCommitVersion": "versions"}
        properties = {f"delta.rowTracking.materialized{name}ColumnName": column for name, column in names.items()}
        action_of(actions, "metaData")["configuration"] = {"delta.enableRowTracking": "true", **properties}
        for action in actions:
            if "add" in action:
                action["add"].update(baseRowId=last, defaultRowCommitVersion=last)
        mark = json.dumps({"rowIdHighWaterMark": last})
        actions.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}})

    return change


def extremes(value: int) -> Change:
    """Every number of the log at an extreme of its type."""

    def change(actions: list[Action]) -> None:
        stats = {"numRecords": value, **{part: {"x": value} for part in ("minValues", "maxValues", "nullCount")}}
        action_of(actions, "add").update(size=value, modificationTime=value, stats=json.dumps(stats))
        action_of(actions, "commitInfo").update(timestamp=value)
        action_of(actions, "metaData").update(createdTime=value)
        actions.append({"txn": {"appId": "a", "version": value, "lastUpdated": value}})
        actions.append({"remove": {"path": "gone", "dataChange": True, "deletionTimestamp": value, "size": value}})

    return change


def partition(kind: str, value: str) -> Change:
    fields = [{"name": name, "type": t, "nullable": True, "metadata": {}} for name, t in (("x", "long"), ("p", kind))]

    def change(actions: list[Action]) -> None:
        action_of(actions, "metaData")["schemaString"] = json.dumps({"type": "struct", "fields": fields})
        for action in actions:
            if "add" in action:
                action["add"]["partitionValues"] = {"p": value}

    return change


# Name → the change of the one commit of a small table.
COMMITS: dict[str, Change] = {
    # deep and endless
    "an unknown action, deep": behind(f'{{"future":{DEEP}}}'),
    "an unknown member, deep": text('"dataChange"', f'"future":{DEEP},"dataChange"'),
    "brackets without end": behind('{"future":' + "[" * (16 << 20)),
    "objects without end": behind('{"a":' * 200_000),
    "deep statistics": put("add", stats=DEEP),
    "a deep operation": text('"engineInfo"', f'"operationParameters":{DEEP},"engineInfo"'),
    "a path of megabytes": put("add", path="x" * (8 << 20)),
    "a schema of many levels": put(
        "metaData", schemaString='{"type":"array","containsNull":true,"elementType":' * 10_000 + '"long"' + "}" * 10_000
    ),
    # texts
    "a key twice": text('"add": {', '"add": {"path":"other",'),
    "half a character": text('"add": {"path": "', '"add": {"path": "\\ud800'),
    "a NUL in a name": text('"add": {"path": "', '"add": {"path": "\\u0000'),
    # numbers
    "the greatest numbers": extremes(MOST),
    "the least numbers": extremes(LEAST),
    "minus one": extremes(-1),
    "the last row ids": row_ids(MOST),
    "the first row ids": row_ids(LEAST),
    "a retention beyond time": put("metaData", configuration={"delta.logRetentionDuration": f"interval {MOST} weeks"}),
    "a date beyond time": partition("date", "999999999-12-31"),
    "a decimal of many digits": partition("decimal(38,0)", "9" * 100_000),
    "a decimal of a far exponent": partition("decimal(38,0)", "1e1000000000"),
    "bytes that are no text": partition("binary", "\\u00ff\\u00fe"),
    "a number that is none": put("add", stats='{"numRecords":1e400,"minValues":{"x":1e400}}'),
    # vectors
    "a row far away": vector([(2**31 - 1, single(65535, 65535))], 1),
    "rows that a few bytes claim": vector([(key, full(4096)) for key in range(8)], 8 * 4096 * 65536),
    "bitmaps that aren't there": vector([(0, single(0, 0))], MOST, claimed=2**63),
}

# --- files of the table and its log ---

Spoil = Callable[[Path], None]


def log_file(table: Path, name: str) -> Path:
    return table / "_delta_log" / name


def commit(version: int) -> str:
    return f"{version:020}.json"


def data_file(table: Path) -> Path:
    return next(table.glob("p=a/*.parquet"))


def written(name: str, data: bytes | str) -> Spoil:
    """A log file with this content."""
    return lambda table: void(log_file(table, name).write_bytes(data.encode() if isinstance(data, str) else data))


def void(_: object) -> None:
    """For lambdas whose value is ignored."""


def sparse(name: str, size: int) -> Spoil:
    def spoil(table: Path) -> None:
        with log_file(table, name).open("wb") as file:
            file.truncate(size)

    return spoil


def directory(name: str) -> Spoil:
    def spoil(table: Path) -> None:
        path = log_file(table, name)
        path.unlink(missing_ok=True)
        path.mkdir()

    return spoil


def link_to_itself(name: str) -> Spoil:
    def spoil(table: Path) -> None:
        path = log_file(table, name)
        path.unlink(missing_ok=True)
        path.symlink_to(path.name)

    return spoil


def many(names: Callable[[int], str], count: int) -> Spoil:
    def spoil(table: Path) -> None:
        for n in range(count):
            log_file(table, names(n)).touch()

    return spoil


def data(change: Callable[[bytes], bytes]) -> Spoil:
    """The data file with other bytes, and the matching size in the log."""

    def spoil(table: Path) -> None:
        file = data_file(table)
        new = change(file.read_bytes())
        file.unlink()
        file.write_bytes(new)
        path = log_file(table, commit(0))
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            if action.get("add", {}).get("path", "").startswith("p=a/"):
                action["add"].update(size=len(new), stats="{}")
        path.write_text(lines(actions))

    return spoil


def log_as_file(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").touch()


def log_as_link(table: Path) -> None:
    shutil.rmtree(table / "_delta_log")
    (table / "_delta_log").symlink_to("_delta_log")


def data_as_directory(table: Path) -> None:
    file = data_file(table)
    file.unlink()
    file.mkdir()


def varint(n: int) -> bytes:
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def claims(rows: int) -> Callable[[bytes], bytes]:
    """A Parquet file of one row whose footer claims `rows` rows everywhere."""

    def change(file: bytes) -> bytes:
        length = int.from_bytes(file[-8:-4], "little")
        body, footer = file[: -8 - length], file[-8 - length : -8]
        # A long of Thrift's compact protocol behind the field before: 1.
        footer = footer.replace(b"\x16\x02", b"\x16" + varint((rows << 1 ^ rows >> 63) & (1 << 64) - 1))
        return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"

    return change


def parquet(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    return bytes(sink.getvalue())


def with_checkpoint(change: Callable[[pa.Table], pa.Table], commits: bool) -> Spoil:
    """A table with a changed checkpoint; without the earlier commits it is the only source."""

    def spoil(table: Path) -> None:
        DeltaTable(str(table)).create_checkpoint()
        path = log_file(table, f"{0:020}.checkpoint.parquet")
        changed = change(pq.read_table(path))
        path.unlink()
        pq.write_table(changed, path, compression="zstd", use_dictionary=False)
        if not commits:
            log_file(table, commit(0)).unlink()

    return spoil


def bomb(column: str, member: str, size: int) -> Callable[[pa.Table], pa.Table]:
    """A checkpoint with one text of `size` bytes, which compresses to few bytes in the file."""

    def change(checkpoint: pa.Table) -> pa.Table:
        rows = checkpoint[column].to_pylist()
        for row in rows:
            if row is not None:
                row[member] = "a" * size
        index = checkpoint.schema.get_field_index(column)
        return checkpoint.set_column(index, column, pa.array(rows, checkpoint.schema.field(column).type))

    return change


def page_claims(file: bytes, size: int) -> bytes:
    """The file with the decompressed sizes of pages of more than 2**27 bytes changed to `size`
    bytes (an int)."""
    # From 2**27 on such a number has five bytes, like the largest one: no other byte of the file
    # moves.
    number = varint((size << 1 ^ size >> 31) & (1 << 32) - 1)
    number = number if len(number) == 5 else padded(number)
    footer = pq.ParquetFile(pa.BufferReader(file)).metadata
    groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
    starts = [group.column(n).data_page_offset for group in groups for n in range(group.num_columns)]
    for start in starts:
        # A page's kind, then this number, each behind a byte for the field.
        offset = start + 3
        if (
            file[start : start + 3 : 2] == b"\x15\x15"
            and min(file[offset : offset + 4]) > 127
            and 0 < file[offset + 4] < 128
        ):
            file = file[:offset] + number + file[offset + 5 :]
    return file


def padded(number: bytes) -> bytes:
    """The same Thrift number in five bytes."""
    return bytes(b | 128 for b in number) + b"\x80" * (4 - len(number)) + b"\0"


def long_page_claims(size: int) -> Callable[[bytes], bytes]:
    """A data file of one long text whose page claims `size` bytes."""

    def change(_: bytes) -> bytes:
        long = pa.table({"x": ["a" * (135 << 20)]})
        return page_claims(parquet(long, compression="zstd", use_dictionary=False, write_statistics=False), size)

    return change


def checkpoint_page_claims(size: int) -> Spoil:
    whole = with_checkpoint(bomb("add", "path", 135 << 20), commits=False)

    def spoil(table: Path) -> None:
        whole(table)
        path = log_file(table, f"{0:020}.checkpoint.parquet")
        before = path.read_bytes()
        after = page_claims(before, size)
        assert before != after
        path.write_bytes(after)

    return spoil


def retyped(column: str) -> Callable[[pa.Table], pa.Table]:
    """A checkpoint in which every member of an action is an integer."""

    def change(checkpoint: pa.Table) -> pa.Table:
        rows = [None if r is None else dict.fromkeys(r, 1) for r in checkpoint[column].to_pylist()]
        return checkpoint.set_column(checkpoint.schema.get_field_index(column), column, pa.array(rows))

    return change


def at_last_version(table: Path) -> None:
    """A table whose state is in a checkpoint of the largest possible version."""
    DeltaTable(str(table)).create_checkpoint()
    checkpoint = log_file(table, f"{0:020}.checkpoint.parquet")
    checkpoint.rename(log_file(table, f"{MOST}.checkpoint.parquet".rjust(39, "0")))
    log_file(table, commit(0)).rename(log_file(table, f"{MOST:020}.json"))
    log_file(table, "_last_checkpoint").unlink()


def sidecar(path: str) -> Spoil:
    """A V2 checkpoint whose manifest names the sidecar of another table, which is sound."""

    def spoil(table: Path) -> None:
        other = table.parent / "elsewhere"
        if not other.exists():
            write_deltalake(
                other, pa.table({"x": [9], "p": ["secret"]}), configuration={"delta.checkpointPolicy": "v2"}
            )
            DeltaTable(str(other)).create_checkpoint()
        (sidecar,) = (other / "_delta_log" / "_sidecars").iterdir()
        actions = [json.loads(line) for line in log_file(table, commit(0)).read_text().splitlines()]
        lists = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint", "changeDataFeed"]}
        named = {"path": path.format(root=table.parent, name=sidecar.name), "sizeInBytes": 1, "modificationTime": 1}
        manifest = [
            {"checkpointMetadata": {"version": 0}},
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}},
            {"metaData": action_of(actions, "metaData")},
            {"sidecar": {**named, "sizeInBytes": sidecar.stat().st_size}},
        ]
        top = log_file(table, f"{0:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json")
        top.write_text(lines(manifest))
        log_file(table, commit(0)).write_text("")

    return spoil


def escape(path: str) -> Spoil:
    """A table that names a data file of another one."""

    def spoil(table: Path) -> None:
        other = table.parent / "stranger"
        if not other.exists():
            other.mkdir()
            pq.write_table(pa.table({"x": [9]}), other / "f.parquet")
        path_of = log_file(table, commit(0))
        actions = [json.loads(line) for line in path_of.read_text().splitlines()]
        action_of(actions, "add")["path"] = path.format(root=table.parent)
        path_of.write_text(lines(actions))

    return spoil


# The rows of files outside of the table must not be read.
ESCAPES: dict[str, Spoil] = {
    f"a path elsewhere, {path}": escape(path)
    for path in (
        "../stranger/f.parquet",
        "p=a/../../stranger/f.parquet",
        "%2e%2e/stranger/f.parquet",
        "..%2fstranger/f.parquet",
        "%252e%252e/stranger/f.parquet",
        "{root}/stranger/f.parquet",
        "file:{root}/stranger/f.parquet",
        "file://{root}/stranger/f.parquet",
        "FILE://localhost{root}/stranger/f.parquet",
        "{root}/0/../stranger/f.parquet",
        "http://127.0.0.1:1/f.parquet",
        "s3://stranger/f.parquet",
        "%00",
        "",
    )
} | {
    f"a sidecar elsewhere, {path}": sidecar(path)
    for path in (
        "../../../elsewhere/_delta_log/_sidecars/{name}",
        "%2e%2e/%2e%2e/%2e%2e/elsewhere/_delta_log/_sidecars/{name}",
        "{root}/elsewhere/_delta_log/_sidecars/{name}",
        "file://{root}/elsewhere/_delta_log/_sidecars/{name}",
    )
}

HINT = "_last_checkpoint"
FILES: dict[str, Spoil] = {
    # names
    "a version beyond all": written("18446744073709551615.json", "{}\n"),
    "a checkpoint beyond all": written("18446744073709551615.checkpoint.parquet", "PAR1"),
    "the last version after a gap": written(f"{MOST:020}.json", "{}\n"),
    "a table at the last version": at_last_version,
    "a compaction of all versions": written(f"{0:020}.{MOST:020}.compacted.json", "{}\n"),
    # the hint
    "a hint of a billion parts": written(HINT, '{"version":0,"size":1,"parts":1000000000}'),
    "a hint of more parts than numbers": written(HINT, '{"version":0,"size":1,"parts":1e400}'),
    "a hint beyond all versions": written(HINT, f'{{"version":{2**64 - 1},"size":{MOST}}}'),
    "a hint of the last version": written(HINT, f'{{"version":{MOST},"size":-1}}'),
    "a deep hint": written(HINT, f'{{"version":0,"size":1,"checkpointSchema":{DEEP}}}'),
    "an empty hint": written(HINT, ""),
    "a hint that is none": written(HINT, b"\xff" * 1000),
    "a hint that is a directory": directory(HINT),
    "a hint that is a link to itself": link_to_itself(HINT),
    # checksums
    "a deep checksum": written(f"{0:020}.crc", f'{{"tableSizeBytes":{DEEP}}}'),
    "a checksum that is a directory": directory(f"{0:020}.crc"),
    # commits
    "an empty commit": written(commit(0), ""),
    "a commit of spaces": written(commit(1), " \n" * 500_000),
    "a commit that is a directory": directory(commit(1)),
    "a commit that is a link to itself": link_to_itself(commit(1)),
    "a first commit that is a directory": directory(commit(0)),
    "a log that is a file": log_as_file,
    "a log that is a link to itself": log_as_link,
    "a log inside of itself": lambda table: (table / "_delta_log" / "_sidecars").symlink_to("."),
    # checkpoints
    "a checkpoint of nothing": written(f"{0:020}.checkpoint.parquet", b"PAR1PAR1"),
    "a checkpoint that is a directory": directory(f"{0:020}.checkpoint.parquet"),
    "a checkpoint with an endless footer": written(f"{0:020}.checkpoint.parquet", b"PAR1" + b"\xff\xff\xff\x7fPAR1"),
    "a checkpoint with a long schema": with_checkpoint(bomb("metaData", "schemaString", 130 << 20), commits=False),
    "a checkpoint with a long path": with_checkpoint(bomb("add", "path", 130 << 20), commits=False),
    "a checkpoint with long statistics": with_checkpoint(bomb("add", "stats", 130 << 20), commits=True),
    **{f"a checkpoint whose page claims {n} bytes": checkpoint_page_claims(n) for n in (2**31 - 1, -1)},
    **{
        f"a checkpoint whose {column} has other types": with_checkpoint(retyped(column), commits=False)
        for column in ("add", "metaData", "protocol", "domainMetadata")
    },
    # data files
    "a data file of nothing": data(lambda _: b""),
    "a data file that is cut": data(lambda file: file[: len(file) // 2]),
    "a data file with an endless footer": data(lambda file: file[:-8] + b"\xff\xff\xff\x7fPAR1"),
    **{f"a data file that claims {n} rows": data(claims(n)) for n in (2**31, 2**33 + 1, MOST, -1, LEAST)},
    **{f"a data file whose page claims {n} bytes": data(long_page_claims(n)) for n in (2**31 - 1, -1)},
    "a data file of other columns": data(lambda _: parquet(pa.table({"y": [{"x": 1}]}))),
    "a data file that is a directory": data_as_directory,
}


def tables(root: Path, files_in_a_log: int, zeros: int) -> Iterator[tuple[str, Path, bool]]:
    """Every hostile table: its name, its path, and whether its rows must not be read."""
    good = root / "good"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(good, pa.table({"x": [1, 2], "p": ["a", "b"]}), partition_by=["p"], configuration=feed)
    for checksum in (good / "_delta_log").glob("*.crc"):
        checksum.unlink()

    def by_commit(change: Change) -> Spoil:
        def spoil(table: Path) -> None:
            path = log_file(table, commit(0))
            actions = [json.loads(line) for line in path.read_text().splitlines()]
            path.write_text(change(actions) or lines(actions))

        return spoil

    of_many: dict[str, Spoil] = {
        "a log of files that mean nothing": many(lambda n: f"{n:020}.json.tmp", files_in_a_log),
        "a log of checksums": many(lambda n: f"{n + 1:020}.crc", files_in_a_log),
        "a commit of zeros": sparse(commit(1), zeros),
        "a checksum of zeros": sparse(f"{0:020}.crc", zeros),
        "a hint of zeros": sparse(HINT, zeros),
    }
    spoils = {name: by_commit(change) for name, change in COMMITS.items()} | FILES | of_many
    for number, (name, spoil) in enumerate((spoils | ESCAPES).items()):
        path = root / str(number)
        shutil.copytree(good, path)
        spoil(path)
        yield name, path, name in ESCAPES
