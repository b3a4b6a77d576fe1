"""Measures which features engines read and write, on tables of the shared corpus and a few others;
updates the entries of `deltaplane/compat/engines.json` whose source is `measured`.

Run by hand (`make engines`), not by the tests: `python -m interop.measure_engines [--duckdb
PYTHON] [--kernel PYTHON]`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpus.comparing import canonical_rows, compare
from interop.delta_spark import DeltaSpark
from interop.own_tables import OWN
from interop.peers import Append, Peer, Read, peers
from interop.verifier import ROOT, SHARED
from verifier import problems

DATA = ROOT / "python" / "deltaplane" / "compat" / "engines.json"
# Columns whose values writers compute, left out of appended rows.
MADE = ("delta.generationExpression", "delta.identity.start")

# The simplest tables with each feature; a feature without a table is judged by its dependencies.
TABLES: Mapping[str, tuple[str, ...]] = {
    "appendOnly": ("ref-append-only-and-properties",),
    "invariants": ("own-not-null",),
    "checkConstraints": ("dat-check_constraints",),
    "changeDataFeed": ("kernelrs-cdf-table-data-change",),
    "generatedColumns": ("ref-generated-columns",),
    "columnMapping": ("ref-columnmapping-name-rename-drop-add", "ref-columnmapping-id-rename-drop"),
    "identityColumns": ("ref-identity-columns",),
    "allowColumnDefaults": ("ref-column-defaults",),
    "deletionVectors": ("ref-dv-delete-update-merge", "deltaspark-table-with-dv-large"),
    "timestampNtz": ("ref-timestamp-ntz",),
    "v2Checkpoint": ("ref-checkpoint-v2-parquet-many-sidecars", "ref-checkpoint-v2-json-many-sidecars"),
    "domainMetadata": ("ref-domain-metadata-user-domains",),
    "rowTracking": ("ref-rowtracking-materialised",),
    "clustering": ("ref-liquid-clustering",),
    "inCommitTimestamp": ("ref-in-commit-timestamps",),
    "vacuumProtocolCheck": ("ref-vacuum-protocol-check",),
    "typeWidening": ("ref-typewidening-all-changes",),
    "typeWidening-preview": ("golden-type-widening",),
    "variantType": ("ref-variant-values",),
    "variantType-preview": ("deltars-spark-variant-checkpoint",),
    "variantShredding": ("own-variant-shredded",),
    "variantShredding-preview": ("ref-variant-shredded",),
    "icebergCompatV1": ("dat-iceberg_compat_v1",),
    "icebergCompatV2": ("ref-iceberg-compat-v2",),
    "icebergCompatV3": ("own-iceberg-compat-v3",),
    "materializePartitionColumns": ("ref-materialised-partition-columns",),
    "checkpointProtection": ("ref-drop-feature-checkpoint-protection",),
}

# What programs read and write by a table's name: tests/catalog/test_foreign_clients.py measures it.
BY_NAME: Mapping[str, tuple[str, ...]] = {"DuckDB": ("catalogManaged",)}
# Programs that read such a table by its path, without its catalog: commits that only the catalog
# knows are missing. Verified by hand with a table of this feature.
PAST_CATALOG: Mapping[str, tuple[str, ...]] = {"delta-kernel-rs": ("catalogManaged",)}


class Outcome(IntEnum):
    """The outcome; of several tables the worst one counts."""

    WRONG = 0
    REFUSED = 1
    RIGHT = 2


def expected(case: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((SHARED / "corpus" / case / "expected.json").read_text())
    return content


def expected_rows(case: str) -> pa.Table:
    if case in OWN:
        return OWN[case].rows
    return pq.read_table(SHARED / "corpus" / case / "expected" / f"v{expected(case)['latest_version']}.parquet")


def schema_fields(case: str) -> list[dict[str, Any]]:
    if case in OWN:
        return OWN[case].fields()
    said = expected(case)["schema"]
    fields: list[dict[str, Any]] = (said if isinstance(said, dict) else json.loads(said))["fields"]
    return fields


def copied(case: str, scratch: Path) -> str:
    target = Path(tempfile.mkdtemp(dir=scratch)) / case
    if case in OWN:
        OWN[case].make(str(target))
        return str(target)
    shutil.copytree(SHARED / "corpus" / case / "table", target)
    return str(target)


def of_case(case: str, what: str, outcome: Outcome, why: str) -> Outcome:
    print(f"    {what} {outcome.name} {case}: {' '.join(why.split())[:200]}")
    return outcome


def read_one(read: Read, case: str, without: set[str], scratch: Path) -> Outcome:
    """Whether a table's rows equal delta-spark's."""
    # A missing corpus is no refusal of the program's.
    table = copied(case, scratch)
    try:
        rows = read(table)
    except Exception as e:  # noqa: BLE001 - a peer's refusal is an answer
        return of_case(case, "read", Outcome.REFUSED, f"{type(e).__name__} {e}")
    wrong = compare(*(shown(table, without) for table in (rows, expected_rows(case))))
    return of_case(case, "read", Outcome.WRONG, wrong) if wrong else Outcome.RIGHT


def append_one(append: Append, judge: Read, case: str, scratch: Path) -> Outcome:
    """Whether appending a copy of a row yields a table that delta-spark and the verifier accept."""
    table = copied(case, scratch)
    try:
        append(table, one_row(case))
    except Exception as e:  # noqa: BLE001 - a peer's refusal is an answer
        return of_case(case, "append", Outcome.REFUSED, f"{type(e).__name__} {e}")
    try:
        wrong = one_more(judge(table), case) or "; ".join(problems(table))
    except Exception as e:  # noqa: BLE001 - a table that the judge can't read is spoilt
        wrong = f"{type(e).__name__} {e}"
    return of_case(case, "append", Outcome.WRONG, wrong) if wrong else Outcome.RIGHT


def one_more(rows: pa.Table, case: str) -> str:
    """The problem with a table's rows after appending a copy of one of them."""
    without = {f["name"] for f in schema_fields(case) if is_made(f)} | variants(case)
    actual, before = (Counter(canonical_rows(shown(table, without))) for table in (rows, expected_rows(case)))
    lost, added = before - actual, list((actual - before).elements())
    if lost or len(added) != 1:
        return f"{lost.total()} rows lost, {len(added)} added"
    return "" if added[0] in before else f"the new row is {added[0]}"


