"""Histories of engines that race on one table are linearizable, by the verdict of a checker that
isn't ours; and the checker notices a lost update (P070)."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from deltaplane import register_log_store, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.histories.engines import DeltaRs, Engine, Ours, Spark
from interop.histories.recording import Operation, Recorder, figures, judge, narrowed, verdict
from stores import proofs
from stores.folder_store import Folder
from stores.numbers import rows
from stores.servers import SERVERS, versitygw

# Operations of each leader; a proof records more of them.
ON_S3 = 100 if proofs.asked() else 16
ON_SPARK = 12 if proofs.asked() else 4
# Races on a store that overwrites commits, of which one loses an update.
TRIES = 5
# Random small histories.
DRAWN = 3000 if proofs.asked() else 60
# Rows of the history that faults are planted into.
KEPT, DELETED = 98_000_000, 98_000_001


@pytest.fixture(scope="module")
def results() -> Iterator[dict[str, object]]:
    """The figures of all races, for the proof."""
    collected: dict[str, object] = {}
    yield collected
    proofs.tell(
        "histories",
        title="Histories of racing engines",
        claims=[
            "Engines append rows, delete rows if they are there, and read the table, all at the same time on one table. The checker porcupine finds an order of the operations which explains every result, with each operation taking effect at one instant between its call and its return; operations whose outcome is unknown may take effect later or never.",
            "On a store which overwrites commits instead of refusing a taken name, the checker finds the lost update; it also refuses a recorded history from which a row vanished.",
            "Versions never go back, and each write makes a new one, where the engine tells its version.",
        ],
        figures=collected,
        how="DELTAPLANE_PROOFS=1 .venv/bin/python -m pytest tests/interop/histories",
    )


def check(recorder: Recorder, scratch: Path) -> dict[str, int]:
    """Fails unless the checker explains the history; keeps a history that it refuses."""
    file = scratch / "history.json"
    file.write_text("\n".join(map(json.dumps, recorder.operations)))
    assert judge(recorder.judged) == "Ok", f"the history is in {file}"
    counted = figures(recorder.judged)
    # A history without races, or without one kind of operation, shows nothing.
    assert all(counted[kind] for kind in ("appends", "deletes", "reads", "operations beside others")), counted
    return counted


def raced(leaders: Sequence[Engine], others: Sequence[Engine], count: int, seed: int = 1) -> Recorder:
    recorder = Recorder(seed)
    recorder.race(leaders, others, count)
    return recorder


def test_deltalake_and_we_on_s3(tmp_path: Path, results: dict[str, object]) -> None:
    with versitygw(tmp_path) as server:
        table = f"{server.new_bucket()}/t"
        write_deltalake(table, rows(0, 0), storage_options=server.options)
        ours, theirs = Ours(table, server.options), DeltaRs(table, server.options)
        recorder = raced([ours, theirs, ours, theirs], [], ON_S3)
        results["deltaplane and deltalake on S3"] = check(recorder, tmp_path)


def test_delta_spark_and_we_on_a_local_disk(
    delta_spark: DeltaSpark, tmp_path: Path, results: dict[str, object]
) -> None:
    table = str(tmp_path / "t")
    write_deltalake(table, rows(0, 0))
    recorder = raced([Spark(table, delta_spark)], [Ours(table), Ours(table)], ON_SPARK)
    results["deltaplane and delta-spark on a local disk"] = check(recorder, tmp_path)


def test_delta_spark_and_we_on_hdfs(delta_spark: DeltaSpark, tmp_path: Path, results: dict[str, object]) -> None:
    with SERVERS["hdfs"](tmp_path) as server:
        table = f"{server.new_bucket()}/t"
        write_deltalake(table, rows(0, 0))
        recorder = raced([Spark(table, delta_spark)], [Ours(table), Ours(table)], ON_SPARK)
        results["deltaplane and delta-spark on HDFS"] = check(recorder, tmp_path)


class Overwriting(Folder):
    """A store with the planted fault: a commit replaces another one of the same version."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.put(path, data)
        return True


