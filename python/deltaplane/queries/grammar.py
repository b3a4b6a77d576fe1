"""The grammar of queries over the words of a statement.

Reads text into `syntax` and knows no table. What Spark has and this grammar hasn't is refused by name. Called by
statements.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from typing import NoReturn

from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.syntax import Literal, Syntax
from deltaplane.expr.types import INT
from deltaplane.options import VersionLike
from deltaplane.queries.aggregates import AGGREGATES
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.syntax import (
    Aggregate,
    Body,
    Item,
    Join,
    Nested,
    Order,
    Query,
    Relation,
    Select,
    SetOperation,
    Star,
    Subquery,
    TableName,
    Values,
)

__all__ = ["BEGINNINGS", "GOES_ON", "Grammar"]

# What a query begins with.
BEGINNINGS = ("select", "with", "values", "table")
# Words that go on with a statement, so they are no alias unless AS or backticks say so.
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
_SETS = {"union": "union", "except": "except", "minus": "except"}
_LATER_CLAUSES = ("qualify", "window", "lateral", "pivot", "unpivot", "tablesample", "sort", "cluster", "distribute")
_NO_COLUMNS = json.dumps({"type": "struct", "fields": []})


class Grammar(Cursor):
    """Reads queries and the names of tables.

    >>> Grammar("SELECT x FROM delta.`/t` VERSION AS OF 3 WHERE x > 1 ORDER BY x DESC LIMIT 2").query().limit
    2
    """

    def __init__(self, text: str, *, own_queries: bool = True) -> None:
        """With `own_queries` off, queries that end a statement are another engine's to read."""
        super().__init__(text)
        self.own_queries = own_queries

    def last_query(self) -> Query:
        """The query that ends the statement; another engine's is passed over."""
        if self.own_queries:
            return self.query()
        start = self.at
        while self.at < len(self.tokens) and self.peek() != ";":
            self.at += 1
        if start == self.at:
            self.expected("a query")
        return Query(Values(()))

    def refuse(self, what: str) -> NoReturn:
        line, column = self.line_and_column(self.place())
        raise UnsupportedExpressionError(
            f"line {line}, column {column}: {what} isn't evaluated by the embedded engine: give spark= to run it on Spark"
        )

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        """The query that comes next."""
        if self.variables:
            self.refuse("a subquery in a lambda function")
        self.deeper()
        named = self.named_queries() if self.take("with") else ()
        body = self.sets()
        order = self.order() if self.take("order") else ()
        if self.peek() in _LATER_CLAUSES:
            self.refuse(self.peek().upper())
        limit = None
        if self.take("limit") and not self.take("all"):
            limit = self.whole_number("a number of rows")
        offset = self.whole_number("a number of rows") if self.take("offset") else 0
        self.depth -= 1
        return Query(body, named, order, limit, offset)

    def deeper(self) -> None:
        """Counts what is nested: deeper text than the parser's bound is refused."""
        self.depth += 1
        if self.depth > 40:
            self.wrong("nested too deeply: give parts of it names with WITH")

    def named_queries(self) -> tuple[tuple[str, Nested], ...]:
        if self.peek() == "recursive" and self.kind(1) in ("name", "quoted") and self.peek(1) != "as":
            self.refuse("WITH RECURSIVE")
        found = []
        while True:
            token = self.at
            name = self.name("a name for the query")
            columns = tuple(self.listed(lambda: self.name("a column's name"))) if self.peek() == "(" else ()
            self.take("as")
            self.expect("(")
            found.append((name, Nested(self.query(), name, columns, token)))
            self.expect(")")
            if not self.take(","):
                return tuple(found)

    def sets(self) -> Body:
        left = self.intersections()
        while (kind := _SETS.get(self.peek())) is not None:
            token = self.at
            self.at += 1
            every = self.every()
            left = SetOperation(kind, every, left, self.intersections(), token)
        return left

    def intersections(self) -> Body:
        left = self.rows()
        while self.peek() == "intersect":
            token = self.at
            self.at += 1
            every = self.every()
            left = SetOperation("intersect", every, left, self.rows(), token)
        return left

    def every(self) -> bool:
        if self.take("all"):
            return True
        self.take("distinct")
        return False

    def rows(self) -> Body:
        if self.peek() == "select":
            return self.select()
        if self.peek() == "values":
            return self.values()
        if self.peek() == "table" and self.kind(1) in ("name", "quoted"):
            token = self.at
            self.at += 1
            return Select((Star(token=token),), self.table(alias=False), token=token)
        if self.take("("):
            made = self.query()
            self.expect(")")
            return made
        self.expected("SELECT, VALUES, TABLE or a query in parentheses")

    def values(self, *, defaults: bool = False) -> Values:
        """VALUES and its rows; with `defaults` the word DEFAULT may stand for a value."""
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
        def one() -> Syntax | None:
            if defaults and self.peek() == "default" and self.peek(1) in (",", ")"):
                self.at += 1
                return None
            # A literal alone needs none of the steps through the operators.
            alone = self.kind() in ("number", "string") and self.peek(1) in (",", ")")
            return self.primary() if alone else self.expression()

        return tuple(self.listed(one)) if self.peek() == "(" else (one(),)

    def select(self) -> Select:
        token = self.at
        self.expect("select")
        distinct = self.take("distinct")
        if not distinct:
            self.take("all")
        items = [self.item()]
        while self.take(","):
            items.append(self.item())
        source = self.relations() if self.take("from") else None
        if self.peek() in _LATER_CLAUSES:
            self.refuse(self.peek().upper())
        where_token = self.at + 1
        where = self.expression() if self.take("where") else None
        group = self.group() if self.take("group") else ()
        having_token = self.at + 1
        having = self.expression() if self.take("having") else None
        return Select(
            tuple(items),
            source,
            where,
            group,
            having,
            distinct,
            token,
            where_token=where_token,
            having_token=having_token,
        )

    def item(self) -> Item | Star:
        star = self.star()
        if star is not None:
            return star
        if self.peek() == "from":
            self.expected("a column or an expression")
        token = self.at
        value = self.expression()
        text = self.text_from(token)
        return Item(value, text, self.alias(), token)

    def star(self) -> Star | None:
        start, qualifier = self.at, []
        while self.kind() in ("name", "quoted") and self.peek(1) == ".":
            qualifier.append(self.identifier())
            self.at += 1
        if not self.take("*"):
            self.at = start
            return None
        but: list[str] = []
        if self.peek() == "except" and self.peek(1) == "(" and self.peek(2) not in BEGINNINGS:
            self.at += 1
            but = self.listed(lambda: self.name("a column's name"))
        return Star(tuple(qualifier), tuple(but), start)

    def alias(self) -> str | None:
        if self.take("as"):
            return self.name("a name")
        if self.kind() == "quoted" or (self.kind() == "name" and self.peek() not in GOES_ON):
            return self.identifier()
        return None

    def group(self) -> tuple[Item, ...]:
        self.expect("by")
        if self.peek() in ("rollup", "cube", "grouping") or (self.peek() == "all" and self.peek(1) != "("):
            self.refuse(f"GROUP BY {self.peek().upper()}")
        found = []
        while True:
            token = self.at
            value = self.expression()
            found.append(Item(value, self.text_from(token), token=token))
            if not self.take(","):
                break
        if self.peek() in ("with", "grouping"):
            self.refuse(f"GROUP BY … {self.peek().upper()}")
        return tuple(found)

    def order(self) -> tuple[Order, ...]:
        self.expect("by")
        if self.peek() == "all" and self.peek(1) not in ("(", "."):
            self.refuse("ORDER BY ALL")
        found = []
        while True:
            token = self.at
            value = self.expression()
            descending = self.take("desc")
            if not descending:
                self.take("asc")
            nulls_first = not descending
            if self.take("nulls"):
                nulls_first = self.take("first")
                if not nulls_first and not self.take("last"):
                    self.expected("FIRST or LAST")
            found.append(Order(value, descending, nulls_first, token))
            if not self.take(","):
                return tuple(found)

    # --- relations ----------------------------------------------------------------------------------------------------

    def relations(self) -> Relation:
        made = self.joined(self.relation())
        while self.peek() == ",":
            token = self.at
            self.at += 1
            if self.peek() == "lateral":
                self.refuse("LATERAL")
            made = self.joined(Join(made, self.relation(), "cross", token=token))
        return made

    def joined(self, left: Relation) -> Relation:
        while True:
            token = self.at
            if self.peek() == "natural":
                self.refuse("NATURAL JOIN")
            kind = next((kind for words, kind in _JOINS.items() if self.take(*words)), None)
            if kind is None:
                if self.peek() in ("left", "right", "full", "cross", "inner"):
                    self.at += 1
                    self.expected("JOIN")
                return left
            if self.peek() == "lateral":
                self.refuse("LATERAL")
            right = self.relation()
            on: Syntax | None = None
            using: tuple[str, ...] = ()
            if kind != "cross" and self.take("on"):
                on = self.expression()
            elif kind != "cross" and self.take("using"):
                using = tuple(self.listed(lambda: self.name("a column's name")))
            elif kind not in ("cross", "inner"):
                self.expected("ON or USING")
            left = Join(left, right, kind, on, using, token)

    def relation(self) -> Relation:
        """A table, or a query or a join in parentheses."""
        if self.peek() == "values" and self.peek(1) == "(":
            token = self.at
            return self.nested(Query(self.values()), token)
        if self.peek() != "(":
            return self.table()
        token = self.at
        inner = 1
        while self.peek(inner) == "(":
            inner += 1
        self.at += 1
        # A query in two pairs of parentheses is one, a join whose first relation is a query isn't.
        if self.peek(inner - 1) in BEGINNINGS and not self.is_join_of_queries():
            query = self.query()
            self.expect(")")
            return self.nested(query, token)
        made = self.relations()
        self.expect(")")
        return made

    def is_join_of_queries(self) -> bool:
        """Whether, behind a parenthesis, a relation in parentheses comes first and something joins it."""
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

    def nested(self, query: Query, token: int) -> Nested:
        alias = self.alias()
        columns = tuple(self.listed(lambda: self.name("a column's name"))) if alias and self.peek() == "(" else ()
        return Nested(query, alias, columns, token)

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
        if self.peek() == "tablesample":
            self.refuse("TABLESAMPLE")
        other = self.alias() if alias else None
        columns = (
            tuple(self.listed(lambda: self.name("a column's name"))) if alias and other and self.peek() == "(" else ()
        )
        return TableName(parts, asked, other, columns, token)

    def version(self) -> VersionLike | None:
        """VERSION AS OF … or TIMESTAMP AS OF …, if that comes next."""
        for words in (("version",), ("system_version",), ("timestamp",), ("system_time",)):
            if self.take("for", *words, "as", "of") or self.take(*words, "as", "of"):
                return self.version_number() if "version" in words[0] else self.moment()
        return None

    def version_number(self) -> int:
        if self.kind() in ("string", "raw") and self.tokens[self.at].text[1:-1].isdecimal():
            return int(str(self.string().value))
        return self.whole_number("a version's number")

    def moment(self) -> VersionLike:
        """A constant moment: text, a date or a timestamp, at UTC unless it names its zone."""
        token = self.at
        value = self.expression()
        if isinstance(value, Literal) and value.type.name == "string":
            return str(value.value)
        with self.located(token):
            program = compile_expressions([self.text_from(token)], _NO_COLUMNS, now_us=time.time_ns() // 1000)
            import pyarrow as pa

            found = program.evaluate(pa.record_batch({"one": [None]}))[0][0].as_py()
        if isinstance(found, dt.date) and not isinstance(found, dt.datetime):
            found = dt.datetime(found.year, found.month, found.day)
        if not isinstance(found, (str, dt.datetime)):
            self.wrong("expected a moment: text, a date or a timestamp", self.tokens[token].start)
        return found

    # --- in expressions -----------------------------------------------------------------------------------------------

    def call(self) -> Syntax:
        name = self.peek()
        if name == "exists" and self.peek(2) in BEGINNINGS:
            self.at += 2
            query = self.query()
            self.expect(")")
            return Subquery("exists", (), query)
        if name not in AGGREGATES:
            made = super().call()
            if self.peek() == "over" and (self.peek(1) == "(" or self.kind(1) in ("name", "quoted")):
                self.refuse("a window function")
            return made
        self.at += 2
        return self.aggregate(name)

    def aggregate(self, name: str) -> Aggregate:
        if self.variables:
            self.refuse(f"the aggregate function {name} in a lambda function")
        args: list[Syntax] = []
        distinct = False
        if name == "count" and self.take("*"):
            self.expect(")")
            args = [Literal("1", INT)]
        else:
            distinct = self.take("distinct")
            if not distinct and self.peek() == "all" and self.peek(1) != ")":
                self.at += 1
            args = self.arguments(of=name)
        where = None
        if self.peek() == "filter" and self.peek(1) == "(":
            self.at += 2
            self.expect("where")
            where = self.expression()
            self.expect(")")
        if self.peek() in ("over", "within", "ignore", "respect"):
            self.refuse("a window function")
        return Aggregate(name, tuple(args), distinct, where)

    def arguments(self, of: str = "") -> list[Syntax]:
        if of not in AGGREGATES:
            return super().arguments(of)
        args: list[Syntax] = []
        if self.take(")"):
            return args
        while True:
            args.append(self.expression())
            if not self.take(","):
                self.expect(")")
                return args

    def tested(self, value: Syntax) -> Syntax | None:
        if self.peek() == "in" and self.peek(1) == "(" and self.peek(2) in BEGINNINGS:
            self.at += 2
            query = self.query()
            self.expect(")")
            return Subquery("in", (value,), query)
        return super().tested(value)

    def primary(self) -> Syntax:
        if self.peek() == "(" and self.peek(1) in BEGINNINGS:
            self.at += 1
            query = self.query()
            self.expect(")")
            return Subquery("scalar", (), query)
        return super().primary()
