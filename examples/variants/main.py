"""Genetic variants: load cohorts of files, read ranges, merge cohorts.

A sequencing centre delivers files of variants (chromosome, position, reference and alternative
allele, counts), as a VCF file has them, one per chromosome. COPY INTO loads each file once, however
often it is called. The table is clustered by chromosome and position, so that a query of a gene's
range reads few files. A second cohort is merged: counts of known variants are added up, and new
variants are inserted, in one commit, and the table of the first cohort stays readable as a version.

With your own data: the lines of a VCF file behind its header are such a file; write the counts from
its column INFO. `pattern="2026-11/*"` selects the files of a delivery, and `s3://…` locations work
as folders do.
"""

import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
from pyarrow import csv

from deltaplane import DeltaTable, copy_into

CHROMOSOMES = [f"chr{name}" for name in (*range(1, 23), "X", "Y")]
SCHEMA = pa.schema(
    {
        "chrom": pa.string(),
        "pos": pa.int64(),
        "ref": pa.string(),
        "alt": pa.string(),
        "ac": pa.int64(),
        "an": pa.int64(),
    }
)
KEY = " AND ".join(f"t.{name} = s.{name}" for name in ("chrom", "pos", "ref", "alt"))
OPTIONS = {"header": "true", "sep": "\t"}


def deliver(folder: Path, cohort: int, people: int, variants: int) -> dict[str, pa.Table]:
    """A cohort's files, one per chromosome; half of the positions are those of every cohort."""
    folder.mkdir(parents=True)
    tables = {}
    for number, chrom in enumerate(CHROMOSOMES):
        common, own = random.Random(number), random.Random(1000 * cohort + number)
        positions = set(common.sample(range(1, 1_000_000, 2), variants // 2))
        positions |= set(own.sample(range(2, 1_000_000, 2), variants // 2))
        rows = [
            {"chrom": chrom, "pos": pos, "ref": "ACGT"[pos % 4], "alt": "CGTA"[pos % 4], "ac": own.randint(1, people)}
            for pos in sorted(positions)
        ]
        tables[chrom] = pa.Table.from_pylist([row | {"an": 2 * people} for row in rows], SCHEMA)
        csv.write_csv(tables[chrom], folder / f"{chrom}.tsv", csv.WriteOptions(delimiter="\t", quoting_style="none"))
    return tables


def keys(table: pa.Table) -> set[tuple[str, int]]:
    """The variants of a table; their alleles follow from the position here."""
    return set(zip(table["chrom"].to_pylist(), table["pos"].to_pylist(), strict=True))


def main(folder: Path) -> None:
    first = pa.concat_tables(deliver(folder / "cohort-1", 1, people=50, variants=1000).values())
    table = DeltaTable.create(folder / "variants", SCHEMA, cluster_by=["chrom", "pos"])
    loaded = copy_into(table, folder / "cohort-1", "csv", format_options=OPTIONS)
    again = copy_into(table, folder / "cohort-1", "csv", format_options=OPTIONS)
    assert (loaded.num_loaded_files, loaded.num_inserted_rows) == (len(CHROMOSOMES), first.num_rows)
    assert (again.num_loaded_files, again.num_skipped_files) == (0, len(CHROMOSOMES))
    print(f"{loaded.num_loaded_files} files with {loaded.num_inserted_rows:,} variants loaded; again: nothing to load")

    size = table.detail()["sizeInBytes"][0].as_py()
    table.optimize.compact(target_size=size // 150, full=True)
    for gene, chrom, start, end in (("one", "chr7", 500_000, 520_000), ("two", "chrX", 1, 9_000)):
        condition = f"chrom = '{chrom}' AND pos BETWEEN {start} AND {end}"
        rows = table.scan(["pos"], condition).to_arrow()
        expected = [pos for c, pos in keys(first) if c == chrom and start <= pos <= end]
        assert sorted(rows["pos"].to_pylist()) == sorted(expected)
        assert table.explain(condition).selected <= 0.05 * len(table.files())
        print(f"gene {gene}: {rows.num_rows} variants, from at most 5 % of the files")

    second = pa.concat_tables(deliver(folder / "cohort-2", 2, people=30, variants=1000).values())
    cohort = DeltaTable.create(folder / "cohort-2-table", SCHEMA)
    copy_into(cohort, folder / "cohort-2", "csv", format_options=OPTIONS)
    alone = table.version()
    merger = table.merge(cohort.scan(), KEY, source_alias="s", target_alias="t")
    counts = (
        merger.when_matched_update({"ac": "t.ac + s.ac", "an": "t.an + s.an"}).when_not_matched_insert_all().execute()
    )
    both = table.to_pyarrow_table()
    assert keys(both) == keys(first) | keys(second)
    assert counts["num_target_rows_updated"] == len(keys(first) & keys(second))
    total = sum(sum(t["ac"].to_pylist()) for t in (first, second))
    assert sum(both["ac"].to_pylist()) == total
    assert keys(DeltaTable(table.location, version=alone).to_pyarrow_table()) == keys(first)
    print(
        f"second cohort merged: {counts['num_target_rows_updated']:,} variants in both, "
        f"{counts['num_target_rows_inserted']:,} new, {total:,} alleles counted"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
