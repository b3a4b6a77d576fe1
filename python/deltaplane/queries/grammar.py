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
from deltaplane.expr.syntax import Call, Literal, Name, Syntax
from deltaplane.expr.types import INT
from deltaplane.options import VersionLike
from deltaplane.queries.aggregates import AGGREGATES
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.generators import GENERATORS
from deltaplane.queries.syntax import (
    Aggregate,
    Body,
    Frame,
    Item,
    Join,
    Nested,
    Order,
    Pivot,
    PivotValue,
    Query,
    Relation,
    Select,
    SetOperation,
    Star,
    Subquery,
    TableName,
    Unpivot,
    Values,
    View,
    Window,
)
from deltaplane.queries.windows import WINDOW_FUNCTIONS

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
_GROUPINGS = ("grouping", "grouping_id")
_LATER_CLAUSES = ("lateral", "pivot", "unpivot", "tablesample", "sort", "cluster", "distribute")
# Functions that say within their parentheses what becomes of nulls.
_INSIDE = ("first", "last", "any_value")
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
        self.passes_subqueries = False
        self.ignored = False

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

    def aliased_query(self) -> Query:
        """As `last_query`, for one that a name may follow."""
        if self.own_queries:
            return self.query()
        if not self.take("("):
            self.expected("a query in parentheses, which the name for its rows follows")
        made = self.passed_query()
        self.expect(")")
        return made

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

    def subquery(self) -> Query:
        """The query of a subquery, with the parenthesis behind it."""
        made = self.passed_query() if self.passes_subqueries else self.query()
        self.expect(")")
        return made

    def passed_query(self) -> Query:
        """Passes over another engine's query in parentheses."""
        depth = 0
        while self.at < len(self.tokens) and (depth or self.peek() != ")"):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            self.at += 1
        return Query(Values(()))

    def with_subqueries(self) -> Syntax:
        """An expression whose subqueries are another engine's where queries are."""
        self.passes_subqueries = not self.own_queries
        try:
            return self.expression()
        finally:
            self.passes_subqueries = False

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
            made = self.constant()
            return self.expression() if made is None else made

        return tuple(self.listed(one)) if self.peek() == "(" else (one(),)

    def constant(self) -> Syntax | None:
        """The constant that is a whole cell, without the steps through the operators; None where there is more."""
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
        while source is not None and self.peek() == "lateral" and self.peek(1) == "view":
            source = self.pivoted(self.view(source))
        if self.peek() in _LATER_CLAUSES:
            self.refuse(self.peek().upper())
        where_token = self.at + 1
        where = self.expression() if self.take("where") else None
        group, sets = self.group() if self.take("group") else ((), None)
        having_token = self.at + 1
        having = self.expression() if self.take("having") else None
        windows, qualify, qualify_token = self.after_groups()
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
            sets=sets,
            windows=windows,
            qualify=qualify,
            qualify_token=qualify_token,
        )

    def after_groups(self) -> tuple[tuple[tuple[str, Window], ...], Syntax | None, int]:
        """WINDOW and QUALIFY, in either order."""
        windows: list[tuple[str, Window]] = []
        qualify, token = None, 0
        while True:
            if not windows and self.take("window"):
                windows.append(self.named_window())
                while self.take(","):
                    windows.append(self.named_window())
            elif qualify is None and self.take("qualify"):
                token = self.at
                qualify = self.expression()
            else:
                return tuple(windows), qualify, token

    def named_window(self) -> tuple[str, Window]:
        name = self.name("a window's name")
        self.expect("as")
        return name, self.window("", ())

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

    def group(self) -> tuple[tuple[Item, ...], tuple[tuple[int, ...], ...] | None]:
        """What rows are grouped by, and the sets of it if there are several."""
        self.expect("by")
        items: list[Item] = []
        sets: list[tuple[int, ...]] = [()]
        several = False
        while True:
            found = self.several_sets(items)
            several |= found is not None
            sets = [one + other for one in sets for other in found or [(self.group_item(items),)]]
            if not self.take(","):
                break
        every = tuple(range(len(items)))
        if not several and self.peek() == "with" and self.peek(1) in ("rollup", "cube"):
            self.at += 1
            sets = _rolled([(i,) for i in every]) if self.take("rollup") else _cubed([(i,) for i in every])
            self.take("cube")
            several = True
        elif not several and self.peek() == "grouping":
            sets, several = self.several_sets(items) or [], True
            if len(items) > len(every):
                self.wrong("expected sets of what rows are grouped by")
        if len(sets) > 1024:
            self.refuse(f"GROUP BY with {len(sets)} sets")
        return tuple(items), tuple(sets) if several else None

    def group_item(self, items: list[Item]) -> int:
        """The number of the next item, which may have stood before."""
        token = self.at
        value = self.expression()
        for i, item in enumerate(items):
            if item.value == value:
                return i
        items.append(Item(value, self.text_from(token), token=token))
        return len(items) - 1

    def several_sets(self, items: list[Item]) -> list[tuple[int, ...]] | None:
        """What ROLLUP, CUBE or GROUPING SETS stands for, if one comes next."""
        if self.peek() in ("rollup", "cube") and self.peek(1) == "(":
            rolls = self.take("rollup")
            if not rolls:
                self.at += 1
            parts = self.listed(lambda: self.group_set(items))
            return _rolled(parts) if rolls else _cubed(parts)
        if self.take("grouping", "sets"):
            members = self.listed(lambda: self.several_sets(items) or [self.group_set(items)])
            return [one for member in members for one in member]
        return None

    def group_set(self, items: list[Item]) -> tuple[int, ...]:
        start = self.at
        if self.take("(", ")"):
            return ()
        if self.peek() == "(":
            found = tuple(self.listed(lambda: self.group_item(items)))
            if self.peek() in (",", ")"):
                return found
            self.at = start
        return (self.group_item(items),)

    def order(self) -> tuple[Order, ...]:
        self.expect("by")
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
            made = self.joined(self.lateral(made, "cross", token) or Join(made, self.relation(), "cross", token=token))
        return made

    def lateral(self, left: Relation, kind: str, token: int) -> Relation | None:
        """What LATERAL joins to the relations before it, if that comes next."""
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
        """A row for each element, as of a LATERAL VIEW."""
        token = self.at
        call = self.expression()
        assert isinstance(call, Call)
        alias = self.alias()
        columns = tuple(self.listed(lambda: self.name("a column's name"))) if alias and self.peek() == "(" else ()
        if kind != "cross" and self.take("on") and not self.take("true"):
            self.refuse(f"a condition on LATERAL {call.name}")
        return View(left, call, kind == "left", alias or "", columns, token)

    def pivoted(self, source: Relation) -> Relation:
        """A relation with what PIVOT and UNPIVOT make of it."""
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
        aggregates = [self.named_item()]
        while self.take(","):
            aggregates.append(self.named_item())
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

    def view(self, source: Relation) -> View:
        """LATERAL VIEW over the relations before it."""
        self.at += 2
        outer, token = self.take("outer"), self.at
        call = self.expression()
        if not isinstance(call, Call) or call.name not in GENERATORS:
            self.refuse("LATERAL VIEW of something else than explode or posexplode")
        alias = self.name("a name for the view") if self.kind() in ("name", "quoted") and self.peek() != "as" else ""
        columns: list[str] = []
        if self.take("as"):
            columns.append(self.name("a column's name"))
            while self.take(","):
                columns.append(self.name("a column's name"))
        return View(source, call, outer, alias, tuple(columns), token)

    def joined(self, left: Relation) -> Relation:
        while True:
            left = self.pivoted(left)
            token = self.at
            if self.peek() == "natural":
                self.refuse("NATURAL JOIN")
            kind = next((kind for words, kind in _JOINS.items() if self.take(*words)), None)
            if kind is None:
                if self.peek() in ("left", "right", "full", "cross", "inner"):
                    self.at += 1
                    self.expected("JOIN")
                return left
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
                self.expected("ON or USING")
            left = Join(left, right, kind, on, using, token)

    def relation(self) -> Relation:
        """A table, or a query or a join in parentheses."""
        if self.take("lateral") and (self.peek() != "(" or self.peek(1) not in BEGINNINGS):
            self.expected("a query in parentheses")
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
            return Subquery("exists", (), self.subquery())
        if name in WINDOW_FUNCTIONS:
            self.at += 2
            return self.window_function(name)
        if name not in AGGREGATES and name not in _GROUPINGS:
            return super().call()
        self.at += 2
        return self.aggregate(name)

    def window_function(self, name: str) -> Syntax:
        args = self.arguments(of=name)
        if self.peek() == "filter" and self.peek(1) == "(":
            self.refuse(f"FILTER of {name}")
        ignores = self.nulls() or (name in _INSIDE and self.ignored)
        self.ignored = False
        if self.peek() != "over":
            self.refuse(f"the function `{name}` without OVER")
        self.at += 1
        return self.window(name, tuple(args), ignores)

    def nulls(self) -> bool:
        """Whether nulls are ignored, as IGNORE NULLS or RESPECT NULLS says."""
        if self.take("ignore", "nulls"):
            return True
        self.take("respect", "nulls")
        return False

    def window(self, name: str, args: tuple[Syntax, ...], ignores: bool = False) -> Window:
        """A function over the window that comes next: a name, or what it is in parentheses."""
        if self.variables:
            self.refuse("a window function in a lambda function")
        if self.peek() != "(":
            return Window(name, args, ignores_nulls=ignores, named=self.name("a window or a parenthesis"))
        self.at += 1
        if self.kind() in ("name", "quoted") and self.peek(1) == ")":
            named = self.name("a window's name")
            self.expect(")")
            return Window(name, args, ignores_nulls=ignores, named=named)
        partition: list[Syntax] = []
        if self.take("partition", "by") or self.take("distribute", "by"):
            partition.append(self.expression())
            while self.take(","):
                partition.append(self.expression())
        order = self.order() if self.take("order") or self.take("sort") else ()
        frame = self.frame()
        self.expect(")")
        return Window(
            name,
            (*args, *partition, *(o.value for o in order)),
            len(partition),
            tuple((o.descending, o.nulls_first) for o in order),
            frame,
            ignores,
        )

    def frame(self) -> Frame | None:
        if self.peek() not in ("rows", "range"):
            return None
        rows = self.take("rows")
        if not rows:
            self.at += 1
        token = self.at
        if self.take("between"):
            start = self.bound("following")
            self.expect("and")
            end = self.bound("preceding")
        else:
            start, end = self.bound("following"), 0
        if start is not None and end is not None and start > end:
            self.wrong("expected a frame that ends behind its beginning", self.tokens[token].start)
        return Frame(rows, start, end)

    def bound(self, unfit: str) -> int | None:
        if self.take("unbounded"):
            if self.peek() == unfit or not (self.take("preceding") or self.take("following")):
                self.expected("FOLLOWING" if unfit == "preceding" else "PRECEDING")
            return None
        if self.take("current", "row"):
            return 0
        if self.kind() != "number" or self.peek(1) not in ("preceding", "following"):
            self.refuse("a frame's bound that isn't a whole number")
        count = self.whole_number("a number of rows")
        if self.take("preceding"):
            return -count
        self.expect("following")
        return count

    def aggregate(self, name: str) -> Syntax:
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
        if self.peek() in ("within", "ignore", "respect"):
            self.refuse(f"{name} with {self.peek().upper()}")
        if self.peek() != "over" or (self.peek(1) != "(" and self.kind(1) not in ("name", "quoted")):
            return Aggregate(name, tuple(args), distinct, where)
        if distinct:
            self.wrong("expected a window function without DISTINCT")
        self.at += 1
        # The functions pass nulls over, so that what isn't counted isn't evaluated either.
        kept = args if where is None else [Call("case", (where, arg)) for arg in args]
        return self.window(name, tuple(kept))

    def arguments(self, of: str = "") -> list[Syntax]:
        if of not in AGGREGATES and of not in WINDOW_FUNCTIONS and of not in _GROUPINGS:
            return super().arguments(of)
        args: list[Syntax] = []
        if self.take(")"):
            return args
        while True:
            args.append(self.expression())
            if of in _INSIDE:
                self.ignored = self.nulls()
            if not self.take(","):
                self.expect(")")
                return args

    def tested(self, value: Syntax) -> Syntax | None:
        if self.peek() == "in" and self.peek(1) == "(" and self.peek(2) in BEGINNINGS:
            self.at += 2
            return Subquery("in", (value,), self.subquery())
        return super().tested(value)

    def primary(self) -> Syntax:
        if self.peek() == "(" and self.peek(1) in BEGINNINGS:
            self.at += 1
            return Subquery("scalar", (), self.subquery())
        return super().primary()


def _rolled(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(i for part in parts[:count] for i in part) for count in range(len(parts), -1, -1)]


def _cubed(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    # More than so many sets are refused anyway.
    kept = range(1 << min(len(parts), 11))
    return [tuple(i for n, part in enumerate(parts) if mask >> n & 1 for i in part) for mask in kept]
