"""MERGE [WITH SCHEMA EVOLUTION] INTO table USING source ON condition WHEN … THEN …"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, cast

from deltaplane.commands.dry_run import DryRun
from deltaplane.commands.merge.clauses import Action, Kind
from deltaplane.commands.merge.clauses import Clause as MergeClause
from deltaplane.commands.merge.columns import check_star
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.arrow import as_reader
from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.row_finder import may_be_same, may_read
from deltaplane.queries.running import prepared
from deltaplane.queries.syntax import Nested, Query, Relation, TableName
from deltaplane.statements.common.on_spark import frame_of, new_rows_on_spark, values_on_spark
from deltaplane.statements.common.statement import (
    Clause,
    Session,
    Statement,
    counted,
    default_of,
    field_named,
    runs_tasks,
)
from deltaplane.statements.common.subqueries import target_on_spark
from deltaplane.statements.update import Assignment, assignment, column_below
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from deltaplane.table.merge import TableMerger

__all__ = ["STATEMENT", "Merge", "read"]

# The keywords of a clause, for error messages.
_MATCHED, _MISSING, _SURPLUS = "WHEN MATCHED", "WHEN NOT MATCHED", "WHEN NOT MATCHED BY SOURCE"
_KINDS: dict[str, Kind] = {_MATCHED: "matched", _MISSING: "not_matched", _SURPLUS: "not_matched_by_source"}
_NUMBERS = {
    "num_updated_rows": "num_target_rows_updated",
    "num_deleted_rows": "num_target_rows_deleted",
    "num_inserted_rows": "num_target_rows_inserted",
}


@dataclass(frozen=True)
class When:
    """One clause: its condition and its action (`update`, `update_all`, `delete`, `insert` or
    `insert_all`)."""

    rows: str
    action: str
    condition: Clause | None
    token: int
    assignments: list[Assignment] = field(default_factory=list)
    but: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Merge:
    """The statement's parts in order."""

    table: TableName
    source: TableName | Nested
    on: Clause
    clauses: list[When]
    evolves: bool
    cursor: Grammar
    # Start and end of the query, if the source is one.
    source_token: int = 0
    source_end: int = 0
    # The text of a WITH before the statement, and the name in it that is the source, if another
    # engine parses both.
    named: str = ""
    named_source: str = ""

    def run(self, session: Session) -> pa.Table:
        """Merges in one commit."""
        table = session.catalog.target(self.table)
        before = table.version()
        metrics = self._on(session, table, dry_run=False)
        assert isinstance(metrics, dict)
        version = table.version() if table.version() != before else None
        numbers = {name: metrics.get(theirs) for name, theirs in _NUMBERS.items()}
        counts = [n for n in numbers.values() if n is not None]
        affected = sum(counts) if len(counts) == len(numbers) else None
        return counted(affected, {**numbers, **metrics}, version)

    def run_dry(self, session: Session) -> DryRun:
        """Plans the merge without writing."""
        result = self._on(session, session.catalog.target(self.table), dry_run=True)
        assert isinstance(result, DryRun)
        return result

    def _on(self, session: Session, table: DeltaTable, *, dry_run: bool) -> Mapping[str, Any] | DryRun:
        """Runs or plans the merge; uses the session's tasks if there are any."""
        if session.spark is not None and runs_tasks(session.spark):
            return self._by_tasks(session, session.spark, table, dry_run=dry_run)
        merging = self._merging(session, table)
        with self.cursor.located(self.on.token):
            return merging.execute(dry_run=True) if dry_run else merging.execute()

    def _by_tasks(
        self, session: Session, spark: SparkSession, table: DeltaTable, *, dry_run: bool
    ) -> dict[str, Any] | DryRun:
        """Runs or plans the merge if Spark evaluates source, conditions and values."""
        from deltaplane.commands.rewriting import CommandResult, Settings, Target
        from deltaplane.spark.datasource.delta_options import change_properties, merges_schema
        from deltaplane.spark.dml.merge import SparkMerge, merge

        settings = Settings(commit=change_properties(spark, dry_run=dry_run), dry_run=dry_run)
        with self._frame(session, spark, table) as (frame, of_itself):
            evolves = self.evolves or merges_schema(spark)
            clauses = []
            for clause in self.clauses:
                with self.cursor.located(clause.token):
                    self._check_star(clause, table, frame.columns, evolves)
                    clauses.append(self._merge_clause(clause, table))
            with values_on_spark(spark, self._expressions, table, session.catalog) as (texts, others):
                said = dict(zip(map(id, self._expressions), texts, strict=True))
                clauses = [
                    self._with_texts(clause, made, said) for clause, made in zip(self.clauses, clauses, strict=True)
                ]
                what = SparkMerge(frame, said[id(self.on)], clauses, evolves, reads_others=of_itself or others)

                def run(target: Target) -> CommandResult:
                    placed_target = target_on_spark(target, spark, self.table, table, session.catalog)
                    return merge(placed_target, what, settings)

                with self.cursor.located(self.on.token):
                    return table.run_command(run, list(_NUMBERS.values()))

    @property
    def _expressions(self) -> list[Clause]:
        """All expressions that Spark evaluates, in order."""
        clauses = [self.on]
        for clause in self.clauses:
            clauses += [] if clause.condition is None else [clause.condition]
            clauses += [assignment.value for assignment in clause.assignments if assignment.value is not None]
        return clauses

    def _with_texts(self, clause: When, made: MergeClause, said: dict[int, str]) -> MergeClause:
        """A clause with its expressions in the form for the session."""
        condition = None if clause.condition is None else said[id(clause.condition)]
        if made.values is None:
            return replace(made, condition=condition)
        new = [None if assignment.value is None else said[id(assignment.value)] for assignment in clause.assignments]
        values = {
            name: old if text is None else text for (name, old), text in zip(made.values.items(), new, strict=True)
        }
        return replace(made, condition=condition, values=values)

    @contextmanager
    def _frame(self, session: Session, spark: SparkSession, table: DeltaTable) -> Iterator[tuple[DataFrame, bool]]:
        """The source's rows, valid within the block, and whether they may be derived from the
        table's own rows."""
        session.catalog.hold(table)
        alias = _alias(self.source)
        if isinstance(self.source, Nested):
            cursor, begin, end = self._source_text
            with new_rows_on_spark(spark, cursor, begin, session.catalog, table, end) as (frame, read):
                names = self.source.columns
                if names and len(names) != len(frame.columns):
                    self.cursor.wrong(f"expected {len(frame.columns)} names of columns, found {len(names)}")
                named = frame.toDF(*names) if names else frame
                yield named if alias is None else named.alias(alias), read is not None
            return
        known = self.source.path is not None or session.catalog.knows(self.source.parts)
        if not known:
            # A view or a table of Spark, which may be derived from this table.
            frame, of_itself = spark.table(".".join(map(quoted, self.source.parts))), True
        else:
            frame = frame_of(spark, self.source, session.catalog)
            of_itself = session.catalog.data(self.source) is None and may_be_same(
                session.catalog.table(self.source), table
            )
        yield frame if alias is None else frame.alias(alias), of_itself

    @property
    def _source_text(self) -> tuple[Grammar, int, int]:
        """The source's query with its start and end, behind the statement's WITH if there is
        one."""
        if not self.named:
            return self.cursor, self.source_token, self.source_end
        assert isinstance(self.source, Nested)
        tokens = self.cursor.tokens[self.source_token : self.source_end]
        query = self.cursor.sql[tokens[0].start : tokens[-1].end] if tokens else f"SELECT * FROM {self.named_source}"
        made = Grammar(f"{self.named} {query}", own_queries=False)
        return made, 0, len(made.tokens)

    def _merge_clause(self, clause: When, table: DeltaTable) -> MergeClause:
        """Converts a clause to the command's form."""
        kind, action = _KINDS[clause.rows], clause.action.removesuffix("_all")
        condition = None if clause.condition is None else clause.condition.text
        values = self._values(clause, table) if clause.action in ("update", "insert") else None
        return MergeClause(kind, cast("Action", action), condition, values, clause.but)

    def _merging(self, session: Session, table: DeltaTable) -> TableMerger:
        session.catalog.hold(table)
        data, of_itself = self._source(session, table)
        source = as_reader(data)
        with self.cursor.located(self.on.token):
            merging = table.merge(
                source,
                self.on.text,
                source_alias=_alias(self.source),
                target_alias=_alias(self.table),
                merge_schema=self.evolves,
            )
        if of_itself:
            merging = merging.with_source_of_itself()
        for clause in self.clauses:
            with self.cursor.located(clause.token):
                self._check_star(clause, table, source.schema.names, self.evolves)
                merging = self._add(merging, clause, table)
        return merging

    def _source(self, session: Session, table: DeltaTable) -> tuple[Any, bool]:
        """The source's rows, and whether they may be derived from the table's own rows."""
        if isinstance(self.source, Nested):
            made = prepared(self.source.query, self.cursor, session.catalog).run()
            of_itself = may_read(session.catalog.opened.values(), table)
            names = self.source.columns
            if names and len(names) != made.num_columns:
                self.cursor.wrong(f"expected {made.num_columns} names of columns, found {len(names)}")
            return made.rename_columns(list(names)) if names else made, of_itself
        data = session.catalog.data(self.source)
        if data is not None:
            return data, False
        read_from = session.catalog.table(self.source)
        return read_from.scan(), may_be_same(read_from, table)

    def _check_star(self, clause: When, table: DeltaTable, names: Sequence[str], evolves: bool) -> None:
        if clause.action.endswith("_all") and not evolves:
            check_star([f.name for f in table.schema().fields], names, clause.but)

    def _add(self, merging: TableMerger, clause: When, table: DeltaTable) -> TableMerger:
        condition = None if clause.condition is None else clause.condition.text
        if clause.action == "delete":
            by_source = clause.rows == _SURPLUS
            delete = merging.when_not_matched_by_source_delete if by_source else merging.when_matched_delete
            return delete(condition)
        if clause.action == "update_all":
            return merging.when_matched_update_all(condition, except_cols=clause.but or None)
        if clause.action == "insert_all":
            return merging.when_not_matched_insert_all(condition, except_cols=clause.but or None)
        values = self._values(clause, table)
        if clause.action == "insert":
            return merging.when_not_matched_insert(values, condition)
        by_source = clause.rows == _SURPLUS
        update = merging.when_not_matched_by_source_update if by_source else merging.when_matched_update
        return update(values, condition)

    def _values(self, clause: When, table: DeltaTable) -> dict[str, str]:
        values: dict[str, str] = {}
        for column_value in clause.assignments:
            parts = column_below(column_value.column, _qualifiers(self.table), table)
            column = ".".join(map(quoted, parts))
            if column.lower() in map(str.lower, values):
                raise InvalidArgumentError(f"{column} gets two values: give each column one")
            if column_value.value is not None:
                values[column] = column_value.value.text
            else:
                values[column] = default_of(field_named(table, parts[0])) if len(parts) == 1 else "NULL"
        return values


