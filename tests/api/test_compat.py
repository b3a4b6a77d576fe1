"""The compatibility data: which engines read and write a table, and the pages generated from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deltaplane import DeltaTable, _native, write_deltalake
from deltaplane.compat import Engine, Protocol, engines, newly_excluded, verdicts

ROOT = Path(__file__).resolve().parents[2]
PLAIN = Protocol(1, 2, frozenset({"appendOnly", "invariants"}))


def with_features(*names: str) -> Protocol:
    return Protocol(3, 7, PLAIN.features | set(names))


def test_plain_tables_are_for_everyone() -> None:
    assert all(v.reads for v in verdicts(PLAIN))
    readers = {}
    for verdict in verdicts(PLAIN, ours=""):
        if not verdict.writes:
            readers[verdict.engine] = verdict.missing_to_write
    assert readers == {"delta-kernel-rs": ["its writing isn't measured"]}


def test_documented_engines_without_writing_say_so() -> None:
    reader = Engine("reader", "1", 3, 0, PLAIN.features, frozenset(), "https://docs.example")
    assert reader.missing_to_write(PLAIN) == ["it doesn't write Delta tables"]


def test_deltaplane_speaks_for_itself() -> None:
    ourselves, known = engines()[0], {f.name: f for f in _native.known_features()}
    assert ourselves.reads == {n for n, f in known.items() if f.reads}
    assert ourselves.writes == {n for n, f in known.items() if f.writes}
    assert ourselves.writes <= ourselves.reads


@pytest.mark.parametrize("engine", engines(), ids=str)
def test_the_data_is_consistent(engine: Engine) -> None:
    known = {f.name for f in _native.known_features()}
    assert engine.reads <= known
    assert engine.writes <= known
    # An engine that mishandles a feature doesn't support it.
    assert engine.misreads <= known - engine.reads
    assert engine.miswrites <= known - engine.writes
    assert engine.source in ("measured", "its own features") or engine.source.startswith("https://")
    if engine.writer_version < 7:
        assert engine.reader_version < 3 or not engine.is_writer


def test_missing_features_and_versions_are_named() -> None:
    old = next(e for e in engines() if str(e) == "delta-spark 1.0 to 1.1")
    assert old.missing_to_read(with_features("deletionVectors")) == ["deletionVectors", "reader version 3"]
    # P091: writer-only features don't stop readers
    writer_only = Protocol(1, 7, PLAIN.features | {"rowTracking", "domainMetadata"})
    assert old.missing_to_read(writer_only) == []
    assert old.missing_to_write(writer_only) == ["domainMetadata", "rowTracking", "writer version 7"]


def test_a_change_excludes_only_those_who_could_before() -> None:
    readers, writers = newly_excluded(
        with_features("deletionVectors"), with_features("deletionVectors", "typeWidening")
    )
    assert "delta-spark 1.0 to 1.1" not in readers
    assert "delta-spark 3.0" in readers
    assert "delta-spark 3.0" in writers
    assert newly_excluded(PLAIN, PLAIN) == ([], [])


def test_a_table_is_asked(tmp_path: Path) -> None:
    import pyarrow as pa

    write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    table = DeltaTable(tmp_path / "t")
    assert table.compatibility().protocol == PLAIN
    assert table.compatibility().after is None
    ourselves = table.compatibility().engines[0]
    assert (ourselves.engine, ourselves.writes, ourselves.missing_to_write) == ("deltaplane", True, [])
    report = table.compatibility({"delta.enableChangeDataFeed": "true"})
    assert report.unreadable_for == ()
    assert "delta-spark 1.2 to 1.x" in report.unwritable_for
    assert json.loads(json.dumps(report.to_dict()))["after"]["min_writer_version"] == 7


@pytest.mark.parametrize("generator", ["generate.py", "generate_command_line.py", "generate_reliability.py"])
def test_the_pages_are_up_to_date(generator: str) -> None:
    command = [sys.executable, str(ROOT / "docs" / generator), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
