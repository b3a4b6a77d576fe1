"""Overwrites of the rows that match new ones, by Spark's tasks: a merge that deletes what matches and adds all new rows.

Called by `_write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.commands.merge_clauses import Clause
from deltaplane.commands.replace import Matching
from deltaplane.commands.rewriting import Settings
from deltaplane.exceptions import TableNotFoundError
from deltaplane.spark._location import split_options
from deltaplane.spark._merge import SparkMerge, merge
from deltaplane.spark._rewriting import SparkTarget
from deltaplane.write import WriteResult, command_result

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaplane.dry_run import DryRun

__all__ = ["replace_matching"]


def replace_matching(
    df: DataFrame,
    location: str,
    options: Mapping[str, str] | None,
    matching: Matching,
    settings: Settings,
    *,
    merge_schema: bool,
    read_version: int | None,
) -> WriteResult | DryRun | None:
    """Replaces rows that match one of the frame's, in one commit; nothing is done without rows, None where no table is.

    `read_version` is the version that the frame's rows were made of, if they were made of the table's.
    """
    try:
        snapshot = _native.Snapshot.open(location, split_options(options)[0], read_version)
    except TableNotFoundError:
        return None
    what = SparkMerge(
        source=df if matching.source_alias is None else df.alias(matching.source_alias),
        condition=matching.condition,
        clauses=[Clause("matched", "delete"), Clause("source", "insert")],
        merge_schema=merge_schema,
        operation="WRITE",
        parameters={"mode": "Overwrite", **matching.says},
        reads_others=read_version is not None,
    )
    target = SparkTarget(location, snapshot, df.sparkSession, options, matching.target_alias)
    return command_result(snapshot, merge(target, what, settings), "nothing")