def _alias(name: TableName | Nested) -> str | None:
    if name.alias is not None or isinstance(name, Nested):
        return name.alias
    return None if name.path is not None else name.parts[-1]


def _qualifiers(name: TableName) -> tuple[str, ...]:
    alias = _alias(name)
    return () if alias is None else (alias,)


def read(cursor: Grammar) -> Merge:
    """Parses the statement behind MERGE."""
    evolves = cursor.take("with", "schema", "evolution")
    cursor.expect("into")
    table = cursor.table(version=False)
    cursor.expect("using")
    source, begin, end = _source(cursor)
    if not isinstance(source, (TableName, Nested)):
        cursor.wrong("expected one source: write a join as a query in parentheses")
    cursor.expect("on")
    on = Clause.of_rows(cursor)
    clauses: list[When] = []
    while cursor.peek() == "when":
        clauses.append(_clause(cursor))
        earlier = [c for c in clauses[:-1] if c.rows == clauses[-1].rows and c.condition is None]
        if earlier:
            cursor.wrong(
                f"expected a condition: only the last {earlier[0].rows} may be without one",
                cursor.tokens[earlier[0].token].start,
            )
    if not clauses:
        cursor.expected("WHEN")
    return Merge(table, source, on, clauses, evolves, cursor, begin, end)


