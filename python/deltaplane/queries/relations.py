"""The grammar of FROM: tables with their versions, joins, VALUES, LATERAL, PIVOT and UNPIVOT.

Parses only these clauses; a table's name stays a list of parts.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from dataclasses import replace

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.arrow_literals import shown_value
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.syntax import Call, Literal, Name, Syntax
from deltaplane.expr.types import BOOLEAN
from deltaplane.io.storage_options import VersionLike
from deltaplane.queries.expressions import FIRST_WORDS, Expressions
from deltaplane.queries.functions.generators import GENERATORS, TABLE_FUNCTIONS
from deltaplane.queries.syntax import (
    Item,
    Join,
    Nested,
    Pivot,
    PivotValue,
    Query,
    Relation,
    Sampled,
    TableFunction,
    TableName,
    Unpivot,
    Values,
    View,
)

__all__ = ["GOES_ON", "Relations"]

# Words that continue a statement, so that they are an alias only after AS or in backticks.
GOES_ON = frozenset(
    """
    anti by cluster cross distribute except fetch for from full group having inner intersect join lateral left limit
    match_recognize minus natural offset on order pivot qualify replace right select semi set sort tablesample union
    unpivot using values when where window with
    """.split()
)
_JOINS = {
    ("join",): "inner",
    ("inner", "join"): "inner",
    ("cross", "join"): "cross",
    ("left", "join"): "left",
    ("left", "outer", "join"): "left",
    ("right", "join"): "right",
    ("right", "outer", "join"): "right",
    ("full", "join"): "full",
    ("full", "outer", "join"): "full",
    ("left", "semi", "join"): "semi",
    ("semi", "join"): "semi",
    ("left", "anti", "join"): "anti",
    ("anti", "join"): "anti",
}
# Words that begin a value without parentheses around its row.
_ROWS = ("array", "cast", "date", "map", "named_struct", "struct", "timestamp", "timestamp_ntz")
_NO_COLUMNS = json.dumps({"type": "struct", "fields": []})


class Relations(Expressions):
    """Parses relations, and names of tables anywhere in a statement."""

    def relations(self) -> Relation:
        made = self.joined(self.relation())
        while self.peek() == ",":
            token = self.at
            self.at += 1
            made = self.joined(self.lateral(made, "cross", token) or Join(made, self.relation(), "cross", token=token))
        return made

    def joined(self, left: Relation) -> Relation:
        while True:
            left = self.pivoted(left)
            token = self.at
            natural = self.take("natural")
            kind = next((kind for words, kind in _JOINS.items() if self.take(*words)), None)
            if kind is None:
                if self.peek() in ("left", "right", "full", "cross", "inner"):
                    self.at += 1
                    self.expected("JOIN")
                if natural:
                    self.expected("JOIN")
                return left
            if natural:
                if kind in ("cross", "semi", "anti"):
                    self.wrong("expected an inner or outer join after NATURAL", self.tokens[token].start)
                left = Join(left, self.relation(), kind, token=token, natural=True)
                continue
            beside = self.lateral(left, kind, token)
            if beside is not None:
                left = beside
                continue
            right = self.relation()
            on: Syntax | None = None
            using: tuple[str, ...] = ()
            if kind != "cross" and self.take("on"):
                on = self.expression()
            elif kind != "cross" and self.take("using"):
                using = tuple(self.listed(lambda: self.name("a column's name")))
            elif kind not in ("cross", "inner"):
                on = Literal(True, BOOLEAN)
            left = Join(left, right, kind, on, using, token)

    def relation(self) -> Relation:
        """Parses a table, or a query or a join in parentheses."""
        if self.take("lateral") and (self.peek() != "(" or self.peek(1) not in FIRST_WORDS):
            self.expected("a query in parentheses")
        if self.peek() == "values" and self.begins_row(1):
            token = self.at
            return self.nested(Query(self.values()), token)
        if self.peek() != "(":
            if (function := self.function()) is not None:
                return function
            made = self.table()
            return self.sampled(made) if made.alias is None else made
        token = self.at
        inner = 1
        while self.peek(inner) == "(":
            inner += 1
        self.at += 1
        # A query in two pairs of parentheses is a query, unlike a join whose first relation is a
        # query.
        if self.peek(inner - 1) in FIRST_WORDS and not self.is_join_of_queries():
            query = self.query()
            self.expect(")")
            return self.nested(query, token)
        joined = self.relations()
        self.expect(")")
        return joined

    def begins_row(self, ahead: int) -> bool:
        """Whether a row of VALUES begins there, instead of the alias of a table with this name."""
        return (
            self.kind(ahead) in ("number", "string", "raw", "hex")
            or self.peek(ahead) in ("(", "-", "null", "true", "false")
            or (self.peek(ahead) in _ROWS and (self.peek(ahead + 1) == "(" or self.kind(ahead + 1) == "string"))
        )

    def is_join_of_queries(self) -> bool:
        """Whether the next parenthesis contains a joined relation in parentheses."""
        depth, i = 0, self.at
        if self.peek() != "(":
            return False
        while i < len(self.tokens):
            depth += {"(": 1, ")": -1}.get(self.tokens[i].text, 0)
            i += 1
            if depth == 0:
                break
        behind = self.tokens[i].text.lower() if i < len(self.tokens) else ")"
        return behind not in (")", "union", "intersect", "except", "minus", "order", "limit", "offset")

    def nested(self, query: Query, token: int) -> Relation:
        if self.peek() == "tablesample":
            return self.sampled(Nested(query, None, (), token))
        return Nested(query, *self.alias_with_columns(), token)

    def alias_with_columns(self) -> tuple[str | None, tuple[str, ...]]:
        """A relation's alias, and the names that follow it for its columns."""
        alias = self.alias()
        named = bool(alias) and self.peek() == "("
        return alias, tuple(self.listed(lambda: self.name("a column's name"))) if named else ()

    def alias(self) -> str | None:
        if self.take("as"):
            return self.name("a name")
        if self.kind() == "quoted" or (self.kind() == "name" and self.peek() not in GOES_ON):
            return self.identifier()
        return None

    # --- names of tables ----------------------------------------------------------------------------------------------

    def function(self) -> TableFunction | None:
        """Parses a table function: RANGE, or a generator, which gives a row for each element; None
        for any other relation."""
        if self.peek() not in TABLE_FUNCTIONS or self.peek(1) != "(":
            return None
        token, name = self.at, self.peek()
        self.at += 1
        call = Call(name, tuple(self.listed(self.expression)))
        return TableFunction(call, *self.alias_with_columns(), token)

    def table(self, *, alias: bool = True, version: bool = True) -> TableName:
        """A table's name, with its version and its alias where they are allowed."""
        token = self.at
        parts = self.names("a table: delta.`path` or a name")
        if alias and self.peek() == "(":
            self.refuse(f"the table function `{'.'.join(parts)}`")
        asked = self.version()
        if asked is not None and not version:
            self.wrong(
                "expected a table without a version: only its newest one can be changed", self.tokens[token].start
            )
        other = self.alias() if alias and self.peek() != "tablesample" else None
        columns = (
            tuple(self.listed(lambda: self.name("a column's name"))) if alias and other and self.peek() == "(" else ()
        )
        return TableName(parts, asked, other, columns, token)

    def sampled(self, source: TableName | Nested) -> Relation:
        """Parses TABLESAMPLE and the alias behind it."""
        if not self.take("tablesample"):
            return source
        self.expect("(")
        rows = share = None
        if self.take("bucket"):
            bucket = self.whole_number("a number of buckets")
            self.expect("out", "of")
            share = bucket / (self.whole_number("a number of buckets") or 1)
            if self.peek() == "on":
                self.refuse("TABLESAMPLE of buckets ON a column")
        elif self.peek(1) == "percent" and self.kind() == "number":
            share = float(self.tokens[self.at].text.rstrip("bBdD")) / 100
            self.at += 2
        else:
            rows = self.whole_number("a number of rows or percent")
            self.expect("rows")
        self.expect(")")
        if share is not None and not 0 <= share <= 1:
            self.wrong("expected a share of the rows from 0 to 1")
        if self.peek() == "repeatable":
            self.refuse("TABLESAMPLE with REPEATABLE")
        alias, columns = self.alias_with_columns()
        return Sampled(replace(source, alias=alias, columns=columns) if alias else source, rows, share)

    def version(self) -> VersionLike | None:
        """Parses VERSION AS OF … or TIMESTAMP AS OF …; None without either."""
        for words in (("version",), ("system_version",), ("timestamp",), ("system_time",)):
            if self.take("for", *words, "as", "of") or self.take(*words, "as", "of"):
                return self.version_number() if "version" in words[0] else self.moment()
        return None

    def version_number(self) -> int:
        if self.kind() in ("string", "raw") and self.tokens[self.at].text[1:-1].isdecimal():
            return int(str(self.string().value))
        return self.whole_number("a version's number")

    def moment(self) -> VersionLike:
        """A constant time: text, a date or a timestamp, in UTC unless it names its zone."""
        token = self.at
        value = self.expression()
        if isinstance(value, Literal) and value.type.name == "string":
            return str(value.value)
        with self.located(token):
            program = compile_expressions([self.text_from(token)], _NO_COLUMNS, now_us=time.time_ns() // 1000)
            import pyarrow as pa

            made = program.evaluate(pa.record_batch({"one": [None]}))[0][0]
            try:
                moment = made.as_py()
            except (ValueError, OverflowError):
                raise InvalidArgumentError(
                    f"no version is that of {shown_value(made)}: give a moment in the years 1 to 9999"
                ) from None
        if isinstance(moment, dt.date) and not isinstance(moment, dt.datetime):
            moment = dt.datetime(moment.year, moment.month, moment.day)
        if not isinstance(moment, (str, dt.datetime)):
            self.wrong("expected a moment: text, a date or a timestamp", self.tokens[token].start)
        return moment

    # --- VALUES -------------------------------------------------------------------------------------------------------

    def values(self, *, defaults: bool = False) -> Values:
        """Parses VALUES and its rows; with `defaults` the word DEFAULT may replace a value."""
        token = self.at
        self.expect("values")
        rows = [self.value_row(defaults)]
        while self.take(","):
            rows.append(self.value_row(defaults))
        for row in rows:
            if len(row) != len(rows[0]):
                self.wrong(f"expected {len(rows[0])} values in each row, found {len(row)}", self.tokens[token].start)
        return Values(tuple(rows), token)

    def value_row(self, defaults: bool) -> tuple[Syntax | None, ...]:
        def read_value() -> Syntax | None:
            if defaults and self.peek() == "default" and self.peek(1) in (",", ")"):
                self.at += 1
                return None
            made = self.constant()
            return self.expression() if made is None else made

        return tuple(self.listed(read_value)) if self.peek() == "(" else (read_value(),)

    def constant(self) -> Syntax | None:
        """The constant that is a whole cell, parsed directly; None if the cell has more tokens."""
        tokens = self.tokens[self.at : self.at + 3]
        if len(tokens) < 3:
            return None
        (kind, text, _), (then, after, _), _ = tokens
        if after in (",", ")") and then == "op":
            if kind in ("number", "string") or (kind == "name" and text.lower() in ("null", "true", "false")):
                return self.primary()
        elif tokens[2].text in (",", ")") and tokens[2].kind == "op":
            if text == "-" and then == "number":
                self.at += 1
                return self.number("-")
            if kind == "name" and then == "string" and text.lower() in ("date", "timestamp", "timestamp_ntz"):
                return self.primary()
        return None

    # --- LATERAL ------------------------------------------------------------------------------------------------------

    def lateral(self, left: Relation, kind: str, token: int) -> Relation | None:
        """Parses the relation that LATERAL joins to the previous ones; None without LATERAL."""
        if not self.take("lateral"):
            return None
        if kind not in ("inner", "cross", "left"):
            self.wrong("expected an inner, a cross or a left join before LATERAL", self.tokens[token].start)
        if self.peek() in GENERATORS and self.peek(1) == "(":
            return self.generator(left, kind)
        start = self.at
        self.expect("(")
        query = self.query()
        self.expect(")")
        right = self.nested(query, start)
        on = self.expression() if kind != "cross" and self.take("on") else None
        if self.peek() == "using":
            self.wrong("expected ON: LATERAL takes no USING")
        return Join(left, right, kind, on, (), token, True)

    def generator(self, left: Relation, kind: str) -> View:
        """Parses a generator: a row for each element, as in LATERAL VIEW."""
        token = self.at
        call = self.expression()
        assert isinstance(call, Call)
        alias, columns = self.alias_with_columns()
        if kind != "cross" and self.take("on") and not self.take("true"):
            self.refuse(f"a condition on LATERAL {call.name}")
        return View(left, call, kind == "left", alias or "", columns, token)

    def view(self, source: Relation) -> View:
        """Parses LATERAL VIEW over the relations before it."""
        self.at += 2
        outer, token = self.take("outer"), self.at
        call = self.expression()
        if not isinstance(call, Call) or call.name not in GENERATORS:
            self.refuse("LATERAL VIEW of something else than explode, posexplode, inline or stack")
        alias = self.name("a name for the view") if self.kind() in ("name", "quoted") and self.peek() != "as" else ""
        columns: list[str] = []
        if self.take("as"):
            columns.append(self.name("a column's name"))
            while self.take(","):
                columns.append(self.name("a column's name"))
        return View(source, call, outer, alias, tuple(columns), token)

    # --- PIVOT and UNPIVOT --------------------------------------------------------------------------------------------

    def pivoted(self, source: Relation) -> Relation:
        """Parses PIVOT and UNPIVOT behind a relation."""
        while True:
            token = self.at
            if self.take("pivot"):
                source = self.pivot(source, token)
            elif self.take("unpivot"):
                source = self.unpivot(source, token)
            else:
                return source

    def pivot(self, source: Relation, token: int) -> Pivot:
        self.expect("(")
        aggregates = self.several(self.named_item)
        self.expect("for")
        several = self.peek() == "("
        columns = self.listed(self.column_item) if several else [self.column_item()]
        self.expect("in")
        values = self.listed(lambda: self.pivot_value(len(columns) if several else None))
        self.expect(")")
        return Pivot(source, tuple(aggregates), tuple(columns), tuple(values), self.alias(), token)

    def named_item(self) -> Item:
        token = self.at
        value = self.expression()
        text = self.text_from(token)
        return Item(value, text, self.alias(), token)

    def column_item(self) -> Item:
        token = self.at
        return Item(Name(self.names("a column's name")), self.text_from(token), None, token)

    def pivot_value(self, several: int | None) -> PivotValue:
        token = self.at
        parts = tuple(self.listed(self.expression)) if several is not None else (self.expression(),)
        if len(parts) != (several or 1):
            self.wrong(f"expected {several} values, found {len(parts)}", self.tokens[token].start)
        return PivotValue(parts, self.alias(), token)

    def unpivot(self, source: Relation, token: int) -> Unpivot:
        nulls = self.take("include", "nulls")
        if not nulls:
            self.take("exclude", "nulls")
        self.expect("(")
        several = self.peek() == "("
        titles = self.listed(lambda: self.name("a column's name")) if several else [self.name("a column's name")]
        self.expect("for")
        name = self.name("a column's name")
        self.expect("in")

        def group() -> tuple[tuple[Item, ...], str | None]:
            start = self.at
            columns = tuple(self.listed(self.column_item)) if several else (self.column_item(),)
            if len(columns) != len(titles):
                self.wrong(f"expected {len(titles)} columns, found {len(columns)}", self.tokens[start].start)
            return columns, self.alias()

        groups = self.listed(group)
        self.expect(")")
        return Unpivot(source, tuple(titles), name, tuple(groups), nulls, self.alias(), token)
