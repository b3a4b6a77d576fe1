"""CREATE [OR REPLACE] TABLE [IF NOT EXISTS], and REPLACE TABLE: with columns, with the rows of a
query, with only a LOCATION, or without columns, which later writes add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError, TableNotFoundError
from deltaplane.properties import CommitOperation
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.row_finder import may_read
from deltaplane.queries.rules import Text
from deltaplane.queries.running import prepared
from deltaplane.queries.sources import Catalog
from deltaplane.queries.syntax import Query, TableName
from deltaplane.schema import Schema
from deltaplane.statements.clone import Clone, is_clone, read_clone
from deltaplane.statements.common.columns import Declaration, check, declaration, properties, refuse_reserved
from deltaplane.statements.common.on_spark import new_rows_on_spark
from deltaplane.statements.common.statement import Session, Statement, one_row, runs_tasks
from deltaplane.statements.common.streamed import StreamedRows
from deltaplane.statements.like import CreateLike, read_like
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.api import write_deltalake

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = ["STATEMENTS"]


Mode = Literal["error", "overwrite", "ignore"]


@dataclass(frozen=True)
class Create:
    """The new table. `mode` is the handling of an existing table; with `must_exist` a missing one
    is an error."""

    table: TableName
    cursor: Grammar
    mode: Mode
    must_exist: bool = False
    columns: list[Declaration] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)
    partition_by: list[str] | None = None
    cluster_by: list[str] | None = None
    comment: str | None = None
    location: str | None = None
    # The comment among the table's properties, which COMMENT and OPTIONS precede.
    properties_comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    rows: Query | None = None
    rows_token: int = 0
    # Whether a catalog chose the location.
    managed: bool = False
    # Whether the statement names the format.
    uses: bool = field(default=False, compare=False)

    @property
    def takes_memory(self) -> bool:
        """Whether DuckDB may compute rows for the table."""
        return self.rows is not None

    def run(self, session: Session) -> pa.Table:
        """Creates the table in one commit."""
        location, options = self._location(session.catalog), session.catalog.storage_options
        names = session.catalog.names if self.location is not None and self.table.path is None else None
        if names is not None and names.exists(self.table.shown):
            if self.mode == "ignore":
                return one_row(operation="CREATE TABLE", version=None)
            raise TableAlreadyExistsError(f"the catalog has a table {self.table.shown}", table=location)
        there = DeltaTable.is_deltatable(location, options)
        if self.must_exist and not there:
            raise TableNotFoundError("REPLACE TABLE needs a table: use CREATE OR REPLACE TABLE", table=location)
        operation = "CREATE TABLE" if self.rows is None else "CREATE TABLE AS SELECT"
        if self.rows is None and not self.columns:
            if self.mode == "overwrite":
                raise InvalidArgumentError(
                    "what replaces a table has columns: declare them in parentheses, or use AS and a query",
                    table=location,
                )
            if self.location is not None and (there or not self.uses):
                # The statement only registers a name for the existing table.
                if names is not None:
                    names.register(self.table.shown, location)
                return one_row(operation=operation, version=DeltaTable(location, storage_options=options).version())
        if there and self.mode == "ignore":
            return one_row(operation=operation, version=None)
        with self.cursor.located(self.table.token):
            replaced = DeltaTable(location, storage_options=options) if there and self.mode == "overwrite" else None
            if self.rows is not None:
                version = self._filled(session, location, self.rows, replaced)
            else:
                schema = Schema([column.field for column in self.columns])
                if session.spark is not None:
                    self._check_on_spark(schema)
                version = DeltaTable.create(
                    location,
                    schema,
                    self.mode,
                    self.partition_by,
                    None,
                    self.comment,
                    self._properties(session),
                    options,
                    cluster_by=self.cluster_by,
                    operation=self._operation,
                ).version()
        if names is not None:
            names.register(self.table.shown, location)
        return one_row(operation=operation, version=version)

    def _properties(self, session: Session) -> dict[str, str]:
        """The statement's properties, and the session's defaults for new tables."""
        if session.spark is None or not runs_tasks(session.spark):
            return self.properties
        from deltaplane.spark.datasource.delta_options import default_properties

        return default_properties(session.spark, self.properties)

    def _check_on_spark(self, schema: Schema) -> None:
        from deltaplane.spark.delta_api.property_rules import refuse_properties

        refuse_properties(self.properties, schema.fields, self.partition_by or [])

    @property
    def _operation(self) -> CommitOperation:
        fills, replaces = self.rows is not None, self.mode == "overwrite"
        statement = "REPLACE TABLE" if self.must_exist else "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE"
        return CommitOperation.definition(statement, fills=fills, replaces=replaces, managed=self.managed)

    def _filled(self, session: Session, location: str, rows: Query, replaced: DeltaTable | None) -> int | None:
        """Writes the rows of the query, which may read the table that they replace; returns the
        version."""
        catalog = session.catalog
        if session.spark is not None:
            return self._filled_by_spark(session, session.spark, location, replaced)
        if replaced is not None:
            catalog.hold(replaced)
        query = prepared(rows, self.cursor, catalog, session.memory)
        _check_named(query.names)
        _check_names(query.names)
        result = query.result()
        data = result.to_arrow() if session.memory is None else StreamedRows(result, query.names).reader()
        is_read = replaced is not None and may_read(catalog.opened.values(), replaced)
        written = write_deltalake(
            location,
            data,
            partition_by=self.partition_by,
            mode=self.mode,
            description=self.comment,
            configuration=self.properties,
            schema_mode="overwrite" if self.mode == "overwrite" else None,
            storage_options=catalog.storage_options,
            cluster_by=self.cluster_by,
            read_version=replaced.version() if replaced is not None and is_read else None,
            operation=self._operation,
        )
        return written.version

    def _filled_by_spark(
        self, session: Session, spark: SparkSession, location: str, replaced: DeltaTable | None
    ) -> int | None:
        from deltaplane.spark import write
        from deltaplane.spark.datasource.delta_options import transaction

        catalog = session.catalog
        with new_rows_on_spark(spark, self.cursor, self.rows_token, catalog, replaced) as (frame, read):
            _check_names(frame.columns)
            if self.properties:
                self._check_on_spark(Schema.from_json(frame.schema.json()))
            result = write(
                frame,
                location,
                self.mode,
                self.partition_by,
                "overwrite" if self.mode == "overwrite" else None,
                txn=transaction(spark),
                options=catalog.storage_options,
                description=self.comment,
                configuration=self._properties(session),
                cluster_by=self.cluster_by,
                read_version=read,
                # As with the embedded engine's queries: a query without nulls doesn't promise that
                # later rows have none.
                all_nullable=True,
                operation=self._operation,
            )
        return result.version

    def _location(self, catalog: Catalog) -> str:
        if self.location is None:
            with self.cursor.located(self.table.token):
                return catalog.location(self.table)
        if self.table.path is not None and self.table.path != self.location:
            self.cursor.wrong("expected one location: the name is one, and LOCATION another")
        return self.location


def _check_named(names: Sequence[str]) -> None:
    unnamed = next((name for name in names if isinstance(name, Text)), None)
    if unnamed is not None:
        raise InvalidArgumentError(f"the column `{unnamed}` of the query has no name: give it one with AS")


def _check_names(names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) < len(names):
        raise InvalidArgumentError("two columns of the query have one name: give them names with AS")


def _read(cursor: Grammar, mode: Mode, must_exist: bool) -> Create | Clone | CreateLike:
    # As in delta-spark, EXTERNAL has no meaning of its own: a location makes a table external.
    cursor.take("external")
    cursor.expect("table")
    if cursor.take("if", "not", "exists"):
        if mode == "overwrite":
            cursor.wrong("expected a table's name: OR REPLACE and IF NOT EXISTS are two answers")
        mode = "ignore"
    made = Create(cursor.table(alias=False, version=False), cursor, mode, must_exist)
    if cursor.peek() == "like":
        return read_like(cursor, mode, made._location)
    if is_clone(cursor):
        return read_clone(cursor, mode, must_exist, made._location)
    if cursor.peek() == "(" and cursor.peek(1) not in BEGINNINGS:
        cursor.listed(lambda: _element(cursor, made))
    made = _clauses(cursor, made)
    named = cursor.take("as")
    token = cursor.at
    if named or cursor.peek() in BEGINNINGS or cursor.peek() == "(":
        if made.columns:
            cursor.wrong("expected the end: a table AS SELECT has the query's columns")
        if any(key.startswith("delta.constraints.") for key in made.properties):
            cursor.wrong("expected the end: add constraints with ALTER TABLE")
        return replace(_with_options(made, stores=False), rows=cursor.last_query(), rows_token=token)
    made = _with_options(made, stores=mode != "overwrite")
    takes = made.location is not None and made.table.path is None and mode != "overwrite"
    takes = takes and made == Create(made.table, cursor, mode, location=made.location)
    ordered = made.partition_by is not None or made.cluster_by is not None
    if not made.columns and not takes and (ordered or not made.uses):
        cursor.expected("columns in parentheses, or AS and a query")
    return made


def _element(cursor: Grammar, made: Create) -> None:
    token = cursor.at
    if cursor.peek() == "constraint" and cursor.kind(1) in ("name", "quoted") and cursor.peek(2) == "check":
        cursor.at += 1
        name, condition = check(cursor)
        made.properties[f"delta.constraints.{name.lower()}"] = condition
        return
    if cursor.peek() in ("check", "primary", "foreign", "unique") and cursor.peek(1) in ("(", "key"):
        cursor.expected("a column or CONSTRAINT name CHECK (condition)")
    column = declaration(cursor)
    if any(c.path[-1].lower() == column.path[-1].lower() for c in made.columns):
        cursor.wrong(f"expected another name: `{column.path[-1]}` is taken", cursor.tokens[token].start)
    made.columns.append(column)
    if cursor.peek() == "constraint":
        cursor.at += 1
        name, condition = check(cursor)
        made.properties[f"delta.constraints.{name.lower()}"] = condition


def _clauses(cursor: Grammar, made: Create) -> Create:
    seen: set[str] = set()
    while True:
        token = cursor.at
        word = cursor.peek()
        if cursor.take("using"):
            if cursor.peek() not in ("delta", "deltaplane"):
                cursor.expected("DELTA")
            cursor.at += 1
            made = replace(made, uses=True)
        elif cursor.take("partitioned", "by"):
            made = _partitioned(cursor, made)
        elif cursor.take("cluster", "by"):
            made = replace(made, cluster_by=cursor.listed(lambda: cursor.dotted("a column's name")))
        elif cursor.take("options"):
            made = _optioned(cursor, made)
        elif cursor.take("comment"):
            made = replace(made, comment=cursor.text("a comment"))
        elif cursor.take("location"):
            made = replace(made, location=cursor.text("a location"))
        elif cursor.take("tblproperties"):
            begins, settings = cursor.at, properties(cursor)
            refuse_reserved(cursor, begins, settings)
            # As in delta-spark this property is the table's comment, where no COMMENT is given.
            comment = settings.pop("comment", None)
            made = replace(made, properties={**settings, **made.properties}, properties_comment=comment)
        else:
            return made
        if word in seen:
            cursor.wrong(f"expected {word.upper()} once", cursor.tokens[token].start)
        seen.add(word)
        if made.location is not None and any(key.lower() == "path" for key in made.options):
            cursor.wrong("expected one location: OPTIONS has a path, and LOCATION another", cursor.tokens[token].start)


def _optioned(cursor: Grammar, made: Create) -> Create:
    begins, options = cursor.at, properties(cursor)
    refuse_reserved(cursor, begins, options)
    return replace(made, options=options)


def _with_options(made: Create, *, stores: bool) -> Create:
    """Applies OPTIONS as delta-spark does: `path` is the location, names of Delta's properties set
    these, before TBLPROPERTIES. If the statement `stores` options (it has columns and replaces no
    table), each one is a property under its own name and under `option.` and its name, and
    `comment` precedes that of TBLPROPERTIES; otherwise `comment` leaves the table without one.
    """
    location = made.location
    comment = made.properties_comment if made.comment is None else made.comment
    configuration, properties_by_option = dict[str, str](), dict[str, str]()
    for key, value in made.options.items():
        if key.lower() == "path":
            location = value
            continue
        if key == "comment":
            comment = (value if made.comment is None else comment) if stores else None
        elif stores or key.lower().startswith("delta."):
            configuration[key] = value
        if stores:
            properties_by_option[f"option.{key}"] = value
    replaced = {key.lower() for key in configuration if key.lower().startswith("delta.")}
    properties = {key: value for key, value in made.properties.items() if key.lower() not in replaced}
    return replace(
        made,
        location=location,
        comment=comment,
        properties_comment=None,
        options={},
        properties={**properties, **configuration, **properties_by_option},
    )


def _partitioned(cursor: Grammar, made: Create) -> Create:
    """Parses names of columns, or declarations of additional columns, which are placed behind the
    others."""
    names: list[str] = []
    columns = list(made.columns)

    def read_column() -> None:
        if cursor.kind(1) == "op" and cursor.peek(1) == "(":
            cursor.refuse(f"a partition by {cursor.peek()}(…)")
        if cursor.peek(1) in (",", ")"):
            names.append(cursor.name("a column's name"))
            return
        columns.append(declaration(cursor))
        names.append(columns[-1].path[-1])

    cursor.listed(read_column)
    return replace(made, partition_by=names, columns=columns)


STATEMENTS = (
    Statement(("create", "or", "replace"), lambda cursor: _read(cursor, "overwrite", False)),
    Statement(("replace",), lambda cursor: _read(cursor, "overwrite", True)),
    Statement(("create",), lambda cursor: _read(cursor, "error", False)),
)
