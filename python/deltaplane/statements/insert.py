"""INSERT INTO | OVERWRITE table [PARTITION (…)] [(columns) | BY NAME] [REPLACE WHERE … | USING … |
ON …] followed by a query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from deltaplane import _native
from deltaplane.exceptions import (
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.expr.storing import Shape, in_columns, stored_value, stores
from deltaplane.expr.syntax import Syntax, Token
from deltaplane.expr.syntax import parse as parse_expression
from deltaplane.expr.typed import Context, Typed
from deltaplane.expr.types import SparkType, of_json
from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.row_finder import may_read
from deltaplane.queries.running import prepared
from deltaplane.queries.syntax import Query, TableName, Values
from deltaplane.schema import ArrayType, DataType, Field, MapType, PrimitiveType, Schema, StructType
from deltaplane.statements.common.on_spark import new_rows_on_spark
from deltaplane.statements.common.partition import Fixed, PartitionSpec, read_partition
from deltaplane.statements.common.statement import (
    Clause,
    Session,
    Statement,
    commit_of,
    counted,
    default_of,
    field_named,
)
from deltaplane.statements.common.streamed import StreamedRows
from deltaplane.table.delta_table import DeltaTable
from deltaplane.write.api import write_deltalake
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType as SparkStruct

    from deltaplane.commands.dry_run import DryRun
    from deltaplane.properties import CommitProperties

__all__ = ["STATEMENT", "Insert", "read"]

# Time zones of a session in which the embedded engine parses timestamps equally.
_UTC = ("UTC", "Etc/UTC", "Z", "GMT", "+00:00")
# Words that may follow the list of a SELECT.
_BEHIND_LISTS = ("from", "where", "group", "order", "limit", "union", "intersect", "except", "having", ";")
Mode = Literal["append", "overwrite"]


@dataclass(frozen=True)
class Insert:
    """The table, the rows, and their columns: a list of names, BY NAME, or all columns in order."""

    table: TableName
    rows: Query
    cursor: Grammar
    token: int
    columns: tuple[str, ...] = ()
    by_name: bool = False
    overwrites: bool = False
    where: Clause | None = None
    using: tuple[str, ...] = ()
    on: Clause | None = None
    alias: str | None = None
    end: int | None = None
    partition: PartitionSpec | None = None
    # The text of a WITH before the statement, if another engine parses it.
    named: str = ""
    # The texts of listed values, None for DEFAULT, for evaluation by another engine.
    listed: tuple[tuple[str | None, ...], ...] | None = None
    # Whether new columns of the rows are added to the table.
    evolves: bool = False
    takes_memory: ClassVar[bool] = True

    def run(self, session: Session) -> pa.Table:
        """Writes the rows in one commit; values are converted as in Spark (ANSI store
        assignment)."""
        result, rows = self._written(session, dry_run=False)
        return counted(rows, {"num_inserted_rows": rows}, result.version)

    def run_dry(self, session: Session) -> DryRun:
        """Plans the insertion without writing."""
        foretold: DryRun = self._written(session, dry_run=True)[0]
        return foretold

    def _written(self, session: Session, *, dry_run: bool) -> tuple[Any, int | None]:
        """Runs or plans the write; returns its result and the number of written rows."""
        table, fields, fixed, replaced = self._target(session)
        how: dict[str, Any] = {"dry_run": dry_run, **self._matching}
        if self._is_dynamic(session):
            # The session's setting: only partitions with new rows are replaced.
            replaced, how["partition_overwrite_mode"] = None, "dynamic"
        if session.spark is not None and not self._matching:
            from deltaplane.spark.datasource.delta_options import write_operation

            # The session's settings, which the history records of each INSERT.
            how["operation"] = write_operation(session.spark)
        made = self._made_here(session, table, fields, fixed)
        commit = commit_of(session, dry_run=dry_run)
        if made is not None:
            data, read = made
            how["commit_properties"] = commit
            with self.cursor.located(self._place):
                rows = data.reader() if isinstance(data, StreamedRows) else data
                result: Any = write_deltalake(table, rows, mode=self.mode, predicate=replaced, read_version=read, **how)
            return result, 0 if result.skipped else data.num_rows
        assert session.spark is not None
        from deltaplane.spark import write

        if self._evolves(session):
            how["schema_mode"] = "merge"
        # New columns may be null at every depth, whatever the query's rows are.
        how |= {"replace_where": replaced, "options": table.storage_options, "all_nullable": True}
        # As in delta-spark, what replaces nothing by nothing makes no version.
        how |= {"empty_commit": self.mode == "append", **_as_arguments(commit)}
        with (
            self._frame(session.spark, session, table, fields, fixed) as (frame, read),
            self.cursor.located(self._place),
        ):
            result = write(frame, table.location, self.mode, read_version=read, **how)
        if dry_run:
            return result, None
        if result.skipped:
            return result, 0
        refresh_after_commit(table.update_incremental)
        matching = self._matching
        inserted = result.metrics.get("numTargetRowsInserted" if matching else "numOutputRows", 0 if matching else None)
        return result, None if inserted is None else int(inserted)

    @property
    def mode(self) -> Mode:
        """Whether the write replaces rows of the table."""
        replaces = self.overwrites or self.where is not None or self.using or self.on is not None
        return "overwrite" if replaces else "append"

    @property
    def _replaces_all(self) -> bool:
        return self.where is not None and self.where.text.strip().lower() == "true"

    @property
    def _place(self) -> int:
        """The token at which errors about the write are located."""
        return self.token if self.on is None else self.on.token

    @property
    def _matching(self) -> dict[str, Any]:
        """The arguments that select the replaced rows by a match with new rows."""
        if self.using:
            return {"replace_using": self.using}
        if self.on is None:
            return {}
        own = None if self.table.path is not None else self.table.parts[-1]
        return {"replace_on": self.on.text, "source_alias": self.alias, "target_alias": self.table.alias or own}

    def _is_dynamic(self, session: Session) -> bool:
        if session.spark is None or not self.overwrites:
            return False
        return str(session.spark.conf.get("spark.sql.sources.partitionOverwriteMode", "static")).lower() == "dynamic"

    def _target(self, session: Session) -> tuple[DeltaTable, list[Field], list[Fixed], str | None]:
        """The table, the columns of the rows, the partition columns with a constant value, and the
        condition for replaced rows."""
        table = session.catalog.target(self.table)
        # The query reads the newest versions, also of the table itself.
        table.update_incremental()
        fixed = [] if self.partition is None else self.partition.fixed(table)
        fixed_names = {fixed_value.field.name for fixed_value in fixed}
        fields = [field_named(table, name) for name in self.columns]
        self._check_case(session, fields)
        if twice := [f.name for f in fields if f.name in fixed_names]:
            self.cursor.wrong(
                f"expected other columns: {twice[0]} has a value in PARTITION", self.cursor.tokens[self.token].start
            )
        if self.columns:
            self._check_partitions(session, table, [*self.columns, *fixed_names])
        fields = fields or [f for f in table.schema().fields if f.name not in fixed_names]
        if len({f.name for f in fields}) < len(fields):
            self.cursor.wrong("expected each column once", self.cursor.tokens[self.token].start)
        # As in delta-spark, the history of an INSERT that replaces all rows has no condition.
        replaced = None if self.where is None or self._replaces_all else self.where.over(table, self.table)
        if fixed and self.overwrites:
            replaced = " AND ".join(fixed_value.condition for fixed_value in fixed)
        return table, fields, fixed, replaced

    def _check_partitions(self, session: Session, table: DeltaTable, names: Sequence[str]) -> None:
        """Refuses rows without a partition column where they replace the partitions that they
        belong to."""
        if self._is_dynamic(session):
            from deltaplane.spark.execution.store_cast import check_has_partitions

            check_has_partitions(names, table._snapshot, table.location)

    def _check_case(self, session: Session, fields: Sequence[Field]) -> None:
        """Refuses columns in another case than the table's if Spark's session tells them apart."""
        if session.spark is None:
            return
        from deltaplane.spark.jvm.internals import is_on

        if not is_on(session.spark, "spark.sql.caseSensitive"):
            return
        for name, field in zip(self.columns, fields, strict=True):
            if name != field.name:
                raise InvalidArgumentError(
                    f"the table has no column `{name}` in this case, as spark.sql.caseSensitive asks (there are {field.name})"
                )

    def _made_here(
        self, session: Session, table: DeltaTable, fields: list[Field], fixed: list[Fixed]
    ) -> tuple[pa.Table | StreamedRows, int | None] | None:
        """The rows as `_data` returns them: all rows without a Spark session, only listed rows with
        one; None if Spark must compute them."""
        if session.spark is None:
            if self.evolves:
                raise UnsupportedFeatureError(
                    "INSERT WITH SCHEMA EVOLUTION needs a session of Spark: add the columns with ALTER TABLE … ADD COLUMNS, or "
                    'append with write_deltalake(schema_mode="merge")'
                )
            return self._data(session, table, fields, fixed)
        by_spark = self.where is not None or self.on is not None or self._evolves(session)
        if not self.rows_are_listed or by_spark or not _is_same_here(session.spark, fields):
            return None
        try:
            return self._data(session, table, fields, fixed)
        except (UnsupportedExpressionError, SchemaMismatchError, InvalidArgumentError):
            # Spark's own error for these values is wanted, so Spark evaluates them.
            return None

    def _data(
        self, session: Session, table: DeltaTable, fields: list[Field], fixed: list[Fixed]
    ) -> tuple[pa.Table | StreamedRows, int | None]:
        """The rows in the columns' types, and the version of the table from which they are
        computed, if the query reads the table. With a memory limit, rows are written while they are
        computed, unless they are compared with rows of the table."""
        import pyarrow as pa

        session.catalog.hold(table)
        with self.cursor.located(self.token):
            query = prepared(_with_defaults(self.rows, fields), self.cursor, session.catalog, session.memory)
            self._check_fixed(query.names, fixed)
            fields = self._fields_of(query.names, table, fields)
            types, failing = _types(query.names, query.types, fields), list[str]()
            shape: Shape = "by_name" if self.by_name else "by_position"

            def store(context: Context, number: int, value: Typed, to: SparkType) -> Typed:
                return stored_value(context, fields[number].name, value, to, shape, failing)

            stored = query.stored(types, store)
            try:
                result = stored.result()
                streams = session.memory is not None and not self._matching
                data = result.to_arrow() if not streams else None
            except InvalidArgumentError as e:
                raise in_columns(e, failing) from e
        read = table.version() if may_read(session.catalog.opened.values(), table) else None
        names = [field.name for field in fields]
        if data is None:
            constants = [(fixed_value.field.name, fixed_value.value) for fixed_value in fixed]
            return StreamedRows(result, names, constants, failing), read
        data = data.rename_columns(names)
        for fixed_value in fixed:
            data = data.append_column(fixed_value.field.name, pa.repeat(fixed_value.value, data.num_rows))
        return data, read

    @property
    def rows_are_listed(self) -> bool:
        """Whether the statement itself lists the rows."""
        return isinstance(self.rows.body, Values) and bool(self.rows.body.rows)

    def _check_fixed(self, names: Sequence[str], fixed: Sequence[Fixed]) -> None:
        """Refuses rows by name that have a value for a column whose value PARTITION gives."""
        fixed_names = {constant.field.name.lower() for constant in fixed}
        if self.by_name and (twice := [name for name in names if name.lower() in fixed_names]):
            self.cursor.wrong(
                f"expected other columns: {twice[0]} has a value in PARTITION", self.cursor.tokens[self.token].start
            )

    def _fields_of(self, names: Sequence[str], table: DeltaTable, fields: list[Field]) -> list[Field]:
        if not self.by_name:
            return fields
        _check_once(names)
        return [field_named(table, name) for name in names]

    def _stored(self, frame: DataFrame, table: DeltaTable, fields: list[Field], *, evolves: bool) -> DataFrame:
        """The rows in the table's types. As in delta-spark, only rows without a list of columns add
        new columns, which are those at positions behind the table's; fields of structs are always
        added.

        Raises:
            InvalidArgumentError: the number of columns differs.
        """
        from deltaplane.spark.execution.store_cast import (
            check_fields,
            stored_and_grown,
            stored_by_name,
            stored_by_position,
            widens_columns,
        )

        names = frame.columns
        if self.by_name:
            own = {field.name.lower(): field for field in _columns_of(table.schema().fields).fields}
            for source_field in frame.schema.fields:
                if (field := own.get(source_field.name.lower())) is not None:
                    check_fields(source_field.dataType, field.dataType, field.name)
            fields = self._grown(frame, table) if evolves else self._fields_of(names, table, fields)
            return stored_by_name(frame, _columns_of(fields))
        if len(names) < len(fields) or (len(names) > len(fields) and (self.columns or not evolves)):
            raise InvalidArgumentError(_arity(len(names), fields))
        columns, listed = _columns_of(fields), bool(self.columns)
        if not evolves:
            return stored_by_position(frame, columns, listed=listed)
        widens = widens_columns(table.metadata().configuration)
        return stored_and_grown(frame, columns, listed=listed, widens=widens)

    def _grown(self, frame: DataFrame, table: DeltaTable) -> list[Field]:
        """The columns of rows by name, for a table that takes new columns. Values in structs,
        arrays and maps are matched by name."""
        from deltaplane.spark.execution.store_cast import widens_columns
        from deltaplane.spark.jvm.schema import delta_schema_json

        _check_once(frame.columns)
        own = {field.name.lower(): field for field in table.schema().fields}
        widens = widens_columns(table.metadata().configuration)
        columns = list[Field]()
        for new in Schema.from_json(delta_schema_json(frame.schema, nullable=True)).fields:
            old = own.get(new.name.lower())
            columns.append(new if old is None else _grown_field(old, new, widens))
        return columns

    def _cells(self, row: Sequence[str | None], fields: Sequence[Field]) -> list[str]:
        """The texts of a row's values, with the column's default in place of DEFAULT."""
        if None in row and len(row) != len(fields):
            raise InvalidArgumentError(_arity(len(row), fields))
        return [default_of(fields[i]) if cell is None else cell for i, cell in enumerate(row)]

    def _query_text(self, fields: Sequence[Field]) -> tuple[Grammar, int, int | None]:
        """The query with its start and end, behind the statement's WITH if there is one."""
        if self.listed is not None:
            rows = [self._cells(row, fields) for row in self.listed]
            return Grammar(_listed_text(rows), own_queries=False), 0, None
        tokens = self.cursor.tokens[self.token : self.end]
        defaults = {} if self.by_name else _default_items(tokens)
        if not self.named and not defaults:
            return self.cursor, self.token, self.end
        text, begin = self.named, tokens[0].start
        for index, number in defaults.items():
            if number < len(fields):
                text = f"{text} {self.cursor.sql[begin : tokens[index].start]}{default_of(fields[number])}"
                begin = tokens[index].end
        return Grammar(f"{text} {self.cursor.sql[begin : tokens[-1].end]}", own_queries=False), 0, None

    def _evolves(self, session: Session) -> bool:
        if self.evolves or session.spark is None:
            return self.evolves
        from deltaplane.spark.datasource.delta_options import merges_schema

        return merges_schema(session.spark)

    @contextmanager
    def _frame(
        self, spark: SparkSession, session: Session, table: DeltaTable, fields: list[Field], fixed: list[Fixed]
    ) -> Iterator[tuple[DataFrame, int | None]]:
        """The rows of a query by Spark in the columns' types, valid within the block, and the
        version as in `_data`."""
        cursor, begin, end = self._query_text(fields)
        with new_rows_on_spark(spark, cursor, begin, session.catalog, table, end) as (frame, read):
            with self.cursor.located(self.token):
                self._check_fixed(frame.columns, fixed)
                if self.by_name:
                    fixed_names = [fixed_value.field.name for fixed_value in fixed]
                    self._check_partitions(session, table, [*frame.columns, *fixed_names])
                stored = self._stored(frame, table, fields, evolves=self._evolves(session))
            more = {fixed_value.field.name: fixed_value.on_spark() for fixed_value in fixed}
            yield stored.withColumns(more) if more else stored, read


