"""The log without a person's values: statistics and conditions that have none of them, and a
history that is deleted at once (P063, P064, P157, P161)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, prove_erased, sql, write_deltalake
from deltaplane.cli.app import run
from deltaplane.exceptions import DeltaError, InvalidArgumentError, VersionNotFoundError

EMAIL = "ada@example.org"
WHERE = f"email = '{EMAIL}'"
HIDING = {"deltaplane.hideValuesInHistory": "true"}
UNMEASURED = {"deltaplane.columnsWithoutStatistics": "email"}


def _people(where: Path, **more: Any) -> DeltaTable:
    people = pa.table({"id": [1, 2, 3], "email": ["b@x.org", EMAIL, "z@x.org"]})
    write_deltalake(str(where), people, **more)
    return DeltaTable(str(where))


def _log(where: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (where / "_delta_log").iterdir() if path.is_file()}


def _parameters(table: DeltaTable) -> dict[str, Any]:
    parameters = table.history(1)[0]["operationParameters"]
    assert isinstance(parameters, dict)
    return parameters


# --- conditions without values ---


def _delete(table: DeltaTable) -> None:
    table.delete(WHERE)


def _update(table: DeltaTable) -> None:
    table.update(predicate=WHERE, updates={"id": "id + 1"})


def _merge(table: DeltaTable) -> None:
    source = pa.table({"id": [2]})
    merge = table.merge(source, f"t.id = s.id AND t.{WHERE}", source_alias="s", target_alias="t")
    merge.when_matched_delete(f"t.email = '{EMAIL}'").execute()


def _replace(table: DeltaTable) -> None:
    rows = pa.table({"id": [9], "email": [EMAIL]})
    write_deltalake(table.location, rows, mode="overwrite", predicate=WHERE)


def _statement(table: DeltaTable) -> None:
    sql(f"DELETE FROM delta.`{table.location}` WHERE email IN ('{EMAIL}', \"x\")")


COMMANDS = {"delete": _delete, "update": _update, "merge": _merge, "replace": _replace, "SQL": _statement}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_leaves_a_value_in_the_history(name: str, tmp_path: Path) -> None:
    shown = _people(tmp_path / "shown")
    COMMANDS[name](shown)
    shown.update_incremental()
    assert EMAIL in json.dumps(_parameters(shown)), "the test's command must show what is hidden elsewhere"
    hidden = _people(tmp_path / "hidden", configuration=HIDING)
    COMMANDS[name](hidden)
    hidden.update_incremental()
    text = json.dumps(_parameters(hidden))
    assert EMAIL not in text
    assert "email" in text
    assert "?" in text
    assert hidden.history(1)[0]["operation"] == shown.history(1)[0]["operation"]


def test_the_property_counts_from_its_commit_on(tmp_path: Path) -> None:
    table = _people(tmp_path / "t")
    table.alter.set_table_properties(HIDING)
    table.delete("id = 12345 OR id = 1")
    assert _parameters(table)["predicate"] == '["id = ? OR id = ?"]'
    table.alter.unset_table_properties(list(HIDING))
    table.delete("id = 2")
    assert _parameters(table)["predicate"] == '["id = 2"]'


# --- columns without statistics ---


def _measured(where: Path) -> set[str]:
    """The columns in the statistics of all commits."""
    names: set[str] = set()
    for commit in sorted((where / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            stats = json.loads(json.loads(line).get("add", {}).get("stats") or "{}")
            for part in ("minValues", "maxValues", "nullCount"):
                names |= set(stats.get(part, {}))
    return names


def test_a_column_has_no_statistics_in_any_commit_or_checkpoint(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table = _people(where, configuration=UNMEASURED)
    table.update(predicate="id = 1", updates={"email": f"'{EMAIL}'"})
    table.optimize.compact()
    table.create_checkpoint()
    assert _measured(where) == {"id"}
    # The condition of a command isn't a statistic: the property of the history hides it.
    assert all(EMAIL.encode() not in data for name, data in _log(where).items() if name.endswith(".parquet"))
    assert table.to_pyarrow_table(filters=WHERE).num_rows == 2
    assert table.count() == 3


def test_other_columns_keep_their_statistics(tmp_path: Path) -> None:
    """A column that is left out still counts among the first ones (P161)."""
    where = tmp_path / "t"
    columns = {"delta.dataSkippingNumIndexedCols": "2", **UNMEASURED}
    write_deltalake(str(where), pa.table({"a": [1], "email": ["x"], "c": [3]}), configuration=columns)
    assert _measured(where) == {"a"}
    listed = {"delta.dataSkippingStatsColumns": "email,c", **UNMEASURED}
    write_deltalake(str(tmp_path / "u"), pa.table({"a": [1], "email": ["x"], "c": [3]}), configuration=listed)
    assert _measured(tmp_path / "u") == {"c"}


def test_fields_of_structs_are_left_out(tmp_path: Path) -> None:
    where = tmp_path / "t"
    people = pa.table({"id": [1], "person": pa.array([{"name": "Ada", "born": 1815}])})
    names = {"deltaplane.columnsWithoutStatistics": "Person.NAME"}
    write_deltalake(str(where), people, configuration=names)
    (add,) = [json.loads(line)["add"] for line in _log(where)[f"{0:020}.json"].splitlines() if b'"add"' in line]
    assert json.loads(add["stats"])["minValues"] == {"id": 1, "person": {"born": 1815}}


def test_the_property_follows_its_columns(tmp_path: Path) -> None:
    table = _people(tmp_path / "t", configuration={"delta.columnMapping.mode": "name", **UNMEASURED})
    table.alter.rename_column("email", "address")
    assert table.metadata().configuration["deltaplane.columnsWithoutStatistics"] == "address"
    table.alter.drop_columns(["address"])
    assert "deltaplane.columnsWithoutStatistics" not in table.metadata().configuration


def test_a_misspelt_column_is_refused(tmp_path: Path) -> None:
    misspelt = {"deltaplane.columnsWithoutStatistics": "id, emial"}
    with pytest.raises(InvalidArgumentError, match="`emial`, which isn't a column"):
        _people(tmp_path / "new", configuration=misspelt)
    table = _people(tmp_path / "old")
    with pytest.raises(InvalidArgumentError, match="`emial`, which isn't a column"):
        table.alter.set_table_properties(misspelt)


def test_a_table_is_not_clustered_by_such_a_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="columnsWithoutStatistics"):
        _people(tmp_path / "t", configuration=UNMEASURED, cluster_by=["email"])


# --- a history that is deleted at once ---


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_after_the_steps_the_value_is_nowhere(policy: str, tmp_path: Path) -> None:
    where = tmp_path / "t"
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointPolicy": policy, **HIDING}
    table = _people(where, configuration=properties)
    table.delete(WHERE)
    table.purge()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert not prove_erased(table, WHERE).is_erased, "the oldest commit has the value as a bound"
    rows = table.to_pyarrow_table().sort_by("id")
    done = table.forget_history()
    assert done["version"] == table.version()
    assert done["log_files"] > 0
    report = prove_erased(table, WHERE)
    assert report.is_erased, str(report)
    again = DeltaTable(str(where))
    assert again.to_pyarrow_table().sort_by("id") == rows
    assert [entry["operation"] for entry in again.history()] == ["FORGET HISTORY"]
    with pytest.raises(VersionNotFoundError):
        DeltaTable(str(where), version=0)
    # Later writers go on from the checkpoint.
    again.delete("id = 1")
    assert DeltaTable(str(where)).count() == 1


def test_nothing_of_an_older_version_is_left_in_the_log(tmp_path: Path) -> None:
    where = tmp_path / "t"
    table = _people(where)
    for x in range(12):
        table.update(predicate="id = 1", updates={"email": f"'{x}@x.org'"})
    table.compact_logs(2, 5)
    version = table.forget_history()["version"]
    numbered = {name for name in _log(where) if name[0].isdigit()}
    assert {int(name.partition(".")[0]) for name in numbered} == {version}
    assert table.check() == []


@pytest.mark.parametrize("steps", range(6))
def test_an_interruption_leaves_a_table_that_opens(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files go oldest commit first: each prefix of the deletions is a table."""
    where = tmp_path / "t"
    table = _people(where)
    for x in range(4):
        table.update(predicate="id = 1", updates={"email": f"'{x}@x.org'"})
    rows = table.to_pyarrow_table().sort_by("id")
    before = _log(where)
    table.forget_history()
    after = _log(where)
    gone = sorted(set(before) - set(after), key=lambda name: (not name.endswith(".json"), name))
    assert len(gone) >= steps
    # The state after `steps` deletions: what is deleted later is put back.
    for name in gone[steps:]:
        (where / "_delta_log" / name).write_bytes(before[name])
    opened = DeltaTable(str(where))
    assert opened.to_pyarrow_table().sort_by("id") == rows
    opened.forget_history()
    assert DeltaTable(str(where)).to_pyarrow_table().sort_by("id") == rows


