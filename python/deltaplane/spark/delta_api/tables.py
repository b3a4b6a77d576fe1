"""`delta.tables` for this package: `DeltaTable` with delta-spark's methods, builders, arguments and
results.

Rows are changed by Spark's tasks; what only touches the log is the embedded table's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, overload

from pyspark.sql.types import StructType

import deltaplane
from deltaplane import _native
from deltaplane.commands.clone import Clone
from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.merge.clauses import Action, Clause, Kind, check
from deltaplane.commands.optimize import Layout
from deltaplane.commands.rewriting import CommandResult, Settings, Target
from deltaplane.commands.vacuum import Vacuum
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError
from deltaplane.expr import Columns, columns_of
from deltaplane.report.describe import RESTORED, detail_row, history_rows
from deltaplane.schema import Schema
from deltaplane.spark.datasource.delta_options import (
    change_properties,
    checks_retention,
    commit_properties,
    merges_schema,
    retention_hours,
)
from deltaplane.spark.datasource.time_travel import version_at
from deltaplane.spark.delta_api.by_client import ClientTable, newest_rows
from deltaplane.spark.delta_api.drop_feature import refuse_fixed
from deltaplane.spark.delta_api.history import detail_frame, history_frame
from deltaplane.spark.delta_api.optimize_result import Optimized, now_ms, optimized_frame
from deltaplane.spark.delta_api.parquet_tables import convert
from deltaplane.spark.delta_api.table_builder import DeltaTableBuilder, IdentityGenerator, Replaces, names_of
from deltaplane.spark.dml.conditions import clear
from deltaplane.spark.dml.delete import delete
from deltaplane.spark.dml.merge import SparkMerge, merge
from deltaplane.spark.dml.optimize import clone_by_tasks, optimize_by_tasks, vacuum_by_tasks
from deltaplane.spark.dml.rewriting import Expression, SparkTarget
from deltaplane.spark.dml.update import update
from deltaplane.spark.errors.spark_errors import with_spark_errors
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.jvm.internals import Jvm, is_connect, let_go_of_catalog
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.moments import moment
from deltaplane.spark.jvm.names import location_of, path_of
from deltaplane.spark.scan.read import live_frame
from deltaplane.write.convert import convert_to_deltalake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]

# The storage option by which files outside of a table are read.
_EXTERNAL = "allow_external_files"

_HIVE: Literal["hive"] = "hive"

_PART = r"(?:\w+|`(?:[^`]|``)+`)"
# A name in up to three parts; anything else is a path.
_NAME = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,2}}\s*")


@with_spark_errors
class DeltaTable:
    """A Delta table on a Spark session.

    Conditions and values are Spark SQL or `pyspark.sql.Column`s, with all of Spark's functions;
    those that give another result each time are refused in conditions. Each command is one commit;
    where it fails the table is as it was.

    >>> from deltaplane.spark import DeltaTable
    >>> _ = DeltaTable.create(spark).location("people").addColumn("id", "long").addColumn("name", "string").execute()
    >>> people = DeltaTable.forPath(spark, "people").alias("t")
    >>> new = spark.createDataFrame([(1, "ann"), (2, "bob")], "id long, name string")
    >>> merged = people.merge(new.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    >>> people.update("id = 2", {"name": "upper(name)"})
    >>> people.delete("id = 1")
    >>> people.toDF().collect()
    [Row(id=2, name='BOB')]
    """

    def __init__(
        self,
        spark: SparkSession,
        location: str,
        options: Mapping[str, str] | None = None,
        alias: str | None = None,
    ) -> None:
        let_go_of_catalog(spark)
        self._spark, self._location, self._options, self._alias = spark, location, options, alias
        # What the catalog holds the table by, where it was found so.
        self._name: str | None = None
        # The frames that `toDF` gave, by the table's columns: their columns may stand in conditions
        # and values.
        self._frames: dict[str, DataFrame] = {}

    # --- which table ----------------------------------------------------------------------------------------------------

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at a path. `hadoopConf` has settings of Spark's file systems (`fs.…`), and
        beside them deltaplane's storage options.

        Raises:
            TableNotFoundError: no table is there.
        """
        location, options = absolute_location(path), dict(hadoopConf or {}) or None
        if not _native.is_table(location, split_options(options)[0]):
            raise TableNotFoundError("no Delta table is here: create one, or give another path", table=location)
        return cls(sparkSession, location, options)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of a name: ``delta.`path` ``, or one that the session's catalog has a location
        for.

        Raises:
            TableNotFoundError: no such name, or no Delta table.
        """
        table = cls.forPath(sparkSession, location_of(sparkSession, tableOrViewName))
        table._name = None if path_of(tableOrViewName) is not None else tableOrViewName
        return table

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a Delta table is at a path."""
        return deltaplane.DeltaTable.is_deltatable(absolute_location(identifier))

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Begins a new table; an error if there is one."""
        return _builder(sparkSession, "error", must_exist=False)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Begins a new table; one that is there stays as it is."""
        return _builder(sparkSession, "ignore", must_exist=False)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Begins a table in place of the one that is there; an error if there is none."""
        return _builder(sparkSession, "overwrite", must_exist=True)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Begins a table, in place of the one that is there if there is one."""
        return _builder(sparkSession, "overwrite", must_exist=False)

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
    ) -> DeltaTable:
        """Makes a Delta table of Parquet files where they are; `identifier` is ``parquet.`path` ``,
        a path, or a Parquet table of the session's catalog, whose name is a Delta table's
        afterwards. One that is there already stays as it is.

        Raises:
            TableNotFoundError: the catalog has no such name.
            InvalidArgumentError: files that no table could hold so; says which.
        """
        schema = StructType.fromDDL(partitionSchema) if isinstance(partitionSchema, str) else partitionSchema
        columns = None if schema is None else Schema.from_json(schema.json())
        named = _NAME.fullmatch(identifier) is not None
        parts = [part.strip("`").replace("``", "`") for part in re.findall(_PART, identifier)] if named else []
        parts = parts or ["parquet", identifier]
        if not is_connect(sparkSession):
            return cls(sparkSession, convert(sparkSession, parts, columns)[0])
        if len(parts) != 2 or parts[0].lower() != "parquet":
            # Says that a client can't ask for names.
            location_of(sparkSession, identifier)
        location, strategy = absolute_location(parts[-1]), None if columns is None else _HIVE
        convert_to_deltalake(location, "ignore", columns, strategy)
        return cls(sparkSession, location)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for expressions."""
        table = DeltaTable(self._spark, self._location, self._options, aliasName)
        table._frames, table._name = self._frames, self._name
        return table

    # --- its rows -------------------------------------------------------------------------------------------------------

    def toDF(self) -> DataFrame:
        """The table's rows; each query sees the newest version. Its columns may stand in conditions
        and values of this table's commands. On Spark Connect the frame has the version that was the
        newest at its first query."""
        if is_connect(self._spark):
            rows = newest_rows(self._spark, self._location, split_options(self._options)[0])
            return rows if self._alias is None else rows.alias(self._alias)
        columns = self._target().snapshot.schema.to_json()
        if columns not in self._frames:
            self._frames[columns] = live_frame(self._spark, self._location, self._options)
        # The same columns, and a query of its own: one that ran keeps its files.
        frame = self._frames[columns].select("*")
        return frame if self._alias is None else frame.alias(self._alias)

    def delete(self, condition: Expression | None = None, *, dry_run: bool = False) -> DryRun | None:
        """Deletes the rows for which a condition is true, all rows without one.

        With `dry_run` nothing is written; returns what would be, which takes Spark's jobs as well.

        Raises:
            InvalidArgumentError: an append-only table (P100), or a condition that isn't the same
                each time.
            DeltaConcurrentModificationException: another writer changed such rows first; nothing
                was committed.
        """
        _check_expression(condition, "'condition'")
        condition = clear(self._spark, condition, self._columns())
        if is_connect(self._spark):
            return _rehearsed(self._of_client(dry_run).delete(condition))
        return _rehearsed(delete(self._target([condition]), condition, self._settings(dry_run)))

    def update(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,
        *,
        dry_run: bool = False,
    ) -> DryRun | None:
        """Gives columns new values in the rows for which a condition is true, in all rows without
        one.

        Args:
            condition: which rows.
            set: column, or field of a struct by its path → its value, over the row's old values.
            dry_run: as `delete`.

        Raises:
            SchemaMismatchError: a value of a type that the column doesn't take.
            ConstraintViolationError: a new value breaks a constraint (P101-P105).
            InvalidArgumentError, DeltaConcurrentModificationException: as `delete`.
        """
        values = _values(set, "'set'")
        _check_expression(condition, "'condition'")
        condition, known = clear(self._spark, condition, self._columns()), self._columns()
        values = {name: clear(self._spark, value, known, is_condition=False) for name, value in values.items()}
        if is_connect(self._spark):
            return _rehearsed(self._of_client(dry_run).update(values, condition))
        target = self._target([condition, *values.values()])
        return _rehearsed(update(target, values, condition, self._settings(dry_run)))

    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Begins a merge of a source's rows into the table; the source is evaluated once."""
        from pyspark.sql import DataFrame

        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError("Type of 'source' in merge must be DataFrame.")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        _check_expression(condition, "'condition'")
        condition = clear(self._spark, condition, self._columns(source))
        return DeltaMergeBuilder(self, SparkMerge(source, condition, []))

    def _columns(self, source: DataFrame | None = None) -> Columns:
        """Which names are columns of the newest version or of a merge's source."""
        known = columns_of(lambda: self._table()._snapshot.schema, self._alias)

        def has(parts: Sequence[str]) -> bool:
            brought = () if source is None else source.columns
            return known(parts) or parts[-1].lower() in map(str.lower, brought)

        return has

    # --- what it is and was -----------------------------------------------------------------------------------------------

    def history(self, limit: int | None = None) -> DataFrame:
        """What each of the newest commits said of itself, newest first."""
        return history_frame(self._spark, history_rows(self._table(), None if limit is None else max(limit, 0)))

    def detail(self) -> DataFrame:
        """Format, name, size, properties and protocol of the table, in one row."""
        return detail_frame(self._spark, detail_row(self._table()), self._name)

    # --- what may be done with it -----------------------------------------------------------------------------------------

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Supports what these protocol versions imply (P094).

        Raises:
            InvalidArgumentError: versions that don't exist or don't go together (P092).
        """
        for name, given in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            if not isinstance(given, int):
                raise ValueError(f"The {name} needs to be an integer but got '{type(given)}'.")
        # The properties by which delta-spark asks for versions and features; its history names
        # those.
        versions = {"delta.minReaderVersion": str(readerVersion), "delta.minWriterVersion": str(writerVersion)}
        self._table().alter.set_table_properties(versions)

    def addFeatureSupport(self, featureName: str) -> None:
        """Supports a table feature without using it yet; the protocol's versions rise where they
        must."""
        _check_type(featureName, str, "featureName", "a string")
        self._table().alter.set_table_properties({f"delta.feature.{featureName}": "supported"})

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Stops supporting a table feature, as `deltaplane.table.alter.TableAlterer.drop_feature`
        does, but for those that delta-spark refuses to drop."""
        _check_type(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            _check_type(truncateHistory, bool, "truncateHistory", "a boolean")
        table = self._table()
        refuse_fixed(table, featureName)
        table.alter.drop_feature(featureName, truncate_history=bool(truncateHistory))

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Deletes files that no version within the retention needs; returns an empty frame. As in
        delta-spark 4.4, any `retentionHours` but 0 is ignored with a warning: the table's
        `delta.deletedFileRetentionDuration` decides, unless the session's
        `spark.databricks.delta.vacuum.retentionWindowIgnore.enabled` is false.

        Raises:
            InvalidArgumentError: a retention shorter than the table's, unless the session's
                `spark.databricks.delta.retentionDurationCheck.enabled` is false.
        """
        hours = retention_hours(self._spark, None if retentionHours is None else float(retentionHours))
        enforced = checks_retention(self._spark)
        vacuum_by_tasks(self._spark, self._table(), Vacuum(hours, enforced, full=True, dry_run=False))
        return self._spark.createDataFrame([], StructType([]))

    def optimize(self) -> DeltaOptimizeBuilder:
        """Begins a rearrangement of the table's files."""
        return DeltaOptimizeBuilder(self)

    def generate(self, mode: str) -> None:
        """Writes manifests of the table's files for other programs; the mode is
        `symlink_format_manifest`."""
        _check_type(mode, str, "mode", "a string")
        if mode.lower() != "symlink_format_manifest":
            raise InvalidArgumentError(f"{mode!r} is no kind of manifest: use symlink_format_manifest")
        self._table().generate()

    def restoreToVersion(self, version: int) -> DataFrame:
        """Makes the table what it was at a version; returns what that came to, in one row."""
        _check_type(version, int, "version", "an int")
        return self._restored(self._table().restore(version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Makes the table what it was at a time, as `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss`, in the
        session's time zone unless it says another one."""
        _check_type(timestamp, str, "timestamp", "a string")
        at, table = moment(self._spark, timestamp), self._table()
        # The commit says the moment, not the version.
        version_at(table.location, table.storage_options, at, doing="DeltaTable.restoreToTimestamp")
        return self._restored(table.restore(at))

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Makes another table at a path, with copies of this one's files, or naming them
        (`isShallow`)."""
        return self._cloned(self._table(), target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """As `clone`, of a version of this table."""
        _check_type(version, int, "version", "an int")
        return self._cloned(self._table(version), target, isShallow, replace, properties)

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """As `clone`, of this table as it was at a time, as `restoreToTimestamp` takes it."""
        _check_type(timestamp, str, "timestamp", "a string")
        options = split_options(self._options)[0]
        version = version_at(self._location, options, moment(self._spark, timestamp))
        return self._cloned(self._table(version), target, isShallow, replace, properties)

    # --- within -----------------------------------------------------------------------------------------------------------

    def _table(self, version: int | None = None) -> deltaplane.DeltaTable:
        """A version, the newest unless given, without Spark."""
        return deltaplane.DeltaTable(self._location, version, storage_options=split_options(self._options)[0])

    def _cloned(
        self, of: deltaplane.DeltaTable, target: str, shallow: bool, replaces: bool, properties: dict[str, str] | None
    ) -> DeltaTable:
        _check_type(target, str, "target", "a string")
        for name, given in (("isShallow", shallow), ("replace", replaces)):
            _check_type(given, bool, name, "a boolean")
        if properties is not None:
            _check_type(properties, dict, "properties", "a dict")
            for key, value in properties.items():
                _check_type(key, str, f"All property keys including {key}", "a string")
                _check_type(value, str, f"All property values including {value}", "a string")
        location = absolute_location(target)
        what = Clone(shallow, replaces, properties or {})
        clone_by_tasks(self._spark, of, location, what, of.storage_options)
        options = self._options
        if shallow:
            # Its files are this table's, which whoever clones it trusts.
            options = {**(options or {}), _EXTERNAL: self._location}
        return DeltaTable(self._spark, location, options)

    def _of_client(self, dry_run: bool) -> ClientTable:
        """The newest version, whose commands run without Spark."""
        options, _ = split_options(self._options)
        target = Target(self._location, _native.Snapshot.open(self._location, options))
        return ClientTable(target, self._settings(dry_run), self._alias)

    def _target(self, expressions: Iterable[Expression | None] = ()) -> SparkTarget:
        store_options, _ = split_options(self._options)
        snapshot = _native.Snapshot.open(self._location, store_options)
        return SparkTarget(
            self._location, snapshot, self._spark, self._options, self._alias, self._mentioned(expressions)
        )

    def _mentioned(self, expressions: Iterable[Expression | None]) -> DataFrame | None:
        """The newest frame of `toDF` whose columns stand in these expressions."""
        columns = [one for one in expressions if one is not None and not isinstance(one, str)]
        if not self._frames or not columns:
            return None
        jvm = Jvm.of(self._spark)
        frames = reversed(self._frames.values())
        return next((frame for frame in frames if any(jvm.mentions(one, frame) for one in columns)), None)

    def _settings(self, dry_run: bool = False) -> Settings:
        return Settings(commit=change_properties(self._spark, dry_run=dry_run), dry_run=dry_run)

    def _restored(self, metrics: Mapping[str, Any]) -> DataFrame:
        """One row of delta-spark's columns."""
        recache(self._spark)
        numbers = [metrics.get(name, 0) for name in RESTORED.values()]
        return self._spark.createDataFrame([tuple(numbers)], ", ".join(f"{name} long" for name in RESTORED))


@with_spark_errors
class DeltaMergeBuilder:
    """A merge to be run by `execute`. Clauses of a kind are tried in their order: the first one
    whose condition is true applies, and only the last may have none. `DeltaTable` has an example.
    """

    def __init__(self, table: DeltaTable, what: SparkMerge) -> None:
        self._table, self._what = table, what

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,
    ) -> DeltaMergeBuilder:
        """Gives columns new values in rows that match; without any and without a condition it is no
        clause."""
        return self._updates("matched", condition, _values(set, "'set' in whenMatchedUpdate"))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Gives each column of the source to the table's column of its name, in rows that match."""
        return self._with("matched", "update", condition)

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Deletes rows that match."""
        return self._with("matched", "delete", condition)

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Adds rows of the source that match none; columns without a value get what the table gives
        them."""
        return self._with("not_matched", "insert", condition, _values(values, "'values' in whenNotMatchedInsert"))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Adds rows of the source that match none, with its columns."""
        return self._with("not_matched", "insert", condition)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,
    ) -> DeltaMergeBuilder:
        """Gives columns new values in rows of the table that match none of the source."""
        given = _values(set, "'set' in whenNotMatchedBySourceUpdate")
        return self._updates("not_matched_by_source", condition, given)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Deletes rows of the table that match none of the source."""
        return self._with("not_matched_by_source", "delete", condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Adds columns that only the source has to the table, where a clause uses them."""
        return DeltaMergeBuilder(self._table, replace(self._what, merge_schema=True))

    @overload
    def execute(self, *, dry_run: Literal[False] = False) -> DataFrame: ...

    @overload
    def execute(self, *, dry_run: Literal[True]) -> DryRun: ...

    def execute(self, *, dry_run: bool = False) -> DataFrame | DryRun:
        """Runs the merge as one commit.

        Args:
            dry_run: as `DeltaTable.delete`; the source is evaluated for it.

        Returns:
            One row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`,
            `num_inserted_rows`.

        Raises:
            InvalidArgumentError: no clause, one that can never apply, one that isn't the same each
                time, an unknown column, several rows of the source that change one row, or an
                append-only table (P100).
            SchemaMismatchError: a value of a type that its column doesn't take.
            ConstraintViolationError: a new row or value breaks a constraint (P101-P105).
            DeltaConcurrentModificationException: another writer changed what the merge read first;
                nothing was committed.
        """
        check(self._what.clauses)
        session, table = self._table._spark, self._table
        evolves = self._what.merge_schema or merges_schema(session)
        expressions = [self._what.condition]
        for clause in self._what.clauses:
            expressions += [clause.condition, *(clause.values or {}).values()]
        what = replace(self._what, merge_schema=evolves)
        if is_connect(session):
            metrics = table._of_client(dry_run).merge(what)
        else:
            metrics = merge(table._target(expressions), what, table._settings(dry_run))
        if isinstance(metrics, DryRun):
            return metrics
        done = [metrics.get(f"numTargetRows{what}", 0) for what in ("Updated", "Deleted", "Inserted")]
        columns = ("num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows")
        return session.createDataFrame([(sum(done), *done)], ", ".join(f"{name} long" for name in columns))

    def _updates(self, kind: Kind, condition: Expression | None, values: Mapping[str, Any]) -> DeltaMergeBuilder:
        return self._with(kind, "update", condition, values) if values or condition is not None else self

    def _with(
        self, kind: Kind, action: Action, condition: Expression | None, values: Mapping[str, Any] | None = None
    ) -> DeltaMergeBuilder:
        _check_expression(condition, "'condition'")
        known, spark = self._table._columns(self._what.source), self._table._spark
        condition = clear(spark, condition, known)
        if values is not None:
            values = {name: clear(spark, value, known, is_condition=False) for name, value in values.items()}
        clause = Clause(kind, action, condition, values)
        return DeltaMergeBuilder(self._table, replace(self._what, clauses=[*self._what.clauses, clause]))


@with_spark_errors
class DeltaOptimizeBuilder:
    """A rearrangement of the table's files, to be run by `executeCompaction` or
    `executeZOrderBy`."""

    def __init__(self, table: DeltaTable, partition_filter: str | None = None) -> None:
        self._table, self._filter = table, partition_filter

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Limits it to the partitions for which a condition is true."""
        _check_type(partitionFilter, str, "partitionFilter", "a string")
        return DeltaOptimizeBuilder(self._table, partitionFilter)

    def executeCompaction(self) -> DataFrame:
        """Makes large files of small ones, each group of them in a Spark task; clusters a clustered
        table.

        Returns:
            One row: the table's `path`, and `metrics`, under delta-spark's names.

        Raises:
            InvalidArgumentError: a condition over other columns than partitions'.
        """
        return self._run(())

    def executeZOrderBy(self, *cols: str | Sequence[str]) -> DataFrame:
        """Writes the rows anew along a curve through these columns; returns what
        `executeCompaction` does.

        Raises:
            InvalidArgumentError: a partition column, or one that rows can't be ordered by; as
                `executeCompaction`.
        """
        return self._run(names_of(cols, "Z-order column must be str."))

    def _run(self, columns: Sequence[str]) -> DataFrame:
        table = self._table
        target, settings = table._target(), Settings(commit=commit_properties(table._spark))
        self._check(target, target.snapshot.info.partition_columns, columns)
        what = Layout(self._filter, columns, "zorder" if columns else None)
        began = now_ms()
        metrics = optimize_by_tasks(target, what, settings)
        done = Optimized.of(metrics, table._table(), ordered=bool(columns), started_ms=began)
        return optimized_frame(table._spark, table._location, done)

    def _check(self, target: SparkTarget, partitions: Sequence[str], columns: Sequence[str]) -> None:
        """Refuses columns as delta-spark does, whose words scripts know."""
        lower = {name.lower() for name in partitions}
        for name in columns:
            if name.lower() in lower:
                raise InvalidArgumentError(
                    f"{name} is a partition column. Z-Ordering can only be performed on data columns",
                    table=target.snapshot.uri,
                )
        # The core refuses such a condition too.
        if self._filter is None or is_connect(self._table._spark):
            return
        for name in target.jvm.names_in(self._table.toDF().where(self._filter)):
            if name.lower() not in lower:
                raise InvalidArgumentError(
                    f"Predicate references non-partition column '{name}'. Only the partition columns may be referenced: "
                    f"[{', '.join(partitions)}]",
                    table=target.snapshot.uri,
                )


def _rehearsed(done: CommandResult) -> DryRun | None:
    """What a command would do; delta-spark's commands return nothing."""
    return done if isinstance(done, DryRun) else None


def _builder(session: SparkSession | None, replaces: Replaces, *, must_exist: bool) -> DeltaTableBuilder:
    from pyspark.sql import SparkSession

    active = session or SparkSession.getActiveSession()
    if active is None:
        raise InvalidArgumentError("no Spark session is active: give one")

    return DeltaTableBuilder(active, replaces, must_exist, lambda location: DeltaTable(active, location))


def _check_type(given: Any, kind: type, name: str, says: str) -> None:
    if not isinstance(given, kind):
        raise ValueError(f"{name} needs to be {says} but got '{type(given)}'.")


def _check_expression(given: Any, name: str) -> None:
    from pyspark.sql import Column

    if given is not None and not isinstance(given, (str, Column)):
        raise TypeError(
            f"{name} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(given)}"
        )


def _values(given: Any, name: str) -> dict[str, Expression]:
    from pyspark.sql import Column

    if given is None:
        raise ValueError(f"{name} cannot be None")
    if not isinstance(given, dict):
        raise TypeError(f"{name} must be a dict, found to be {type(given)}")
    for column, value in given.items():
        if not isinstance(column, str):
            raise TypeError(
                f"Keys of dict in {name} must contain only strings with column names, found '{column}' of type "
                f"'{type(column)}'"
            )
        if not isinstance(value, (str, Column)):
            raise TypeError(
                f"Values of dict in {name} must contain only Spark SQL Columns or strings (expressions in SQL syntax) as "
                f"values, found '{value}' of type '{type(value)}'"
            )
    return dict(given)