def _check_once(names: Sequence[str]) -> None:
    if len({name.lower() for name in names}) < len(names):
        raise InvalidArgumentError("a column comes twice: BY NAME needs columns of different names")


def _listed_text(rows: Sequence[Sequence[str]]) -> str:
    """The text of a query for listed values. Uses SELECT, since Spark accepts no subquery in
    VALUES.

    >>> _listed_text([["1", "'x'"], ["2", "DATE'2024-05-01'"]])
    "VALUES (1, 'x'), (2, DATE'2024-05-01')"
    >>> _listed_text([["(SELECT max(k) FROM n)"], ["2"]])
    'SELECT (SELECT max(k) FROM n) AS col1 UNION ALL SELECT 2 AS col1'
    """
    if not any("select" in value.lower() for row in rows for value in row):
        return "VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)
    named = (", ".join(f"{value} AS col{i}" for i, value in enumerate(row, 1)) for row in rows)
    return " UNION ALL ".join(f"SELECT {row}" for row in named)


def _as_arguments(commit: CommitProperties | None) -> dict[str, Any]:
    """The session's settings for a commit, as arguments of `deltaplane.spark.write`."""
    if commit is None:
        return {}
    txn = [(transaction.app_id, transaction.version) for transaction in commit.app_transactions or ()]
    return {"user_metadata": (commit.custom_metadata or {}).get("userMetadata"), "txn": txn[0] if txn else None}


