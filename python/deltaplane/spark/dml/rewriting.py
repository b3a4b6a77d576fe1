"""What DELETE, UPDATE and MERGE share on Spark: rows with their places, and the jobs that take rows
out and write others.

Tasks make the files and deletion vectors; the driver gets one text for each task, adopts it and
commits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.commands.merge.assignments import AssignedColumns, Node
from deltaplane.commands.merge.clauses import several_matches
from deltaplane.commands.merge.columns import check_whole, field_of
from deltaplane.commands.rewriting import Rewriting, Target
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError
from deltaplane.spark.execution.clones import with_sources
from deltaplane.spark.execution.jobs import run_tasks
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.execution.row_rules import relaxed, ruled
from deltaplane.spark.execution.shuffles import rebalanced
from deltaplane.spark.execution.store_cast import store_policy, stored
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.location import split_options
from deltaplane.spark.jvm.places import FILE, ROW, ROW_ID, Places
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.scan.read import jvm_of_commands, read_with_places

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["ACT", "Expression", "SparkTarget", "Work", "column", "refuse_chance", "refuse_windows"]

# Spark SQL, or Spark's own expression.
Expression: TypeAlias = "str | Column"

# The number of the clause that changes a row.
ACT = "__deltaplane_act"
# The hidden column by which the core takes a row's id.
_ID = "_row_id"
_BROKEN = "__deltaplane_broken"


def column(expression: Expression) -> Column:
    """An expression as Spark has it."""
    return F.expr(expression) if isinstance(expression, str) else expression


@dataclass(frozen=True)
class SparkTarget(Target):
    """A table that a session changes, under the name that expressions may use for it, whose parts
    are `qualifiers` where there are several. `like` is a frame of its rows whose columns stand in
    expressions."""

    spark: SparkSession
    options: Mapping[str, str] | None = None
    alias: str | None = None
    like: DataFrame | None = None
    qualifiers: Sequence[str] = ()

    @property
    def jvm(self) -> Jvm:
        """The session's internals."""
        return jvm_of_commands(self.spark, self.snapshot.uri)

    def committed(self) -> None:
        """Lets go of cached rows that the command changed."""
        recache(self.spark)

    def frame(self, stored_ids: str | None = None) -> DataFrame:
        """The table's rows with their places."""
        frame = read_with_places(self.spark, self.snapshot, self.options, Places(stored_ids))
        if self.like is not None:
            frame = self.jvm.with_columns_of(frame, self.like)
        if self.qualifiers:
            return self.jvm.named(frame, self.qualifiers)
        return frame if self.alias is None else frame.alias(self.alias)


def refuse_chance(frame: DataFrame, what: str) -> None:
    """Refuses a frame whose rows differ from one evaluation to the next.

    Raises:
        InvalidArgumentError: says what makes it so.
    """
    if not Jvm.of(frame.sparkSession).is_deterministic(frame):
        raise InvalidArgumentError(
            f"DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED: {what} differs from one evaluation to the next: compute it "
            "beforehand, as a column of the source or a literal"
        )


def refuse_windows(frame: DataFrame, given: DataFrame, what: str) -> None:
    """Refuses window functions in what a frame adds to another one, as delta-spark does.

    Raises:
        InvalidArgumentError: names the part of the command.
    """
    jvm = Jvm.of(frame.sparkSession)
    if jvm.windows_in(frame) > jvm.windows_in(given):
        raise InvalidArgumentError(
            f"UNSUPPORTED_EXPR_FOR_OPERATOR: {what} holds a window function: compute it beforehand, as a column of the "
            "source or of a view that a MERGE reads"
        )


