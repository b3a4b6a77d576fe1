"""Implements `delta.tables`: `DeltaTable` with delta-spark's methods, builders, arguments and
results.

Spark's tasks change rows; commands on the log alone use the embedded table.
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
from deltaplane.spark.execution.carried import place_of
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.jvm.internals import Jvm, is_connect, let_go_of_catalog
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.moments import moment
from deltaplane.spark.jvm.names import default_location, location_of, path_of
from deltaplane.spark.jvm.session_catalogs import full_name
from deltaplane.spark.scan.read import live_frame
from deltaplane.write.convert import convert_to_deltalake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]

# The storage option that allows files outside of the table's directory.
_EXTERNAL = "allow_external_files"

_HIVE: Literal["hive"] = "hive"

_PART = r"(?:\w+|`(?:[^`]|``)+`)"
# Matches a name of up to three parts; any other text is a path.
_NAME = re.compile(rf"\s*{_PART}(?:\s*\.\s*{_PART}){{0,2}}\s*")


@with_spark_errors
class DeltaTable:
    """A Delta table on a Spark session.

    Conditions and values are Spark SQL or `pyspark.sql.Column`s, with all of Spark's functions;
    nondeterministic ones are refused in conditions. Each command is one commit; a failed command
    leaves the table unchanged.

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
        # The table's catalog name, if it was opened by name.
        self._name: str | None = None
        # The frames returned by `toDF`, by the table's columns: conditions and values may use their
        # columns.
        self._frames: dict[str, DataFrame] = {}

    # --- which table ----------------------------------------------------------------------------------------------------

    @classmethod
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """Opens the table at a path. `hadoopConf` contains settings of Spark's file systems
        (`fs.…`) and deltaplane's storage options.

        Raises:
            TableNotFoundError: the path contains no table.
        """
        location, options = absolute_location(path), dict(hadoopConf or {}) or None
        if not deltaplane.DeltaTable.is_deltatable(location, split_options(options)[0]):
            raise TableNotFoundError("no Delta table is here: create one, or give another path", table=location)
        return cls(sparkSession, location, options)

    @classmethod
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """Opens a table by name: ``delta.`path` ``, or a name in the session's catalog.

        Raises:
            TableNotFoundError: the name doesn't exist, or isn't a Delta table's.
        """
        table = cls.forPath(sparkSession, location_of(sparkSession, tableOrViewName))
        table._name = None if path_of(tableOrViewName) is not None else tableOrViewName
        return table

    @classmethod
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether a path contains a Delta table."""
        return deltaplane.DeltaTable.is_deltatable(absolute_location(identifier))

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts the builder of a new table; fails if the table exists."""
        return _builder(sparkSession, "error", must_exist=False)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts the builder of a new table; an existing one stays unchanged."""
        return _builder(sparkSession, "ignore", must_exist=False)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts the builder of a replacement table; fails if the table doesn't exist."""
        return _builder(sparkSession, "overwrite", must_exist=True)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder:
        """Starts the builder of a table that replaces an existing one."""
        return _builder(sparkSession, "overwrite", must_exist=False)

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession,
        identifier: str,
        partitionSchema: str | StructType | None = None,
    ) -> DeltaTable:
        """Turns Parquet files into a Delta table in place; `identifier` is ``parquet.`path` ``, a
        path, or a Parquet table of the session's catalog, whose name becomes a Delta table's. An
        existing Delta table stays unchanged.

        Raises:
            TableNotFoundError: the catalog has no such name.
            InvalidArgumentError: files that can't form a table; the message names them.
        """
        schema = StructType.fromDDL(partitionSchema) if isinstance(partitionSchema, str) else partitionSchema
        columns = None if schema is None else Schema.from_json(schema.json())
        named = _NAME.fullmatch(identifier) is not None
        parts = [part.strip("`").replace("``", "`") for part in re.findall(_PART, identifier)] if named else []
        parts = parts or ["parquet", identifier]
        if not is_connect(sparkSession):
            return cls(sparkSession, convert(sparkSession, parts, columns)[0])
        if len(parts) != 2 or parts[0].lower() != "parquet":
            # Raises an error, since a Spark Connect client can't resolve names.
            location_of(sparkSession, identifier)
        location, strategy = absolute_location(parts[-1]), None if columns is None else _HIVE
        convert_to_deltalake(location, "ignore", columns, strategy)
        return cls(sparkSession, location)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under an alias for expressions."""
        table = DeltaTable(self._spark, self._location, self._options, aliasName)
        table._frames, table._name = self._frames, self._name
        return table

    # --- its rows -------------------------------------------------------------------------------------------------------

    def toDF(self) -> DataFrame:
        """The table's rows; each query reads the newest version. Conditions and values of this
        table's commands may use the frame's columns. On Spark Connect the frame stays at the
        version of its first query."""
        if is_connect(self._spark):
            rows = newest_rows(self._spark, self._location, split_options(self._options)[0])
            return rows if self._alias is None else rows.alias(self._alias)
        columns = self._target().snapshot.schema.to_json()
        if columns not in self._frames:
            self._frames[columns] = live_frame(self._spark, self._location, self._options)
        # A new frame with the same columns, since a frame that ran a query stays at its files.
        frame = self._frames[columns].select("*")
        return frame if self._alias is None else frame.alias(self._alias)

    def delete(self, condition: Expression | None = None, *, dry_run: bool = False) -> DryRun | None:
        """Deletes the rows that match a condition, or all rows without a condition.

        `dry_run` writes nothing and returns the planned changes; it runs Spark jobs as well.

        Raises:
            InvalidArgumentError: an append-only table (P100), or a nondeterministic condition.
            DeltaConcurrentModificationException: another writer changed matching rows first;
                nothing was committed.
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
        """Assigns new values to the rows that match a condition, or to all rows without a
        condition.

        Args:
            condition: selects the rows.
            set: column, or field of a struct by its path → its value, over the row's old values.
            dry_run: as in `delete`.

        Raises:
            SchemaMismatchError: a value's type is incompatible with its column.
            ConstraintViolationError: a new value violates a constraint (P101-P105).
            InvalidArgumentError, DeltaConcurrentModificationException: as in `delete`.
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
        """Builds a merge of a source's rows into the table; the source is evaluated once."""
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
        """Tells which names are columns of the newest version or of a merge's source."""
        known = columns_of(lambda: self._table()._snapshot.schema, self._alias)

        def has(parts: Sequence[str]) -> bool:
            brought = () if source is None else source.columns
            return known(parts) or parts[-1].lower() in map(str.lower, brought)

        return has

    # --- what it is and was -----------------------------------------------------------------------------------------------

    def history(self, limit: int | None = None) -> DataFrame:
        """The `commitInfo` of the newest commits, newest first."""
        return history_frame(self._spark, history_rows(self._table(), None if limit is None else max(limit, 0)))

    def detail(self) -> DataFrame:
        """Format, name, size, properties and protocol of the table, in one row."""
        return detail_frame(self._spark, detail_row(self._table()), self._name)

    # --- what may be done with it -----------------------------------------------------------------------------------------

    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Adds the features that these protocol versions imply (P094).

        Raises:
            InvalidArgumentError: the versions don't exist or can't be combined (P092).
        """
        for name, required in (("readerVersion", readerVersion), ("writerVersion", writerVersion)):
            if not isinstance(required, int):
                raise ValueError(f"The {name} needs to be an integer but got '{type(required)}'.")
        # The history records the properties by which delta-spark requests versions and features.
        versions = {"delta.minReaderVersion": str(readerVersion), "delta.minWriterVersion": str(writerVersion)}
        self._table().alter.set_table_properties(versions)

    def addFeatureSupport(self, featureName: str) -> None:
        """Adds a table feature without using it; raises the protocol's versions if necessary."""
        _check_type(featureName, str, "featureName", "a string")
        self._table().alter.set_table_properties({f"delta.feature.{featureName}": "supported"})

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Drops a table feature as `deltaplane.table.alter.TableAlterer.drop_feature` does, except
        those that delta-spark can't drop."""
        _check_type(featureName, str, "featureName", "a string")
        if truncateHistory is not None:
            _check_type(truncateHistory, bool, "truncateHistory", "a boolean")
        table = self._table()
        refuse_fixed(table, featureName)
        table.alter.drop_feature(featureName, truncate_history=bool(truncateHistory))

    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Deletes files that no version within the retention needs; returns an empty frame. As in
        delta-spark 4.4, any `retentionHours` except 0 is ignored with a warning: the table's
        `delta.deletedFileRetentionDuration` applies, unless the session's
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
        """Builds an OPTIMIZE of the table's files."""
        return DeltaOptimizeBuilder(self)

    def generate(self, mode: str) -> None:
        """Writes manifests of the table's files for other programs; the mode is
        `symlink_format_manifest`."""
        _check_type(mode, str, "mode", "a string")
        if mode.lower() != "symlink_format_manifest":
            raise InvalidArgumentError(f"{mode!r} is no kind of manifest: use symlink_format_manifest")
        self._table().generate()

    def restoreToVersion(self, version: int) -> DataFrame:
        """Restores the table to a version; returns the metrics in one row."""
        _check_type(version, int, "version", "an int")
        return self._restored(self._table().restore(version))

    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Restores the table to a time, as `yyyy-MM-dd` or `yyyy-MM-dd HH:mm:ss`, in the session's
        time zone unless the text has one."""
        _check_type(timestamp, str, "timestamp", "a string")
        instant, table = moment(self._spark, timestamp), self._table()
        # The commit records the timestamp, not the version.
        version_at(table.location, table.storage_options, instant, doing="DeltaTable.restoreToTimestamp")
        return self._restored(table.restore(instant))

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Creates another table at a path, with copies of this one's files, or with references to
        them (`isShallow`)."""
        return self._cloned(self._table(), target, isShallow, replace, properties)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Clones a version of this table, as `clone` does."""
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
        """Clones this table at a time, in the formats of `restoreToTimestamp`, as `clone` does."""
        _check_type(timestamp, str, "timestamp", "a string")
        options = split_options(self._options)[0]
        version = version_at(self._location, options, moment(self._spark, timestamp))
        return self._cloned(self._table(version), target, isShallow, replace, properties)

    # --- within -----------------------------------------------------------------------------------------------------------

    def _table(self, version: int | None = None) -> deltaplane.DeltaTable:
        """Opens a version, by default the newest, without Spark."""
        return deltaplane.DeltaTable(self._location, version, storage_options=split_options(self._options)[0])

    def _cloned(
        self,
        source: deltaplane.DeltaTable,
        target: str,
        shallow: bool,
        replaces: bool,
        properties: dict[str, str] | None,
    ) -> DeltaTable:
        _check_type(target, str, "target", "a string")
        for name, flag in (("isShallow", shallow), ("replace", replaces)):
            _check_type(flag, bool, name, "a boolean")
        if properties is not None:
            _check_type(properties, dict, "properties", "a dict")
            for key, value in properties.items():
                _check_type(key, str, f"All property keys including {key}", "a string")
                _check_type(value, str, f"All property values including {value}", "a string")
        own = full_name(self._spark, target) if target.count(".") == 2 else None
        location = absolute_location(target) if own is None else default_location(self._spark, own)
        what = Clone(shallow, replaces, properties or {})
        clone_by_tasks(self._spark, source, location, what, source.storage_options)
        options = self._options
        if shallow:
            # The clone refers to files of this table, which the user who clones it trusts.
            options = {**(options or {}), _EXTERNAL: place_of(self._location, source._snapshot.location)}
        return DeltaTable(self._spark, location, options)

    def _of_client(self, dry_run: bool) -> ClientTable:
        """The newest version with commands that run without Spark."""
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
        """The newest frame of `toDF` whose columns these expressions use."""
        columns = [
            expression for expression in expressions if expression is not None and not isinstance(expression, str)
        ]
        if not self._frames or not columns:
            return None
        jvm = Jvm.of(self._spark)
        frames = reversed(self._frames.values())
        return next((frame for frame in frames if any(jvm.mentions(expression, frame) for expression in columns)), None)

    def _settings(self, dry_run: bool = False) -> Settings:
        return Settings(commit=change_properties(self._spark, dry_run=dry_run), dry_run=dry_run)

    def _restored(self, metrics: Mapping[str, Any]) -> DataFrame:
        """The metrics of a restore, in one row with delta-spark's columns."""
        recache(self._spark)
        numbers = [metrics.get(name, 0) for name in RESTORED.values()]
        return self._spark.createDataFrame([tuple(numbers)], ", ".join(f"{name} long" for name in RESTORED))