def _default_items(tokens: Sequence[Token]) -> dict[int, int]:
    """The tokens DEFAULT that are a whole item of a query's outermost SELECT lists, by their
    indexes, with the item's number."""
    items, depth, number = dict[int, int](), 0, -1
    for index, token in enumerate(tokens):
        word = token.text.lower() if token.kind in ("name", "op") else ""
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth:
            continue
        if word == "select":
            number = 0
        elif word == "," and number >= 0:
            number += 1
        elif word == "from":
            number = -1
        elif word == "default" and number >= 0:
            before, behind = (
                tokens[index - 1].text.lower(),
                [part.text.lower() for part in tokens[index + 1 : index + 2]],
            )
            if before in ("select", ",") and (not behind or behind[0] in (",", *_BEHIND_LISTS)):
                items[index] = number
    return items


def _grown_field(old: Field, new: Field, widens: bool) -> Field:
    """A column for values of another type by name: the table's own, with new fields of structs, and
    with wider types if the table `widens` columns."""
    to = _grown_type(old.type, new.type, widens)
    declared = old if to == old.type else new
    return Field(old.name, to, declared.nullable, declared.metadata)


def _grown_type(old: DataType, new: DataType, widens: bool) -> DataType:
    """The type of such a column, or of a part of it."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        own = {field.name.lower(): field for field in old.fields}
        names = [(own.get(field.name.lower()), field) for field in new.fields]
        return StructType([field if known is None else _grown_field(known, field, widens) for known, field in names])
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_grown_type(old.element_type, new.element_type, widens), new.contains_null)
    if isinstance(old, MapType) and isinstance(new, MapType):
        key = _grown_type(old.key_type, new.key_type, widens)
        return MapType(key, _grown_type(old.value_type, new.value_type, widens), new.value_contains_null)
    if isinstance(old, PrimitiveType):
        from deltaplane.commands.merge.columns import is_wider

        return new if widens and is_wider(old.to_value(), new.to_value()) else old
    return new


def _columns_of(fields: Sequence[Field]) -> SparkStruct:
    """The columns as Spark types, all nullable."""
    from deltaplane.spark.execution.row_rules import relaxed

    return relaxed(_native.TableSchema(Schema(fields).to_json()))


def _with_defaults(query: Query, fields: Sequence[Field]) -> Query:
    """The query with each DEFAULT replaced by its column's default."""
    if not isinstance(query.body, Values):
        return query
    rows: list[tuple[Syntax | None, ...]] = []
    for row in query.body.rows:
        if len(row) != len(fields) and None in row:
            raise InvalidArgumentError(_arity(len(row), fields))
        rows.append(
            tuple(
                parse_expression(default_of(f)) if cell is None else cell for cell, f in zip(row, fields, strict=True)
            )
            if None in row
            else row
        )
    return replace(query, body=replace(query.body, rows=tuple(rows)))