class Work:
    """One command's jobs. Where one fails, what the others made is in the job that is given up."""

    def __init__(self, job: Rewriting, target: SparkTarget) -> None:
        self._job, self._target = job, target
        self._options = with_sources(target.location, split_options(target.options)[0])
        self._spec, self._task_spec = job.native.spec, job.native.task_spec
        self.stored_ids: str | None = self._task_spec.ids.id if self._task_spec.ids else None
        self.schema = relaxed(self._spec.schema)
        self.fields: list[dict[str, Any]] = _native.TableSchema(self._spec.schema).to_value()["fields"]
        self._generated = {rule.column for rule in self._spec.row_rules.generated}
        self._located: list[tuple[str, str, str, int | None, bool]] = []
        self._tasks = 0

    # --- rows that go ---------------------------------------------------------------------------------------------------

    def delete_rows(self, rows: DataFrame, deletes: Sequence[int], *, always_recorded: bool) -> dict[int, int]:
        """Takes rows out of their files; returns how many by the number of their clause.

        Args:
            rows: with their places and `ACT`; looked at twice.
            deletes: the clauses that delete, which may name a row several times.
            always_recorded: whether changes are recorded also where vectors tell them (P130).

        Raises:
            InvalidArgumentError: a row that several rows of a source change.
        """
        native, spark = self._job.native, self._target.spark
        files = [row[0] for row in rows.select(FILE).distinct().collect()]
        self._job.found()
        if not files:
            return {}
        self._located = native.located(files)
        records = always_recorded or not all(marked for *_, marked in self._located)
        location, options, spec, deleting = self._target.location, self._options, self._task_spec, list(deletes)
        named = [(uri, None, None, add) for uri, _, add, _, _ in self._located]
        adds = spark.createDataFrame(named, "file string, row long, act int, add string")
        places = rows.select(F.col(FILE), F.col(ROW), F.col(ACT).cast("int"), F.lit(None).cast("string"))

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import delete_rows

            yield from delete_rows(location, options, spec, deleting, records, batches)

        # A file's rows meet its add action in one task.
        outcomes, _ = run_tasks(adds.unionAll(places).repartition("file"), task)
        done = _outcomes(outcomes)
        native.adopt(outcomes)
        if twice := sum(one["twice"] for one in done):
            raise several_matches(twice)
        counts: dict[int, int] = {}
        for one in done:
            for act, number in one["taken_out"].items():
                counts[int(act)] = counts.get(int(act), 0) + number
        return counts

    # --- rows that come -------------------------------------------------------------------------------------------------

    def changed(
        self,
        rows: DataFrame,
        old: Mapping[str, Column],
        assigned: AssignedColumns,
        values: Sequence[Column],
        *,
        evolves: bool = False,
    ) -> DataFrame:
        """Rows with their new values, in the table's types and with their ids; to be asked for
        after `delete_rows`.

        Args:
            rows: old rows with their places.
            old: the table's columns in `rows`; columns that the command adds have none.
            assigned, values: which of the values goes where.
            evolves: whether structs may lack fields that the table has, which are null then.

        Raises:
            SchemaMismatchError: a value of a type that its column doesn't take, or with other
                fields.
        """
        given = rows.select(*values)
        types = [f.dataType.jsonValue() for f in given.schema.fields]
        columns, was = [], self._target.snapshot.schema.to_value()["fields"]
        for field in self.fields:
            name = field["name"]
            before = old.get(name, F.lit(None))
            node = assigned.tree.get(name)
            _check_structs(name, field["type"], node, types, evolves)
            own = field_of(was, name) if name in old else None
            of_old = None if own is None else own["type"]
            after = before if node is None else _assigned(before, of_old, field["type"], node, values)
            columns.append(after.alias(name))
        beside = [F.col(FILE), F.col(ROW)] + ([F.col(ROW_ID)] if self.stored_ids else [])
        new = rows.select(*columns, *beside)
        if self.stored_ids:
            new = self._with_ids(new)
        anew = self._generated - assigned.columns
        kept = [f for f in self.schema.fields if f.name not in anew]
        return self._stored(new, StructType([*kept, *(f for f in new.schema.fields if f.name == _ID)]))

    def _with_ids(self, rows: DataFrame) -> DataFrame:
        """Rows with the ids that they had (P142)."""
        first = [(uri, base) for uri, _, _, base, _ in self._located]
        files = self._target.spark.createDataFrame(first, f"{FILE}_of string, base long")
        joined = rows.join(F.broadcast(files), F.col(FILE) == F.col(f"{FILE}_of"))
        return joined.withColumn(_ID, F.coalesce(F.col(ROW_ID), F.col("base") + F.col(ROW)))

    def inserted(
        self, rows: DataFrame, columns: Sequence[str], values: Sequence[Column], *, lacks: bool = True
    ) -> DataFrame:
        """New rows with these columns, in the table's types. `lacks`: whether structs may do
        without fields that the table has.

        Raises:
            SchemaMismatchError: a value of a type that its column doesn't take, or with other
                fields.
        """
        new = rows.select(*[value.alias(name) for name, value in zip(columns, values, strict=True)])
        types = {f.name: f.dataType.jsonValue() for f in new.schema.fields}
        for field in self.fields:
            if field["name"] in types:
                check_whole(field["name"], field["type"], types[field["name"]], lacks=lacks)
        return self._stored(new, StructType([f for f in self.schema.fields if f.name in columns]))

    def _stored(self, rows: DataFrame, schema: StructType) -> DataFrame:
        """Rows as they are stored into columns of these types."""
        try:
            return stored(rows, schema, store_policy(self._target.spark, changes_rows=True))
        except AnalysisException as e:
            raise SchemaMismatchError(
                f"a value doesn't fit its column, cast it: {e}", table=self._target.location
            ) from e

    def write(
        self, frames: Sequence[DataFrame], change: str | None, *, inserts: bool = False, broken: Column | None = None
    ) -> int:
        """Writes rows in one job, recorded as this change; returns how many. `broken` tells what
        else is wrong with a row.

        Raises:
            ConstraintViolationError: a row that breaks a rule of the table.
        """
        if not frames:
            return 0
        told = [ruled(frame, self._spec, self._target.location, [_ID]) for frame in frames]
        nothing = F.lit(None).cast("string")
        judged = [
            frame.withColumn(_BROKEN, F.coalesce(*(one for one in (of_rules, broken) if one is not None), nothing))
            for frame, of_rules in told
        ]
        rows = reduce(lambda a, b: a.unionByName(b), judged)
        names = [name for name in rows.columns if name != _BROKEN]
        rows = rebalanced(rows, self._spec.partition_columns)
        rows = rows.select(*map(quoted, names), _BROKEN).toDF(*[f"c{i}" for i in range(len(names) + 1)])
        location, options, spec = self._target.location, self._options, self._task_spec
        first, shown = self._tasks if inserts else None, [*names, ""]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import write_changed

            named = (b.rename_columns(shown) for b in batches)
            yield from write_changed(location, options, spec, change, first, named)

        outcomes, refusals = run_tasks(rows, task)
        self._job.native.adopt(outcomes)
        raise_refusal(refusals, location)
        done = _outcomes(outcomes)
        # Tasks of a later job take up where these left off handing out identity values.
        self._tasks = max([self._tasks, *(one["task"] + 1 for one in done)])
        return sum(one["written_rows"] for one in done)