def test_a_store_that_overwrites_commits_is_found(tmp_path: Path, results: dict[str, object]) -> None:
    register_log_store("overwriting", Overwriting)
    options = {"folder": str(tmp_path)}
    verdicts = []
    for seed in range(TRIES):
        table = f"overwriting://t{seed}/t"
        write_deltalake(table, rows(0, 0), storage_options=options)
        ours = Ours(table, options)
        verdicts.append(judge(raced([ours, ours, ours], [], 12, seed).judged))
        if verdicts[-1] == "Illegal":
            break
    assert verdicts[-1] == "Illegal", verdicts
    results["races until the planted lost update was found"] = len(verdicts)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> list[Operation]:
    """A history without faults, whose last operations add two rows, delete one and read the
    other."""
    table = str(tmp_path_factory.mktemp("sound") / "t")
    write_deltalake(table, rows(0, 0))
    ours = Ours(table)
    recorder = raced([ours, ours], [], 12)
    for key in (KEPT, DELETED):
        recorder.append(0, ours, key)
    recorder.delete(0, ours, DELETED)
    recorder.read(0, ours)
    assert judge(recorder.judged) == "Ok"
    return recorder.judged


def test_a_row_that_vanishes_is_noticed(sound: list[Operation]) -> None:
    *before, last = sound
    assert KEPT in last["rows"]
    for row in last["rows"]:
        without = {**last, "rows": [other for other in last["rows"] if other != row]}
        assert judge([*before, without]) == "Illegal"


def test_a_row_that_comes_back_is_noticed(sound: list[Operation]) -> None:
    *before, last = sound
    assert judge([*before, {**last, "rows": [*last["rows"], DELETED]}]) == "Illegal"


def test_an_unknown_outcome_may_be_either(sound: list[Operation]) -> None:
    *before, last = sound
    key = 99_000_000
    unknown = {"client": 99, "kind": "append", "key": key, "call": last["return"] + 1, "return": None, "version": None}
    later = {**last, "call": last["return"] + 2, "return": last["return"] + 3}
    for rows_seen in (last["rows"], [*last["rows"], key]):
        assert judge([*sound, unknown, {**later, "rows": rows_seen}]) == "Ok"
    # Seen before it began.
    assert judge([*before, {**last, "rows": [*last["rows"], key]}, unknown]) == "Illegal"


def test_a_version_that_goes_back_is_noticed(sound: list[Operation]) -> None:
    last = sound[-1]
    older = {**last, "call": last["return"] + 1, "return": last["return"] + 2, "version": last["version"] - 1}
    assert judge([*sound, older]) == "Illegal"


def drawn_history(seed: int) -> list[Operation]:
    """A random history of a table of up to four rows, with unknown outcomes. In two of three a
    reading or the result of a deletion is wrong, as after a lost update."""
    chance = random.Random(seed)
    rows_now: set[int] = set()
    appended: list[int] = []
    effects: list[tuple[int, Operation]] = []
    for number in range(chance.randint(4, 9)):
        kind = chance.choices(("append", "delete", "read"), (3, 3, 4))[0]
        if kind == "append" and len(appended) < 4:
            appended.append(len(appended))
            key = appended[-1]
        else:
            kind, key = ("read", 0) if kind == "read" or not appended else ("delete", chance.choice(appended))
        call = number * 10 + chance.randint(0, 25)
        operation = {"client": number, "kind": kind, "key": key, "call": call, "return": call + chance.randint(2, 40)}
        if kind != "read" and chance.random() < 0.5:
            # It takes effect within its time, later or never.
            instant = call + chance.choice([1, 15, 60, 10**6])
            operation["return"] = None
        else:
            instant = chance.randint(call + 1, operation["return"] - 1)
        effects.append((instant, operation))
    last = 200 + len(effects)
    for client in (97, 98):
        final = {"client": client, "kind": "read", "key": 0, "call": last, "return": last + 2}
        effects.append((last + 1, final))
    for _, operation in sorted(effects, key=lambda effect: effect[0]):
        key, is_known = operation["key"], operation["return"] is not None
        if operation["kind"] == "append":
            rows_now.add(key)
        elif operation["kind"] == "delete":
            if is_known:
                operation["found"] = key in rows_now
            rows_now.discard(key)
        else:
            operation["rows"] = sorted(rows_now)
    history = [operation for _, operation in effects]
    judged = [o for o in history if o["kind"] == "read" or "found" in o]
    if appended and seed % 3:
        wrong = chance.choice(judged)
        if "found" in wrong:
            wrong["found"] = not wrong["found"]
        else:
            wrong["rows"] = sorted(set(wrong["rows"]) ^ {chance.choice(appended)})
    return history


def test_narrowing_changes_no_verdict() -> None:
    """Of small histories, whose whole search ends."""
    verdicts = Counter()
    for seed in range(DRAWN):
        history = drawn_history(seed)
        expected = verdict(history)
        assert verdict(narrowed(history)) == expected, json.dumps(history)
        is_narrower = narrowed(history) != history
        verdicts[expected, is_narrower] += 1
    assert min(verdicts[outcome, True] for outcome in ("Ok", "Illegal")) > DRAWN / 10, verdicts