def _arity(count: int, fields: Sequence[Field]) -> str:
    names = ", ".join(field.name for field in fields)
    few = "only " if count > len(fields) else ""
    return f"{count} values are given for {few}{len(fields)} columns ({names}): name those that the values are for"


def _types(names: Sequence[str], types: Sequence[SparkType | None], fields: Sequence[Field]) -> list[SparkType]:
    """The columns' types, after a check that values of the query's types can be stored."""
    if len(names) != len(fields):
        raise InvalidArgumentError(_arity(len(names), fields))
    data_types: list[SparkType] = []
    for source, name, field in zip(types, names, fields, strict=True):
        to = of_json(field.type.to_value())
        if to is None or source is None:
            raise UnsupportedExpressionError(
                f"the column `{field.name}` is of a type that expressions have no form of: use write_deltalake"
            )
        # Structs, arrays and maps are compared part by part.
        if not (source.parts and to.parts) and not stores(source, to):
            raise SchemaMismatchError(
                f"`{name}` is of type {source}, which the column `{field.name}` of type {to} doesn't take: cast it"
            )
        data_types.append(to)
    return data_types


def read(cursor: Grammar) -> Insert:
    """Parses the statement behind INSERT."""
    evolves = cursor.take("with", "schema", "evolution")
    overwrites = cursor.take("overwrite")
    if not overwrites:
        cursor.expect("into")
    cursor.take("table")
    table = _table(cursor)
    partition = read_partition(cursor)
    columns: tuple[str, ...] = ()
    by_name = cursor.take("by", "name")
    if not by_name and cursor.peek() == "(" and cursor.kind(1) in ("name", "quoted") and cursor.peek(2) in (",", ")"):
        columns = tuple(cursor.listed(lambda: cursor.name("a column's name")))
    where, using, on = None, tuple[str, ...](), None
    if not overwrites and partition is None and cursor.take("replace"):
        if cursor.take("where"):
            where = Clause.read(cursor) if cursor.own_queries else _before_query(cursor)
        elif cursor.take("using"):
            using = tuple(cursor.listed(lambda: cursor.name("a column's name")))
        elif cursor.take("on"):
            on = _before_query(cursor)
        else:
            cursor.expected("WHERE, USING or ON")
        by_name = by_name or cursor.take("by", "name")
    if table.alias is not None and on is None:
        cursor.wrong("expected no alias: only REPLACE ON has a use for one")
    token = cursor.at
    listed = None
    if cursor.peek() == "values" and not cursor.own_queries:
        rows, listed = _listed_rows(cursor, aliased=on is not None)
    elif cursor.peek() == "values":
        rows = Query(cursor.values(defaults=True))
    else:
        rows = cursor.last_query() if on is None else cursor.aliased_query()
    end = cursor.at
    alias = cursor.alias() if on is not None else None
    made = Insert(table, rows, cursor, token, columns, by_name, overwrites, where, using, on, alias, end, partition)
    return replace(made, evolves=evolves, listed=listed)