def _outcomes(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What tasks did, which they return as text."""
    return [json.loads(text) for text in texts]


def _assigned(old: Column, was: Any, of: Any, node: Node, values: Sequence[Column]) -> Column:
    """A column of this type with the new values in it; a struct that was null gets its other fields
    as nulls, as in Spark.

    `was` is its type before the command, None for a column or field that the command adds. Of such
    ones only those that are assigned are in the result.
    """
    if node.value is not None:
        return values[node.value]
    before = [] if was is None or isinstance(was, str) else was["fields"]
    parts = []
    for field in of["fields"]:
        own, below = field_of(before, field["name"]), node.below.get(field["name"])
        part = F.lit(None) if own is None else old.getField(own["name"])
        if below is not None:
            part = _assigned(part, None if own is None else own["type"], field["type"], below, values)
        if below is not None or own is not None:
            parts.append(part.alias(field["name"]))
    made = F.struct(*parts)
    return made if node.null_if is None else F.when(~(values[node.null_if] & old.isNull()), made)


def _check_structs(name: str, of: Any, node: Node | None, types: Sequence[Any], evolves: bool) -> None:
    """Refuses values whose fields aren't those of their column."""
    if node is None:
        return
    if node.value is not None:
        check_whole(name, of, types[node.value], lacks=evolves)
        return
    for field in of["fields"]:
        _check_structs(f"{name}.{field['name']}", field["type"], node.below.get(field["name"]), types, evolves)