def test_a_stale_object_forgets_up_to_the_newest_version(tmp_path: Path) -> None:
    stale = _people(tmp_path / "t")
    other = DeltaTable(str(tmp_path / "t"))
    other.delete("id = 3")
    assert stale.forget_history()["version"] == 2
    assert stale.count() == 2


def test_checkpoint_protection_is_obeyed(tmp_path: Path) -> None:
    """P157: versions before a protected one stay as they are."""
    table = _people(tmp_path / "t", configuration={"delta.enableDeletionVectors": "true"})
    table.alter.drop_feature("deletionVectors")
    protected = int(table.metadata().configuration["delta.requireCheckpointProtectionBeforeVersion"])
    assert protected <= table.version()
    # Every protected version goes at once, with its checkpoints: the protocol allows that.
    version = table.forget_history()["version"]
    assert version == table.version()
    assert table.count() == 3


def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = _people(tmp_path / "t")
    table.delete("id = 1")
    assert run(["forget-history", table.location, "--yes", "--json"]) == 0
    done = json.loads(capsys.readouterr().out)
    assert done["version"] == 2
    assert done["log_files"] > 0
    assert run(["history", table.location, "--json"]) == 0
    assert [e["operation"] for e in json.loads(capsys.readouterr().out)] == ["FORGET HISTORY"]


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DeltaError):
        DeltaTable(str(tmp_path / "none")).forget_history()