def _listed_rows(cursor: Grammar, *, aliased: bool) -> tuple[Query, tuple[tuple[str | None, ...], ...] | None]:
    """Parses VALUES and its rows, as trees as far as this grammar has them, and as texts for
    another engine. If more than rows (and, if allowed, an alias) follows, VALUES is a general
    query."""
    start, token = cursor.at, cursor.at
    cursor.expect("values")
    trees, texts = list[tuple[Syntax | None, ...]](), list[tuple[str | None, ...]]()
    known = True
    while True:
        cells = cursor.listed(lambda: _cell(cursor)) if cursor.peek() == "(" else [_cell(cursor)]
        trees.append(tuple(tree for tree, _, _ in cells))
        texts.append(tuple(text for _, text, _ in cells))
        known = known and all(understood for _, _, understood in cells)
        if not cursor.take(","):
            break
    behind = cursor.at + (1 + (cursor.peek() == "as") if aliased else 0)
    is_end = cursor.peek() in ("", ";") or (aliased and [t.text for t in cursor.tokens[behind:]] in ([], [";"]))
    if not is_end:
        cursor.at = start
        return cursor.last_query(), None
    if len({len(row) for row in texts}) > 1:
        cursor.wrong(f"expected {len(texts[0])} values in each row", cursor.tokens[token].start)
    return Query(Values(tuple(trees) if known else (), token)), tuple(texts)


