"""Features of proposals (RFCs) for the protocol, by `protocol_rfcs` of delta-io/delta: refused by
name, and as such."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import UnsupportedFeatureError

READER_WRITER = (
    "adaptiveMetadata",
    "adaptiveMetadata-preview",
    "geospatial",
    "redirectReaderWriter-preview",
    "timestampNanos",
)
WRITER = (
    "collations",
    "collations-preview",
    "columnMappingUsageTracking",
    "icebergWriterCompatV1",
    "redirectWriterOnly-preview",
)
PROPOSED = r"{} \(of a proposal for the Delta protocol, an RFC that deltaplane doesn't support\)"


def with_feature(path: str, feature: str, *, reader: bool) -> str:
    """A table whose protocol lists a feature."""
    write_deltalake(path, pa.table({"x": [1]}))
    commit = Path(path, "_delta_log", "00000000000000000000.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    (protocol,) = (line["protocol"] for line in lines if "protocol" in line)
    protocol.update(minWriterVersion=7, writerFeatures=[feature])
    if reader:
        protocol.update(minReaderVersion=3, readerFeatures=[feature])
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()
    return path


@pytest.mark.parametrize("feature", READER_WRITER)
def test_reading_is_refused_by_the_name_of_the_proposal(tmp_table: Callable[[], str], feature: str) -> None:
    table = with_feature(tmp_table(), feature, reader=True)
    with pytest.raises(UnsupportedFeatureError, match=PROPOSED.format(feature)):
        DeltaTable(table)


@pytest.mark.parametrize("feature", WRITER)
def test_writing_is_refused_and_reading_is_not(tmp_table: Callable[[], str], feature: str) -> None:
    table = with_feature(tmp_table(), feature, reader=False)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 1
    with pytest.raises(UnsupportedFeatureError, match=PROPOSED.format(feature)):
        write_deltalake(table, pa.table({"x": [2]}), mode="append")
    assert DeltaTable(table).version() == 0


@pytest.mark.parametrize("feature", READER_WRITER + WRITER)
def test_adding_one_is_refused(tmp_table: Callable[[], str], feature: str) -> None:
    table = tmp_table()
    write_deltalake(table, pa.table({"x": [1]}))
    with pytest.raises(UnsupportedFeatureError, match=rf"can't add the table feature {PROPOSED.format(feature)}"):
        DeltaTable(table).alter.add_feature(feature, allow_protocol_versions_increase=True)


def test_other_unknown_features_are_no_proposals(tmp_table: Callable[[], str]) -> None:
    table = with_feature(tmp_table(), "someday", reader=True)
    with pytest.raises(UnsupportedFeatureError, match="the table feature someday, which this version doesn't know"):
        DeltaTable(table)
