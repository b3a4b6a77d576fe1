"""Random logs without data files: commits, compactions and one checkpoint of any kind, for testing
reconciliation.

The same seed yields the same log. Foreign checkpoints are made from deltaplane's own by changing
columns and files. Uses no Spark.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from deltaplane import DeltaTable

Action = dict[str, Any]
# A file's key: its decoded path, and its vector's id, None for most files.
Live = dict[tuple[str, str | None], Action]

TEXTS = ["a", "b", "a/b %", "ä+ü", "", None]
PREDICATES = [
    "x > 50",
    "x < 10 OR s >= 'm'",
    "p IS NULL",
    "p = 'a/b %' AND x >= 0",
    "q IN (1, 3)",
    "q IS NOT NULL AND n.y < 0.5",
    "d BETWEEN '2024-01-05' AND '2024-01-20'",
    "s LIKE 'k%' OR p > 'a'",
    "x IS NULL",
]


class RandomLog:
    """A table's folder with a random log; `kind` selects the checkpoint."""

    def __init__(self, root: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._log = root / "_delta_log"
        self._log.mkdir(parents=True)
        self.path = str(root)
        self.kind = KINDS[seed % len(KINDS)]
        self._mapped = self._random.random() < 0.4
        self._partitions = self._random.choice([[], ["p"], ["p", "q"]])
        self._live: Live = {}
        self._gone: list[Action] = []
        self._files = 0
        self.version = -1
        self._head = self._make_head()
        self._commit(self._head)
        self._commits(self._random.randint(2, 8))
        CHECKPOINTS[self.kind](self)
        tail = self.version + 1
        self._commits(self._random.choice([0, 1, 6]))
        if self.version > tail and self._random.random() < 0.5:
            DeltaTable(self.path).compact_logs(tail, self._random.randint(tail + 1, self.version))

    # --- commits ---

    def _make_head(self) -> list[Action]:
        def field(name: str, kind: Any) -> Action:
            marks = {
                "delta.columnMapping.physicalName": self._name(name),
                "delta.columnMapping.id": len(name) + ord(name[0]),
            }
            return {"name": name, "type": kind, "nullable": True, "metadata": marks if self._mapped else {}}

        inner = {"type": "struct", "fields": [field("y", "double")]}
        types = {"x": "long", "s": "string", "d": "date", "n": inner, "p": "string", "q": "integer"}
        features = ["deletionVectors", "v2Checkpoint", *(["columnMapping"] if self._mapped else [])]
        configuration = {"delta.checkpointPolicy": "v2"} if self.kind == "own v2" else {}
        if self._mapped:
            configuration |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "200"}
        metadata = {
            "id": str(uuid.UUID(int=7)),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": [field(n, t) for n, t in types.items()]}),
            "partitionColumns": self._partitions,
            "configuration": configuration,
        }
        lists = {"readerFeatures": features, "writerFeatures": features}
        return [{"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **lists}}, {"metaData": metadata}]

    def _name(self, column: str) -> str:
        return f"col-{column}" if self._mapped else column

    def _commits(self, count: int) -> None:
        steps = [*[self._append] * 3, self._remove, self._mark, self._bring_back, self._contradict]
        for _ in range(count):
            chosen = self._random.choices(steps, k=self._random.randint(0, 8))
            self._commit([action for step in chosen for action in step()])

    def _commit(self, actions: list[Action]) -> None:
        self.version += 1
        lines = "".join(json.dumps(action) + "\n" for action in actions)
        (self._log / f"{self.version:020}.json").write_text(lines)

    def _append(self) -> Iterator[Action]:
        self._files += 1
        values = {
            "p": self._random.choice(TEXTS),
            "q": self._random.choice(["1", "2", "3", None]),
        }
        add = {
            # A name with escapes, and one that decodes to another percent sign.
            "path": f"{self._random.choice(['f', 'a b', '100%25', 'ü'])}-{self._files}.parquet",
            "partitionValues": {self._name(name): values[name] for name in self._partitions},
            "size": self._random.randint(0, 1 << 40),
            "modificationTime": 1_700_000_000_000 + self._files,
            "dataChange": True,
            "stats": self._stats(),
        }
        yield self._added(add)

    def _stats(self) -> str | None:
        kind = self._random.random()
        if kind < 0.2:
            return None
        if kind < 0.3:
            return json.dumps({"numRecords": 5})
        low, day = self._random.randint(-5, 90), dt.date(2024, 1, self._random.randint(1, 25))
        y, letter = self._random.random(), self._random.choice("bkm")
        least = {"x": low, "s": letter, "d": str(day), "n": {"y": y}}
        most = {"x": low + 9, "s": letter + "z", "d": str(day + dt.timedelta(3)), "n": {"y": y + 0.1}}
        for values in (least, most):
            values.pop(self._random.choice([*values, "none"]), None)
        nulls = {"x": self._random.choice([0, 5]), "s": 1}
        stats = {"numRecords": 5, "minValues": least, "maxValues": most, "nullCount": nulls}
        return json.dumps({key: self._by_files(part) for key, part in stats.items()})

    def _by_files(self, node: Any) -> Any:
        return {self._name(k): self._by_files(v) for k, v in node.items()} if isinstance(node, dict) else node

    def _added(self, add: Action) -> Action:
        self._live[_key(add)] = add
        return {"add": self._spelled(add)}

    def _removed(self, add: Action) -> Action:
        self._live.pop(_key(add), None)
        self._gone.append(add)
        vector = {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}
        remove = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, **vector}
        return {"remove": self._spelled(remove)}

    def _spelled(self, action: Action) -> Action:
        """The same file with another spelling of its path (P021)."""
        if self._random.random() < 0.7:
            return action
        return {**action, "path": action["path"].replace("-", quote("-").replace("-", "%2D"))}

    def _some_live(self) -> list[Action]:
        return self._random.sample(list(self._live.values()), min(1, len(self._live)))

    def _remove(self) -> Iterator[Action]:
        yield from map(self._removed, self._some_live())

    def _mark(self) -> Iterator[Action]:
        for add in self._some_live():
            yield self._removed(add)
            vector = {"storageType": self._random.choice("up"), "pathOrInlineDv": f"ab{self._random.randint(0, 3)}"}
            vector |= {"sizeInBytes": 4, "cardinality": 1}
            if self._random.random() < 0.7:
                vector["offset"] = self._random.randint(0, 1)
            yield self._added({**add, "deletionVector": vector})

    def _bring_back(self) -> Iterator[Action]:
        if self._gone:
            yield self._added(self._random.choice(self._gone))

    def _contradict(self) -> Iterator[Action]:
        """A file twice in one commit: both replays must interpret it alike."""
        if self._random.random() < 0.2:
            for add in self._some_live():
                yield {"remove": {"path": add["path"], "dataChange": True}}
                yield {"add": {**add, "size": 1}}
                yield {"add": {**add, "size": 2}}

    # --- checkpoints ---

    def _own(self) -> None:
        DeltaTable(self.path).create_checkpoint()

    def _of_own(self) -> pa.Table:
        """Replaces deltaplane's classic checkpoint; some of its files may occur twice in it, which
        is invalid."""
        self._own()
        path = self._log / f"{self.version:020}.checkpoint.parquet"
        table = pq.read_table(path)
        path.unlink()
        (self._log / "_last_checkpoint").unlink()
        table = table.replace_schema_metadata(None)
        if self._random.random() < 0.4:
            files = _actions(table)
            table = pa.concat_tables([table, files.take(self._random.sample(range(len(files)), len(files) // 2))])
        return table

    def _write(self, table: pa.Table, name: str) -> Path:
        path = self._log / name
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path, row_group_size=3)
        return path

    def _without(self, *members: str) -> None:
        self._write(_without(self._of_own(), members), f"{self.version:020}.checkpoint.parquet")

    def _multipart(self) -> None:
        rows = self._of_own()
        cuts = [0, rows.num_rows // 3, rows.num_rows // 2, rows.num_rows]
        for part in range(3):
            name = f"{self.version:020}.checkpoint.{part + 1:010}.{3:010}.parquet"
            self._write(rows.slice(cuts[part], cuts[part + 1] - cuts[part]), name)

    def _sidecars(self, rows: pa.Table) -> list[Action]:
        files = rows.select([name for name in ("add", "remove") if name in rows.column_names])
        named = []
        for first in range(0, files.num_rows, 4):
            name = f"{uuid.UUID(int=self._random.getrandbits(128))}.parquet"
            path = self._write(files.slice(first, 4), f"_sidecars/{name}")
            named.append({"path": name, "sizeInBytes": path.stat().st_size, "modificationTime": 1})
        return named

    def _v2_json(self, sidecars: bool = True) -> None:
        rows = _actions(self._of_own())
        lines = [{"checkpointMetadata": {"version": self.version}}, *self._head]
        if sidecars:
            lines += [{"sidecar": sidecar} for sidecar in self._sidecars(rows)]
        else:
            lines += [{"add": _plain(add)} for add in rows["add"].to_pylist() if add is not None]
        name = f"{self.version:020}.checkpoint.{uuid.UUID(int=self._random.getrandbits(128))}.json"
        (self._log / name).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _v2_parquet(self) -> None:
        rows = self._of_own()
        files = _actions(rows)
        # Some of the files are in the top-level file itself.
        inside = files.num_rows // 3
        sidecars = [{"sidecar": sidecar} for sidecar in self._sidecars(files.slice(inside))]
        version = {"checkpointMetadata": {"version": self.version}}
        others = pa.Table.from_pylist([version, *sidecars], _TOP)
        state = rows.filter(pa.array([a is not None or b is not None for a, b in _pairs(rows, "protocol", "metaData")]))
        top = pa.concat_tables([state, files.slice(0, inside), others], promote_options="default")
        self._write(top, f"{self.version:020}.checkpoint.{uuid.UUID(int=self._random.getrandbits(128))}.parquet")


_SIDECAR = pa.struct({"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64()})
_TOP = pa.schema({"checkpointMetadata": pa.struct({"version": pa.int64()}), "sidecar": _SIDECAR})


def _key(add: Action) -> tuple[str, str | None]:
    return add["path"], json.dumps(add.get("deletionVector"))


def _pairs(rows: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _actions(rows: pa.Table) -> pa.Table:
    """The file actions' rows."""
    names = [name for name in ("add", "remove") if name in rows.column_names]
    return rows.filter(pa.array([any(action is not None for action in some) for some in _pairs(rows, *names)]))


def _without(rows: pa.Table, members: tuple[str, ...]) -> pa.Table:
    """The rows without these members of the adds."""
    index = rows.schema.get_field_index("add")
    column = rows["add"].combine_chunks()
    fields = [f for f in column.type if f.name not in members]
    arrays = [column.field(f.name) for f in fields]
    made = pa.StructArray.from_arrays(arrays, fields=fields, mask=column.is_null())
    return rows.set_column(index, "add", made)


def _plain(add: Action) -> Action:
    """An add of a checkpoint in the form of a commit."""
    names = ("path", "partitionValues", "size", "modificationTime", "dataChange", "stats", "deletionVector")
    members = {name: add[name] for name in names if add.get(name) is not None}
    vector = members.get("deletionVector")
    if vector is not None:
        members["deletionVector"] = {k: v for k, v in vector.items() if v is not None}
    return {**members, "partitionValues": dict(members["partitionValues"])}


CHECKPOINTS: dict[str, Callable[[RandomLog], None]] = {
    "none": lambda log: None,
    "own": RandomLog._own,
    "own v2": RandomLog._own,
    "JSON statistics": lambda log: log._without("stats_parsed", "partitionValues_parsed"),
    "parsed statistics": lambda log: log._without("stats"),
    "parts": RandomLog._multipart,
    "V2, JSON": RandomLog._v2_json,
    "V2, JSON without sidecars": lambda log: log._v2_json(sidecars=False),
    "V2, Parquet": RandomLog._v2_parquet,
}
KINDS = list(CHECKPOINTS)
