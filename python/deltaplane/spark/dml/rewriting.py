"""The parts that DELETE, UPDATE and MERGE share on Spark: rows with their positions, and the jobs
that delete and write rows.

Tasks write the files and deletion vectors; the driver receives one text from each task and commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.commands.merge.assignments import AssignedColumns, Node
from deltaplane.commands.merge.clauses import several_matches
from deltaplane.commands.merge.columns import check_whole, field_of
from deltaplane.commands.rewriting import Rewriting, Target
from deltaplane.exceptions import DeltaError, InvalidArgumentError, SchemaMismatchError
from deltaplane.io import hidden_columns
from deltaplane.spark.errors.condition_of import condition_of, parameters_of_cause
from deltaplane.spark.execution.carried import files_place
from deltaplane.spark.execution.clones import with_sources
from deltaplane.spark.execution.jobs import run_tasks
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.execution.row_rules import relaxed, ruled
from deltaplane.spark.execution.shuffles import rebalanced
from deltaplane.spark.execution.store_cast import follows_ansi, store_policy, stored
from deltaplane.spark.execution.write_tasks import raise_refusal
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.location import split_options
from deltaplane.spark.jvm.places import FILE, ROW, ROW_ID, Places
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.session_catalogs import check_in_transaction
from deltaplane.spark.scan.read import jvm_of_commands, read_with_places

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "ACT",
    "Expression",
    "NewRows",
    "SparkTarget",
    "Work",
    "column",
    "refuse_chance",
    "refuse_row_sets",
    "row_expressions",
]

# Spark SQL, or Spark's own expression.
Expression: TypeAlias = "str | Column"

# The column with the number of the clause that changes a row.
ACT = "__deltaplane_act"
_BROKEN = "__deltaplane_broken"
# The conditions of an aggregate function and of an unfit subquery outside of MERGE's conditions.
_BY_DEFAULT = "UNSUPPORTED_EXPR_FOR_OPERATOR"
# Spark's condition of a number that a column can't hold.
_OVERFLOW = "CAST_OVERFLOW_IN_TABLE_INSERT"
_UNFIT_SUBQUERY = "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY.UNSUPPORTED_IN_EXISTS_SUBQUERY"


def column(expression: Expression) -> Column:
    """Converts an expression to a Spark column."""
    return F.expr(expression) if isinstance(expression, str) else expression


@dataclass(frozen=True)
class SparkTarget(Target):
    """A table that a session changes, under the alias that expressions may use; `qualifiers` are
    the parts of a longer name. `like` is a frame of its rows whose columns expressions use."""

    spark: SparkSession
    options: Mapping[str, str] | None = None
    alias: str | None = None
    like: DataFrame | None = None
    qualifiers: Sequence[str] = ()

    def __post_init__(self) -> None:
        check_in_transaction(self.spark, self.location)

    @property
    def jvm(self) -> Jvm:
        """The session's internals."""
        return jvm_of_commands(self.spark, self.snapshot.uri)

    def committed(self) -> None:
        """Drops cached rows of the changed table."""
        recache(self.spark)

    def frame(self, stored_ids: str | None = None) -> DataFrame:
        """The table's rows with their positions."""
        frame = read_with_places(self.spark, self.location, self.snapshot, self.options, Places(stored_ids))
        if self.like is not None:
            frame = self.jvm.with_columns_of(frame, self.like)
        if self.qualifiers:
            return self.jvm.named(frame, self.qualifiers)
        return frame if self.alias is None else frame.alias(self.alias)


def refuse_chance(frame: DataFrame, what: str) -> None:
    """Refuses a nondeterministic frame.

    Raises:
        InvalidArgumentError: the frame is nondeterministic; the message names the expression.
    """
    if not Jvm.of(frame.sparkSession).is_deterministic(frame):
        raise _of_chance(what)


def _of_chance(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED: {what} differs from one evaluation to the next: compute it "
        "beforehand, as a column of the source or a literal"
    )