@with_spark_errors
class DeltaMergeBuilder:
    """A merge, run by `execute`. Clauses of a kind are tried in their order: the first one with a
    true condition applies, and only the last may lack a condition. `DeltaTable` has an example.
    """

    def __init__(self, table: DeltaTable, what: SparkMerge) -> None:
        self._table, self._what = table, what

    def whenMatchedUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,
    ) -> DeltaMergeBuilder:
        """Updates matched rows with new values; a call without values and condition adds no
        clause."""
        return self._updates("matched", condition, _values(set, "'set' in whenMatchedUpdate"))

    def whenMatchedUpdateAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Updates matched rows with all of the source's columns, by name."""
        return self._with("matched", "update", condition)

    def whenMatchedDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Deletes matched rows."""
        return self._with("matched", "delete", condition)

    def whenNotMatchedInsert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> DeltaMergeBuilder:
        """Inserts source rows without a match; columns without a value get their default, generated
        or identity value, or null."""
        return self._with("not_matched", "insert", condition, _values(values, "'values' in whenNotMatchedInsert"))

    def whenNotMatchedInsertAll(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Inserts source rows without a match, with the source's columns."""
        return self._with("not_matched", "insert", condition)

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Expression | None = None,
        set: Mapping[str, Expression] | None = None,
    ) -> DeltaMergeBuilder:
        """Updates table rows without a match."""
        values = _values(set, "'set' in whenNotMatchedBySourceUpdate")
        return self._updates("not_matched_by_source", condition, values)

    def whenNotMatchedBySourceDelete(self, condition: Expression | None = None) -> DeltaMergeBuilder:
        """Deletes table rows without a match."""
        return self._with("not_matched_by_source", "delete", condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Adds columns that only the source has to the table, if a clause uses them."""
        return DeltaMergeBuilder(self._table, replace(self._what, merge_schema=True))

    @overload
    def execute(self, *, dry_run: Literal[False] = False) -> DataFrame: ...

    @overload
    def execute(self, *, dry_run: Literal[True]) -> DryRun: ...

    def execute(self, *, dry_run: bool = False) -> DataFrame | DryRun:
        """Runs the merge as one commit.

        Args:
            dry_run: as in `DeltaTable.delete`; evaluates the source.

        Returns:
            One row: `num_affected_rows`, `num_updated_rows`, `num_deleted_rows`,
            `num_inserted_rows`.

        Raises:
            InvalidArgumentError: no clause, an unreachable one, a nondeterministic one, an unknown
                column, several source rows that change one row, or an append-only table (P100).
            SchemaMismatchError: a value's type is incompatible with its column.
            ConstraintViolationError: a new row or value violates a constraint (P101-P105).
            DeltaConcurrentModificationException: another writer first changed rows that the merge
                read; nothing was committed.
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
    """An OPTIMIZE of the table's files, run by `executeCompaction` or `executeZOrderBy`."""

    def __init__(self, table: DeltaTable, partition_filter: str | None = None) -> None:
        self._table, self._filter = table, partition_filter

    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Limits it to the partitions that match a condition."""
        _check_type(partitionFilter, str, "partitionFilter", "a string")
        return DeltaOptimizeBuilder(self._table, partitionFilter)

    def executeCompaction(self) -> DataFrame:
        """Joins small files, each group in a Spark task; orders the rows of a clustered table.

        Returns:
            One row: the table's `path`, and `metrics`, under delta-spark's names.

        Raises:
            InvalidArgumentError: a condition over other columns than partition columns.
        """
        return self._run(())

    def executeZOrderBy(self, *cols: str | Sequence[str]) -> DataFrame:
        """Orders the rows along a Z-order curve through these columns; returns the same as
        `executeCompaction`.

        Raises:
            InvalidArgumentError: a partition column, or a column without an order; or an error as
                in `executeCompaction`.
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
        """Refuses columns as delta-spark does, with the same messages, since scripts look for
        these."""
        lower = {name.lower() for name in partitions}
        for name in columns:
            if name.lower() in lower:
                raise InvalidArgumentError(
                    f"{name} is a partition column. Z-Ordering can only be performed on data columns",
                    table=target.snapshot.uri,
                )
        # The core refuses such a condition as well.
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
    """The result of a dry run; delta-spark's commands return nothing."""
    return done if isinstance(done, DryRun) else None


def _builder(session: SparkSession | None, replaces: Replaces, *, must_exist: bool) -> DeltaTableBuilder:
    from pyspark.sql import SparkSession

    active = session or SparkSession.getActiveSession()
    if active is None:
        raise InvalidArgumentError("no Spark session is active: give one")

    return DeltaTableBuilder(active, replaces, must_exist, lambda location: DeltaTable(active, location))


def _check_type(value: Any, kind: type, name: str, says: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} needs to be {says} but got '{type(value)}'.")


def _check_expression(expression: Any, name: str) -> None:
    from pyspark.sql import Column

    if expression is not None and not isinstance(expression, (str, Column)):
        raise TypeError(
            f"{name} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(expression)}"
        )


def _values(assigned: Any, name: str) -> dict[str, Expression]:
    from pyspark.sql import Column

    if assigned is None:
        raise ValueError(f"{name} cannot be None")
    if not isinstance(assigned, dict):
        raise TypeError(f"{name} must be a dict, found to be {type(assigned)}")
    for column, value in assigned.items():
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
    return dict(assigned)
