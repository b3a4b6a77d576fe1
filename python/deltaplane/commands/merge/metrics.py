"""The metrics of a MERGE under delta-spark's names, for all engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deltaplane.commands.merge.clauses import Clause

__all__ = ["changed_rows", "merge_metrics"]

_DONE = {"update": "Updated", "delete": "Deleted"}
# Names of file metrics in a merge.
_TARGET = {
    "numAddedFiles": "numTargetFilesAdded",
    "numRemovedFiles": "numTargetFilesRemoved",
    "numAddedBytes": "numTargetBytesAdded",
    "numRemovedBytes": "numTargetBytesRemoved",
    "numAddedChangeFiles": "numTargetChangeFilesAdded",
    "numDeletionVectorsAdded": "numTargetDeletionVectorsAdded",
    "numDeletionVectorsUpdated": "numTargetDeletionVectorsUpdated",
    "numDeletionVectorsRemoved": "numTargetDeletionVectorsRemoved",
}


def changed_rows(clauses: Sequence[Clause], counts: Mapping[int, int]) -> dict[str, int]:
    """The numbers of changed rows, total and by kind; `counts` has the number for each clause."""
    counted: dict[str, int] = {}
    for number, clause in enumerate(clauses):
        name = ("Matched" if clause.kind == "matched" else "NotMatchedBySource") + _DONE[clause.action]
        counted[name] = counted.get(name, 0) + counts.get(number, 0)
    kinds = [kind + done for kind in ("Matched", "NotMatchedBySource") for done in ("Updated", "Deleted")]
    rows = {kind: counted.get(kind, 0) for kind in kinds}
    sums = {done: sum(n for kind, n in rows.items() if kind.endswith(done)) for done in ("Updated", "Deleted")}
    return {f"numTargetRows{kind}": n for kind, n in {**sums, **rows}.items()}


def merge_metrics(
    summary: Mapping[str, int], rows: Mapping[str, int], sources: int, inserted: int
) -> dict[str, int | None]:
    """Combines the metrics of files and times (`Rewriting.finish`) with those of rows."""
    files = {_TARGET.get(name, name): value for name, value in summary.items() if name != "numCopiedRows"}
    copied = summary["numCopiedRows"]
    return {
        **files,
        **rows,
        "numSourceRows": sources,
        "numTargetRowsInserted": inserted,
        "numTargetRowsCopied": copied,
        "numOutputRows": copied + inserted + rows["numTargetRowsUpdated"],
    }