def refuse_row_sets(frame: DataFrame, original: DataFrame, what: str) -> None:
    """Refuses window functions, aggregates and generators in the columns added to a frame, as
    delta-spark does: their values aren't made of one row alone, and a generator makes several rows
    of one.

    Raises:
        InvalidArgumentError: such an expression; the message names the part of the command.
    """
    jvm = Jvm.of(frame.sparkSession)
    own, before = jvm.operators_in(frame), jvm.operators_in(original)
    for operator, (condition, functions) in _ROW_SETS.items():
        if own[operator] > before[operator]:
            raise _of_row_sets(condition, what, functions)


@contextmanager
def row_expressions(what: str, aggregates: str = _BY_DEFAULT) -> Iterator[None]:
    """Gives Spark's own refusals of expressions that aren't of one row the condition that
    delta-spark has for a part of a command.

    Args:
        what: the part.
        aggregates: the condition of an aggregate function in it.

    Raises:
        InvalidArgumentError: such an expression; names the part of the command.
    """
    try:
        yield
    except AnalysisException as e:
        condition = "" if isinstance(e, DeltaError) else condition_of(e) or ""
        if condition.startswith("UNSUPPORTED_GENERATOR"):
            raise _of_row_sets("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", what, "a generator") from e
        if condition == "WINDOW_FUNCTION_NOT_ALLOWED_IN_CLAUSE":
            raise _of_row_sets("UNSUPPORTED_EXPR_FOR_OPERATOR", what, "a window function") from e
        if condition in _AGGREGATED:
            raise _of_row_sets(aggregates, what, "an aggregate function") from e
        if condition == "DATATYPE_MISMATCH.IN_SUBQUERY_LENGTH_MISMATCH" and aggregates == _BY_DEFAULT:
            raise InvalidArgumentError(
                f"{_UNFIT_SUBQUERY}: {what} has IN with a query of another number of columns than stand before IN: let them "
                "agree"
            ) from e
        if condition == "INVALID_NON_DETERMINISTIC_EXPRESSIONS" and aggregates == "DELTA_AGGREGATION_NOT_SUPPORTED":
            raise _of_chance(what) from e
        raise


@contextmanager
def _stored_numbers() -> Iterator[None]:
    """Gives a number that overflows its column the condition that delta-spark has for UPDATE and
    MERGE; Spark's is that of an INSERT.

    Raises:
        InvalidArgumentError: such a number; names its column.
    """
    try:
        yield
    except PySparkException as e:
        if isinstance(e, DeltaError) or condition_of(e) != _OVERFLOW:
            raise
        raise _of_overflow(e.getMessageParameters() or {}) from e
    except Py4JJavaError as e:
        # PySpark 3.5's error of a failed job.
        said = parameters_of_cause(e, _OVERFLOW)
        if said is None:
            raise
        raise _of_overflow(said) from e


def _of_overflow(said: Mapping[str, str]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"[DELTA_CAST_OVERFLOW_IN_TABLE_WRITE] a value of the type {said.get('sourceType')} is out of the range "
        f"{said.get('targetType')} of the column {said.get('columnName')}: cast it with try_cast, which makes it null, or "
        "let spark.sql.storeAssignmentPolicy be LEGACY"
    )