def _cell(cursor: Grammar) -> tuple[Syntax | None, str | None, bool]:
    """Parses a value: its tree and its text, None for DEFAULT; and whether the tree is known."""
    if cursor.peek() == "default" and cursor.peek(1) in (",", ")", ""):
        cursor.at += 1
        return None, None, True
    made = Clause.of_rows(cursor)
    return made.tree, made.text, made.tree is not None and not made.has_subqueries


def _is_same_here(spark: SparkSession, fields: Sequence[Field]) -> bool:
    """Whether the embedded engine computes the same listed values as a session: by the session's
    settings, and for types that need at most one cast."""
    types = [field.type.to_json() for field in fields]
    nested = any(not type_name.startswith('"') for type_name in types)
    if nested or str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() != "true":
        return False
    if str(spark.conf.get("spark.sql.storeAssignmentPolicy", "ANSI")).upper() != "ANSI":
        return False
    return spark.conf.get("spark.sql.session.timeZone") in _UTC or not any(
        "timestamp" in type_name for type_name in types
    )


def _table(cursor: Grammar) -> TableName:
    """Parses the table, with an alias unless a list of columns or a keyword follows."""
    table = cursor.table(alias=False, version=False)
    named = cursor.peek() == "as" or (cursor.kind() in ("name", "quoted") and cursor.peek(1) == "replace")
    return replace(table, alias=cursor.alias()) if named else table


