"""Tables with one randomly damaged file: bytes changed, removed, duplicated, zeroed, or set to an
extreme of a type.

The seed identifies a case.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from deltaplane import DeltaTable, write_deltalake

EXTREMES = [b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\xff" * 3 + b"\x7f", b"\x00" * 8, b"\xff" * 7 + b"\x7f", b"\x80" * 10]
# Kinds of log files by name; the first match applies.
KINDS = {
    "sidecar": "_sidecars/",
    "compaction": ".compacted.json",
    "checkpoint": ".checkpoint.",
    "checksum": ".crc",
    "hint": "_last_checkpoint",
    "commit": ".json",
    "vector": "deletion_vector_",
    "change file": "_change_data/",
    "data file": ".parquet",
}


def kind_of(name: str) -> str:
    return next((kind for kind, part in KINDS.items() if part in name), "")


def make_sound(root: Path) -> list[Path]:
    """Two tables with every kind of file: one with a classic checkpoint, one with sidecars."""
    made = []
    for policy in ("classic", "v2"):
        path = root / policy
        settings = {"enableDeletionVectors": "true", "enableChangeDataFeed": "true", "checkpointPolicy": policy}
        configuration = {f"delta.{name}": value for name, value in settings.items()}
        for n in (0, 3):
            rows = pa.table({"x": [n, n + 1, n + 2], "p": ["a", "b", "b"], "s": [{"y": [n, None]}] * 3})
            write_deltalake(path, rows, mode="append", partition_by=["p"], configuration=None if n else configuration)
        DeltaTable(str(path)).delete("x = 1")
        DeltaTable(str(path)).create_checkpoint()
        DeltaTable(str(path)).update({"x": "x + 10"}, predicate="x = 2")
        write_deltalake(path, rows, mode="append")
        DeltaTable(str(path)).compact_logs(3, 4)
        made.append(path)
    return made


def damage(file: bytes, chance: random.Random) -> bytes:
    """A file with one to three changes, more often at its end, where Parquet has its footer."""
    out = bytearray(file)
    for _ in range(chance.randint(1, 3)):
        offset = chance.randrange(len(out) + 1)
        if chance.random() < 0.5:
            offset = max(0, len(out) - 1 - int(chance.expovariate(1 / 200)))
        length = chance.choice([1, 4, 8, 64, 1000])
        match chance.randrange(7):
            case 0 | 1:
                out[offset : offset + 1] = bytes([chance.randrange(256)])
            case 2:
                del out[offset : offset + length]
            case 3:
                out[offset:offset] = out[offset : offset + length]
            case 4:
                out[offset : offset + length] = bytes(min(length, len(out) - offset))
            case 5:
                extreme = chance.choice(EXTREMES)
                out[offset : offset + len(extreme)] = extreme
            case _:
                del out[offset:]
    return bytes(out)


def damaged(root: Path, seeds: range) -> Iterator[tuple[str, Path]]:
    """A table for each seed: a description of the damage, and its path."""
    sound = make_sound(root)
    files = [
        (table, candidates)
        for table in sound
        for kind in KINDS
        if (candidates := sorted(f for f in table.rglob("*") if f.is_file() and kind_of(str(f)) == kind))
    ]
    for seed in seeds:
        chance = random.Random(seed)
        table, candidates = files[seed % len(files)]
        file = chance.choice(candidates)
        path = root / f"damaged-{seed}"
        shutil.copytree(table, path)
        name = file.relative_to(table)
        (path / name).write_bytes(damage(file.read_bytes(), chance))
        # Some tables have no other source for the file's content.
        if chance.random() < 0.5:
            drop_others(path, kind_of(str(name)))
        yield f"{kind_of(str(name))} {name} of a table with {table.name} checkpoints, seed {seed}", path


def drop_others(table: Path, kind: str) -> None:
    log = table / "_delta_log"
    if kind in ("sidecar", "checkpoint"):
        newest = json.loads((log / "_last_checkpoint").read_text())["version"]
        for file in (*log.glob("*.json"), *log.glob("*.crc")):
            if file.name.count(".") == 1 and int(file.name[:20]) <= newest:
                file.unlink()
    else:
        for file in log.glob("*.crc"):
            if kind != "checksum":
                file.unlink()