def _source(cursor: Grammar) -> tuple[Relation, int, int]:
    """Parses the source, with start and end of its query if it is one; skips a query for another
    engine."""
    token = cursor.at
    if cursor.own_queries:
        return cursor.relation(), token, token
    if cursor.peek() not in ("(", "values"):
        if cursor.peek(1) == "(":
            cursor.wrong("expected a table or a query: write a function of rows as (SELECT * FROM …)")
        return cursor.relation(), token, token
    if cursor.take("("):
        query = cursor.passed_query()
        end = cursor.at
        cursor.expect(")")
        return cursor.nested(query, token), token + 1, end
    rows = Query(cursor.values())
    end = cursor.at
    return cursor.nested(rows, token), token, end


def _clause(cursor: Grammar) -> When:
    token = cursor.at
    cursor.expect("when")
    kind = _MATCHED
    if cursor.take("not"):
        kind = _MISSING
    cursor.expect("matched")
    if kind == _MISSING and cursor.take("by"):
        if cursor.take("source"):
            kind = _SURPLUS
        elif not cursor.take("target"):
            cursor.expected("TARGET or SOURCE")
    condition = Clause.of_rows(cursor) if cursor.take("and") else None
    cursor.expect("then")
    if kind == _MISSING:
        cursor.expect("insert")
        return _insert(cursor, kind, condition, token)
    if cursor.take("delete"):
        return When(kind, "delete", condition, token)
    if not cursor.take("update"):
        cursor.expected("UPDATE or DELETE")
    cursor.expect("set")
    if kind == _MATCHED and cursor.take("*"):
        return When(kind, "update_all", condition, token, but=_but(cursor))
    assignments = [assignment(cursor)]
    while cursor.take(","):
        assignments.append(assignment(cursor))
    return When(kind, "update", condition, token, assignments)


def _but(cursor: Grammar) -> list[str]:
    return cursor.listed(lambda: cursor.name("a column's name")) if cursor.take("except") else []


def _insert(cursor: Grammar, kind: str, condition: Clause | None, token: int) -> When:
    if cursor.take("*"):
        return When(kind, "insert_all", condition, token, but=_but(cursor))
    columns = cursor.listed(lambda: (cursor.at, cursor.names("a column's name")))
    cursor.expect("values")
    values = cursor.listed(lambda: _value(cursor))
    if len(values) != len(columns):
        cursor.wrong(f"expected {len(columns)} values, found {len(values)}", cursor.tokens[columns[0][0]].start)
    made = [Assignment(name, value, cursor, position) for (position, name), value in zip(columns, values, strict=True)]
    return When(kind, "insert", condition, token, made)


def _value(cursor: Grammar) -> Clause | None:
    if cursor.peek() == "default" and cursor.peek(1) in (",", ")"):
        cursor.at += 1
        return None
    return Clause.of_rows(cursor)


STATEMENT = Statement(("merge",), read)