def _before_query(cursor: Grammar) -> Clause:
    """Parses a condition before a query; parentheses around it could be those of a function's
    arguments."""
    tokens, depth = cursor.tokens, 0
    for index in range(cursor.at, len(tokens)):
        begins = cursor.peek(index - cursor.at) in BEGINNINGS
        opens = tokens[index].text == "(" and cursor.peek(index - cursor.at + 1) in BEGINNINGS
        if opens and (depth > 0 or (index > cursor.at and _takes_operand(tokens[index - 1]))):
            line, column = cursor.place_of(index + 1)
            raise UnsupportedExpressionError(
                f"line {line}, column {column}: a subquery can't stand here: write its result instead, or DELETE the rows by a "
                "condition with the subquery, and INSERT the new ones"
            )
        if depth == 0 and (begins or opens):
            break
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
    else:
        cursor.at = len(tokens)
        cursor.expected("a query")
    if index == cursor.at:
        cursor.expected("a condition")
    cursor.tokens = tokens[:index]
    try:
        return Clause.of_rows(cursor)
    finally:
        cursor.tokens = tokens


def _takes_operand(token: Token) -> bool:
    """Whether a condition can't end with the token, so that a parenthesis behind it is its
    operand."""
    return (token.kind == "op" and token.text != ")") or token.text.lower() in ("and", "exists", "in", "not", "or")


STATEMENT = Statement(("insert",), read)