_ROW_SETS = {
    "Window": ("UNSUPPORTED_EXPR_FOR_OPERATOR", "a window function"),
    "Aggregate": ("UNSUPPORTED_EXPR_FOR_OPERATOR", "an aggregate function"),
    "Generate": ("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "a generator, such as explode"),
}
# What Spark says of aggregates in a WHERE, a join and a SELECT of other columns.
_AGGREGATED = ("INVALID_WHERE_CONDITION", "MISSING_GROUP_BY", "UNSUPPORTED_EXPR_FOR_OPERATOR")


def _of_row_sets(condition: str, what: str, functions: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{condition}: {what} holds {functions}: compute it beforehand, as a column of the source or of a view that a "
        "MERGE reads"
    )


@dataclass
class NewRows:
    """Rows that a command changes, and their new values.

    Attributes:
        rows: old rows with their positions.
        old: the table's columns in `rows`; without the columns that the command adds.
        assigned, values: the values, and the columns or fields that they are assigned to.
        evolves: whether structs may lack fields of the table, which become null.
        stored: the rows in the table's types without ids, as soon as they are made.
    """

    rows: DataFrame
    old: Mapping[str, Column]
    assigned: AssignedColumns
    values: Sequence[Column]
    evolves: bool = False
    stored: DataFrame | None = None

    @cached_property
    def types(self) -> list[Any]:
        """The values' types, as JSON values."""
        return [field.dataType.jsonValue() for field in self.valued.schema.fields]

    @cached_property
    def valued(self) -> DataFrame:
        """The values alone."""
        return self.rows.select(*self.values)


class Work:
    """The jobs of one command. If one fails, the results of the others are aborted with the native
    job."""

    def __init__(self, job: Rewriting, target: SparkTarget) -> None:
        self._job, self._target = job, target
        self._place, options = files_place(target.location, split_options(target.options)[0], target.snapshot.location)
        self._options = with_sources(target.location, options)
        self._spec, self._task_spec = job.native.spec, job.native.task_spec
        self.stored_ids: str | None = self._task_spec.ids.id if self._task_spec.ids else None
        self.schema = relaxed(self._spec.schema)
        self.fields: list[dict[str, Any]] = self._spec.schema.to_value()["fields"]
        self._generated = {rule.column for rule in self._spec.row_rules.generated}
        self._located: list[tuple[str, str, bytes, int | None, bool]] = []
        self._tasks = 0

    # --- rows that go ---------------------------------------------------------------------------------------------------

    def delete_rows(self, rows: DataFrame, deletes: Sequence[int], *, always_recorded: bool) -> dict[int, int]:
        """Deletes rows from their files; returns their number by clause.

        Args:
            rows: with their positions and `ACT`; evaluated twice.
            deletes: the clauses that delete, which may name a row several times.
            always_recorded: whether to record changes even if deletion vectors imply them (P130).

        Raises:
            InvalidArgumentError: several source rows change one row.
        """
        native, spark = self._job.native, self._target.spark
        files = [row[0] for row in rows.select(FILE).distinct().collect()]
        self._job.found()
        if not files:
            return {}
        self._located = native.located(files)
        records = always_recorded or not all(marked for *_, marked in self._located)
        location, options, spec, deleting = self._place, self._options, self._task_spec, list(deletes)
        named = [(uri, None, None, add) for uri, _, add, _, _ in self._located]
        adds = spark.createDataFrame(named, "file string, row long, act int, add binary")
        places = rows.select(F.col(FILE), F.col(ROW), F.col(ACT).cast("int"), F.lit(None).cast("binary"))

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import delete_rows

            yield from delete_rows(location, options, spec, deleting, records, batches)

        # One task receives a file's rows together with its add action.
        outcomes, _ = run_tasks(adds.unionAll(places).repartition("file"), task, (location, options))
        done = [_native.TaskOutcome(outcome) for outcome in outcomes]
        native.adopt(done)
        if twice := sum(task_result.twice for task_result in done):
            raise several_matches(twice)
        counts: dict[int, int] = {}
        for task_result in done:
            for act, number in task_result.taken_out.items():
                counts[act] = counts.get(act, 0) + number
        return counts

    # --- rows that come -------------------------------------------------------------------------------------------------

    def changed(self, new: NewRows) -> DataFrame:
        """Rows with their new values, in the table's types and with their ids; call it after
        `delete_rows`.

        Raises:
            SchemaMismatchError: a value with an incompatible type, or with other fields.
        """
        if not self.stored_ids:
            return self._without_parts(new)
        return self._stored_changes(self._with_ids(self._assigned_rows(new)), new.assigned)

    def without_ids(self, new: NewRows) -> DataFrame:
        """The rows of `changed` without their ids, which `delete_rows` has to find first: for
        checks before it. Errors are those of `changed`.

        Each value that is stored in a field of a struct is also a column of its own, since Spark
        evaluates a constant at once only outside of a struct with other fields.
        """
        own_names = {field["name"].lower() for field in self.fields}
        parts = [
            part
            for field in self.fields
            if (node := new.assigned.tree.get(field["name"])) is not None
            for part in _assigned_parts(field["name"], field["type"], node, new.values, new.types)
            if part[0].lower() not in own_names
        ]
        if not parts:
            return self._without_parts(new)
        nested = StructType.fromJson({"fields": [_nullable(path, data_type) for path, _, data_type in parts]})
        rows = self._assigned_rows(new, [value.alias(path) for path, value, _ in parts])
        return self._stored_changes(rows, new.assigned, nested)

    def _without_parts(self, new: NewRows) -> DataFrame:
        """The rows in the table's types, analysed once for the check and for the write."""
        if new.stored is None:
            new.stored = self._stored_changes(self._assigned_rows(new), new.assigned)
        return new.stored

    def _assigned_rows(self, new: NewRows, parts: Sequence[Column] = ()) -> DataFrame:
        """The table's columns with their new values, the positions of the rows, and `parts`."""
        columns, was = [], self._target.snapshot.schema.to_value()["fields"]
        for field in self.fields:
            name = field["name"]
            before = new.old.get(name, F.lit(None))
            node = new.assigned.tree.get(name)
            _check_structs(name, field["type"], node, new.types, new.evolves)
            own = field_of(was, name) if name in new.old else None
            of_old = None if own is None else own["type"]
            after = before if node is None else _assigned(before, of_old, field["type"], node, new.values)
            columns.append(after.alias(name))
        beside = [F.col(FILE), F.col(ROW)] + ([F.col(ROW_ID)] if self.stored_ids else [])
        return new.rows.select(*columns, *beside, *parts)

    def _stored_changes(self, new: DataFrame, assigned: AssignedColumns, beside: StructType | None = None) -> DataFrame:
        """Converts changed rows to the types of the table, without the columns that are generated
        from the new values; `beside` are further columns."""
        generated = self._generated - assigned.columns
        fields = [f for f in self.schema.fields if f.name not in generated] + list(beside or ())
        return self._stored(
            new, StructType([*fields, *(f for f in new.schema.fields if f.name == hidden_columns.ROW_ID)])
        )

    def check(self, rows: DataFrame) -> None:
        """Has Spark analyse and optimise rows that may never be written: a constant that its column
        can't hold is refused also where no row gets it, as in delta-spark.

        Raises:
            PySparkException: such a constant.
            InvalidArgumentError: a number that is out of its column's range.
        """
        with _stored_numbers():
            self._target.jvm.optimize(rows)

    def _with_ids(self, rows: DataFrame) -> DataFrame:
        """Adds the previous row ids to rows (P142)."""
        first = [(uri, base) for uri, _, _, base, _ in self._located]
        files = self._target.spark.createDataFrame(first, f"{FILE}_of string, {ROW_ID}_of_first long")
        joined = rows.join(F.broadcast(files), F.col(FILE) == F.col(f"{FILE}_of"))
        return joined.withColumn(
            hidden_columns.ROW_ID, F.coalesce(F.col(ROW_ID), F.col(f"{ROW_ID}_of_first") + F.col(ROW))
        )

    def inserted(
        self, rows: DataFrame, columns: Sequence[str], values: Sequence[Column], *, lacks: bool = True
    ) -> DataFrame:
        """New rows with these columns, in the table's types. `lacks`: whether structs may lack
        fields of the table.

        Raises:
            SchemaMismatchError: a value with an incompatible type, or with other fields.
        """
        new = rows.select(*[value.alias(name) for name, value in zip(columns, values, strict=True)])
        types = {f.name: f.dataType.jsonValue() for f in new.schema.fields}
        for field in self.fields:
            if field["name"] in types:
                check_whole(field["name"], field["type"], types[field["name"]], lacks=lacks)
        return self._stored(new, StructType([f for f in self.schema.fields if f.name in columns]))

    def _stored(self, rows: DataFrame, schema: StructType) -> DataFrame:
        """Converts rows to the types of these columns."""
        try:
            spark = self._target.spark
            return stored(rows, schema, store_policy(spark, changes_rows=True), checks=not follows_ansi(spark))
        except AnalysisException as e:
            raise SchemaMismatchError(
                f"a value doesn't fit its column, cast it: {e}", table=self._target.location
            ) from e

    def write(
        self, frames: Sequence[DataFrame], change: str | None, *, inserts: bool = False, broken: Column | None = None
    ) -> int:
        """Writes rows in one job, recorded as this change; returns their number. `broken` is a
        further check of a row.

        Raises:
            ConstraintViolationError: a row violates a rule of the table.
        """
        if not frames:
            return 0
        checked = [ruled(frame, self._spec, self._target.location, [hidden_columns.ROW_ID]) for frame in frames]
        nothing = F.lit(None).cast("string")
        judged = [
            frame.withColumn(
                _BROKEN, F.coalesce(*(error for error in (of_rules, broken) if error is not None), nothing)
            )
            for frame, of_rules in checked
        ]
        rows = reduce(lambda a, b: a.unionByName(b), judged)
        names = [name for name in rows.columns if name != _BROKEN]
        rows = rebalanced(rows, self._spec.partition_columns)
        rows = rows.select(*map(quoted, names), _BROKEN).toDF(*[f"c{i}" for i in range(len(names) + 1)])
        location, options, spec = self._place, self._options, self._task_spec
        first, shown = self._tasks if inserts else None, [*names, ""]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            from deltaplane.spark.execution.write_tasks import write_changed

            named = (b.rename_columns(shown) for b in batches)
            yield from write_changed(location, options, spec, change, first, named)

        with _stored_numbers():
            outcomes, refusals = run_tasks(rows, task, (location, options))
        done = [_native.TaskOutcome(outcome) for outcome in outcomes]
        self._job.native.adopt(done)
        raise_refusal(refusals, location)
        # Tasks of a later job continue the identity values behind those of the earlier tasks.
        self._tasks = max([self._tasks, *(task_result.task + 1 for task_result in done)])
        return sum(task_result.written_rows for task_result in done)


def _assigned(old: Column, was: Any, data_type: Any, node: Node, values: Sequence[Column]) -> Column:
    """A column of this type with the new values in it; the other fields of a struct that was null
    are null, as in Spark.

    `was` is its type before the command, None for a column or field that the command adds. Of added
    columns the result has only the assigned fields.
    """
    if node.value is not None:
        return values[node.value]
    before = [] if was is None or isinstance(was, str) else was["fields"]
    parts = []
    for field in data_type["fields"]:
        own, below = field_of(before, field["name"]), node.below.get(field["name"])
        part = F.lit(None) if own is None else old.getField(own["name"])
        if below is not None:
            part = _assigned(part, None if own is None else own["type"], field["type"], below, values)
        if below is not None or own is not None:
            parts.append(part.alias(field["name"]))
    made = F.struct(*parts)
    return made if node.null_if is None else F.when(~(values[node.null_if] & old.isNull()), made)


def _nullable(name: str, data_type: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}


def _assigned_parts(
    name: str, data_type: Any, node: Node, values: Sequence[Column], types: Sequence[Any]
) -> Iterator[tuple[str, Column, Any]]:
    """The primitive values that are stored in fields of a column's structs: path, value and the
    field's type."""
    if node.value is not None:
        yield from _primitive_parts(name, data_type, values[node.value], types[node.value])
        return
    for field in data_type["fields"]:
        if (below := node.below.get(field["name"])) is not None:
            yield from _assigned_parts(f"{name}.{field['name']}", field["type"], below, values, types)


def _primitive_parts(name: str, data_type: Any, value: Column, source: Any) -> Iterator[tuple[str, Column, Any]]:
    if isinstance(data_type, str) and isinstance(source, str):
        yield name, value, data_type
    elif isinstance(data_type, dict) and data_type["type"] == "struct" and isinstance(source, dict):
        for field in data_type["fields"]:
            if (own := field_of(source.get("fields", ()), field["name"])) is not None:
                part = value.getField(own["name"])
                yield from _primitive_parts(f"{name}.{field['name']}", field["type"], part, own["type"])


def _check_structs(name: str, data_type: Any, node: Node | None, types: Sequence[Any], evolves: bool) -> None:
    """Refuses values whose fields differ from their column's."""
    if node is None:
        return
    if node.value is not None:
        check_whole(name, data_type, types[node.value], lacks=evolves)
        return
    for field in data_type["fields"]:
        _check_structs(f"{name}.{field['name']}", field["type"], node.below.get(field["name"]), types, evolves)
