"""Payments: alerts in a stream, each written once, by a model that can be trained again.

A job follows the table `payments`, applies a rule to the new rows and appends what it finds to the
table `alerts`. The rule compares a payment with the account's average, which is the model. Batches
of alerts have the version of the payments that they are about, so that a job which dies at any
moment and starts again neither loses an alert nor writes one twice.

The model's commit records the version of the payments that it was trained on. Training again on
that version gives the same model, whatever was paid since: an auditor can repeat it.

With your own data: replace the two statements. `DeltaTable.tail(follow=True)` waits for new
versions; any number of rules can write to the same table, each under a name of its own.
"""

import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

import deltaplane
from deltaplane import CommitProperties, DeltaTable, OnceWriter, write_deltalake

ACCOUNTS, BATCHES, TRAINED_ON = 50, 10, 3
TRAIN = "SELECT account, count(*) AS payments, sum(cents) AS total FROM payments GROUP BY account ORDER BY account"
RULE = """
    SELECT p.id, p.account, p.cents FROM new p JOIN model m ON m.account = p.account
    WHERE p.cents * m.payments > 5 * m.total
"""


def payments(batch: int) -> tuple[pa.Table, list[int]]:
    """Usual payments and, after the training, two frauds; their ids are the second result."""
    rng, rows, planted = random.Random(batch), [], []
    for number in range(400):
        account = rng.randrange(ACCOUNTS)
        rows.append({"id": batch * 1000 + number, "account": account, "cents": rng.randint(2000, 3000) * (1 + account)})
    if batch > TRAINED_ON:
        for row in rng.sample(rows, 2):
            row["cents"] *= 20
            planted.append(row["id"])
    return pa.Table.from_pylist(rows), planted


def train(source: Path, version: int) -> pa.Table:
    """The model, from one version of the payments."""
    return deltaplane.sql(TRAIN, tables={"payments": DeltaTable(source, version=version)}).to_arrow()


class Crash(Exception):
    """The job's process dies."""


def watch(source: Path, model: Path, alerts: Path, dies_after: int | None = None) -> None:
    """The job: rules over everything that is new, until it dies."""
    writer = OnceWriter(alerts)
    last = writer.last_version("rule-1")
    for new in DeltaTable(source).tail(since=TRAINED_ON if last is None else last):
        frauds = deltaplane.sql(RULE, tables={"new": new.to_arrow(), "model": DeltaTable(model)})
        writer.append(frauds, "rule-1", new.version)
        if new.version == dies_after:
            raise Crash


def main(folder: Path) -> None:
    source, model, alerts = folder / "payments", folder / "model", folder / "alerts"
    planted: list[int] = []
    for batch in range(BATCHES):
        rows, frauds = payments(batch)
        write_deltalake(source, rows, mode="append")
        planted += frauds
        if batch == TRAINED_ON:
            about = CommitProperties(custom_metadata={"trainedOn": batch})
            write_deltalake(model, train(source, batch), commit_properties=about)
        elif batch > TRAINED_ON:
            try:
                watch(source, model, alerts, dies_after=batch if batch % 2 else None)
            except Crash:
                watch(source, model, alerts)

    ids = sorted(DeltaTable(alerts).to_pyarrow_table()["id"].to_pylist())
    assert ids == sorted(planted), (ids, planted)
    print(f"{len(planted)} planted frauds among {DeltaTable(source).count():,} payments: {len(ids)} alerts, each once")

    # A job that starts from the beginning again changes nothing.
    writer = OnceWriter(alerts)
    for new in DeltaTable(source).tail(since=TRAINED_ON):
        assert writer.append(new, "rule-1", new.version).skipped == "txn"
    print("all batches again: skipped")

    (commit,) = DeltaTable(model).history()
    again, current = train(source, commit["trainedOn"]), train(source, DeltaTable(source).version())
    stored = DeltaTable(model).to_pyarrow_table().sort_by("account")
    assert again.equals(stored.cast(again.schema)), "the model can't be repeated"
    assert not current.equals(again)
    print(f"trained again on version {commit['trainedOn']}: the same model; on version {BATCHES - 1}: another one")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