def one_row(case: str) -> pa.Table:
    """A copy of a row of the table, without the columns that writers compute."""
    made = [f["name"] for f in schema_fields(case) if is_made(f)]
    return shown(expected_rows(case).slice(0, 1), set(made))


def is_made(field: Mapping[str, Any]) -> bool:
    return any(key in field["metadata"] for key in MADE)


def variants(case: str) -> set[str]:
    """Columns that are variants or contain some."""
    return {f["name"] for f in schema_fields(case) if '"variant"' in json.dumps(f["type"])}


def shown(table: pa.Table, without: set[str]) -> pa.Table:
    return table.drop_columns([name for name in table.column_names if name in without])


def features_by(outcomes: Mapping[str, Outcome], outcome: Outcome) -> list[str]:
    return sorted(feature for feature, outcome_of_feature in outcomes.items() if outcome_of_feature == outcome)


def measured_reads(
    peer: Peer, scratch: Path, tables: Mapping[str, tuple[str, ...]], by: str | None
) -> tuple[str, dict[str, Outcome]]:
    """The outcomes of reading by the best way, or by a named one, and the name of the way."""
    by_way: dict[str, dict[str, Outcome]] = {}
    for way, read in peer.reads.items():
        if by not in (None, way):
            continue
        print("  by", way)
        by_way[way] = {
            feature: min(
                read_one(read, case, variants(case) if peer.variants_as_json else set(), scratch) for case in cases
            )
            for feature, cases in tables.items()
        }
    best = max(by_way, key=lambda way: sum(by_way[way].values()))
    return best, by_way[best]


def measure(
    peer: Peer, judge: Read, scratch: Path, tables: Mapping[str, tuple[str, ...]], by: str | None
) -> dict[str, Any]:
    """The entry of one program, as measured with these tables."""
    print(peer.name, peer.version)
    way, reads = measured_reads(peer, scratch, tables, by)
    writes: dict[str, Outcome] = {}
    # Appends are measured only for features that the program reads correctly.
    for feature in features_by(reads, Outcome.RIGHT) if peer.append else []:
        writes[feature] = min(append_one(peer.append, judge, case, scratch) for case in TABLES[feature])
    by_name = BY_NAME.get(peer.name, ())
    return {
        "name": peer.name,
        "versions": peer.version,
        "reader_version": 3,
        "writer_version": 7 if peer.append else 0,
        "reads_by": way,
        "reads": sorted({*features_by(reads, Outcome.RIGHT), *by_name}),
        "misreads": sorted({*features_by(reads, Outcome.WRONG), *PAST_CATALOG.get(peer.name, ())}),
        "writes": sorted({*features_by(writes, Outcome.RIGHT), *by_name}),
        "miswrites": features_by(writes, Outcome.WRONG),
        "source": "measured",
    }


def renewed(old: Mapping[str, Any], new: Mapping[str, Any], features: list[str]) -> dict[str, Any]:
    """An entry for the same version of a program with new measurements of these features."""
    if old["versions"] != new["versions"]:
        raise SystemExit(f"{old['name']} {old['versions']} was measured: measure all features of {new['versions']}")
    lists = ("reads", "misreads", "writes", "miswrites")
    return {**old, **{k: sorted({*old[k]} - {*features} | {*new[k]}) for k in lists}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duckdb", help="an interpreter that has duckdb, duckdb-extension-delta and pyarrow")
    parser.add_argument("--kernel", help="an interpreter that has delta-kernel-rust-sharing-wrapper and pyarrow")
    parser.add_argument("--only", action="append", default=[], help="an engine's name; may be given again")
    parser.add_argument("--feature", action="append", default=[], help="only measure this one again; several times")
    arguments = parser.parse_args()
    data = json.loads(DATA.read_text())
    before = {e["name"]: e for e in data["engines"] if e["source"] == "measured"}
    tables = {f: cases for f, cases in TABLES.items() if not arguments.feature or f in arguments.feature}
    with tempfile.TemporaryDirectory() as place:
        scratch = Path(place)
        spark = DeltaSpark(scratch)
        everyone = peers(spark, arguments.duckdb, arguments.kernel)
        judge = everyone[0].reads["Spark SQL"]
        chosen = [peer for peer in everyone if not arguments.only or peer.name in arguments.only]
        entries = dict(before)
        for peer in chosen:
            by = before[peer.name]["reads_by"] if arguments.feature else None
            entry = measure(peer, judge, scratch, tables, by)
            entries[peer.name] = renewed(before[peer.name], entry, arguments.feature) if arguments.feature else entry
        spark.stop()
    documented = [e for e in data["engines"] if e["source"] != "measured"]
    order = [*before, *(peer.name for peer in everyone if peer.name not in before)]
    data["engines"] = documented + sorted(entries.values(), key=lambda e: order.index(e["name"]))
    DATA.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
