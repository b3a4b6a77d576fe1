"""Overwrites of some rows by Spark's tasks: rows that match new ones are replaced by a merge that
deletes matches and inserts all new rows; rows that satisfy a condition are replaced by new rows
that must satisfy it, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from deltaplane import _native
from deltaplane.commands.merge.clauses import Clause
from deltaplane.commands.replace import Matching, overwrite_says, write_metrics
from deltaplane.commands.rewriting import Operation, Rewriting
from deltaplane.commands.row_rules import not_selected
from deltaplane.exceptions import (
    ConstraintViolationError,
    InvalidArgumentError,
    TableNotFoundError,
    UnsupportedExpressionError,
)
from deltaplane.io import records
from deltaplane.spark.datasource.delta_options import checks_replaced_rows, replaces_by_data
from deltaplane.spark.dml.conditions import SparkCondition
from deltaplane.spark.dml.follow_up import rewriting_by_tasks
from deltaplane.spark.dml.merge import SparkMerge, merge
from deltaplane.spark.dml.rewriting import ACT, SparkTarget, Work
from deltaplane.spark.errors.condition_of import condition_of
from deltaplane.spark.execution.row_rules import shown_row
from deltaplane.spark.jvm.location import split_options
from deltaplane.spark.jvm.places import FILE, ROW
from deltaplane.spark.jvm.schema import delta_schema_json, quoted
from deltaplane.write.api import WriteResult, about_partitions, command_result
from deltaplane.write.intent import WriteIntent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaplane.commands.dry_run import DryRun

__all__ = ["replace_matching", "replace_rows"]

# Matches a text within a condition.
_TEXTS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def replace_matching(
    df: DataFrame,
    location: str,
    options: Mapping[str, str] | None,
    matching: Matching,
    intent: WriteIntent,
) -> WriteResult | DryRun | None:
    """Replaces rows that match a row of the frame, in one commit; an empty frame changes nothing;
    returns None if the table doesn't exist."""
    try:
        snapshot = _native.Snapshot.open(location, split_options(options)[0], intent.read_version)
    except TableNotFoundError:
        return None
    what = SparkMerge(
        source=df if matching.source_alias is None else df.alias(matching.source_alias),
        condition=matching.condition,
        clauses=[Clause("matched", "delete"), Clause("source", "insert")],
        merge_schema=intent.merges_schema,
        operation="WRITE",
        parameters=overwrite_says(matching.says, merge_schema=intent.merges_schema),
        reads_others=intent.reads_others,
    )
    target = SparkTarget(location, snapshot, df.sparkSession, options, matching.target_alias)
    return command_result(merge(target, what, intent.settings()), "nothing")


@contextmanager
def _selecting(condition: str, location: str) -> Iterator[None]:
    """Within the block, Spark's error for a condition that isn't a boolean becomes ours."""
    try:
        yield
    except AnalysisException as e:
        if condition_of(e) != "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN":
            raise
        raise InvalidArgumentError(
            f"the rows to replace are selected by `{condition}`, which isn't a boolean", table=location
        ) from e


def _refuse_data_columns(condition: str, snapshot: _native.Snapshot) -> None:
    """Refuses a condition with columns by which the table isn't partitioned."""
    partitions = {name.lower() for name in snapshot.info.partition_columns}
    columns = {field["name"].lower(): field["name"] for field in snapshot.schema.to_value()["fields"]}
    for word in re.findall(r"`[^`]+`|\w+", _TEXTS.sub("", condition)):
        name = word.strip("`").lower()
        if name in columns and name not in partitions:
            raise InvalidArgumentError(
                f"the predicate names the column `{columns[name]}`, which isn't a partition column: use partition columns "
                "alone, or set spark.databricks.delta.replaceWhere.dataColumns.enabled to true",
                table=snapshot.location,
            )


def _is_about_partitions(condition: str, snapshot: _native.Snapshot) -> bool:
    try:
        return about_partitions(condition, snapshot)
    except (InvalidArgumentError, UnsupportedExpressionError):
        # Spark evaluates what the embedded engine can't parse.
        return False


def replace_rows(
    df: DataFrame,
    location: str,
    options: Mapping[str, str] | None,
    condition: str,
    intent: WriteIntent,
) -> WriteResult | DryRun | None:
    """Replaces the rows that satisfy a condition, in one commit; returns None if the table doesn't
    exist, or if whole partitions are replaced, since that reads no old row.

    Raises:
        InvalidArgumentError: a new row doesn't satisfy the condition, unless the session's
            `spark.databricks.delta.replaceWhere.constraintCheck.enabled` is false; a condition on
            rows with `data_change=False`, or with the session's
            `spark.databricks.delta.replaceWhere.dataColumns.enabled` as false.
    """
    try:
        snapshot = _native.Snapshot.open(location, split_options(options)[0], intent.read_version)
    except TableNotFoundError:
        return None
    checks = checks_replaced_rows(df.sparkSession)
    if checks and _is_about_partitions(condition, snapshot):
        return None
    if not intent.data_change:
        raise InvalidArgumentError(
            f"`{condition}` selects rows, and a write without a change of data (dataChange = false) takes whole files away: use "
            "partition columns alone, or leave dataChange out",
            table=location,
        )
    target = SparkTarget(location, snapshot, df.sparkSession, options)
    with _selecting(condition, location):
        which = SparkCondition(target, condition)
    if not replaces_by_data(df.sparkSession):
        _refuse_data_columns(condition, snapshot)
    incoming = records.IncomingRequest(
        _native.TableSchema(delta_schema_json(df.schema, nullable=True)), intent.merges_schema
    )
    parameters = overwrite_says({"predicate": condition}, merge_schema=intent.merges_schema)
    if intent.operation is not None:
        parameters |= intent.operation.request.get("write", {}).get("parameters", {})
    others = which.reads_others or intent.reads_others
    operation = Operation("WRITE", parameters, which.tree, incoming, condition=which.text, reads_others=others)
    refusal, skipped = not_selected(condition), "txn"
    commit = intent.commit_properties
    records_version = commit is not None and bool(commit.app_transactions)

    def run(job: Rewriting) -> dict[str, int] | None:
        job.reads(which.tree)
        work = Work(job, target)
        with _selecting(condition, location):
            old = which.met(target.frame())
        old = old.select(FILE, ROW, F.lit(0).alias(ACT)).persist()
        try:
            deleted = work.delete_rows(old, [0], always_recorded=True).get(0, 0)
        finally:
            old.unpersist()
        names = {name.lower(): name for name in df.columns}
        columns = [field["name"] for field in work.fields if field["name"].lower() in names]
        new = work.inserted(df, columns, [df[quoted(names[name.lower()])] for name in columns])
        selected = F.coalesce(F.expr(condition), F.lit(False))
        broken = F.when(~selected, shown_row(refusal, condition, columns)) if checks else None
        written = work.write([new], "insert" if deleted else None, inserts=True, broken=broken)
        if not (deleted or written or intent.merges_schema or records_version):
            # As in delta-spark, what changes nothing makes no version.
            nonlocal skipped
            skipped = "nothing"
            return None
        return job.commit(write_metrics(job.finish(), deleted, written))

    try:
        return command_result(rewriting_by_tasks(target, operation, intent.settings(), run), skipped)
    except ConstraintViolationError as e:
        if refusal not in str(e):
            raise
        raise InvalidArgumentError(str(e)) from None
