"""The grammar of queries: WITH, set operations, and the clauses of SELECT.

Parses text into `syntax` and knows no table; `expressions` and `relations` parse the parts. Spark's
other constructs are refused by name.
"""

from __future__ import annotations

from dataclasses import replace

from deltaplane.exceptions import InvalidArgumentError, SqlSyntaxError, UnsupportedExpressionError
from deltaplane.expr.syntax import Syntax
from deltaplane.queries.expressions import FIRST_WORDS
from deltaplane.queries.functions.generators import generates
from deltaplane.queries.relations import Relations
from deltaplane.queries.rules import ordinal
from deltaplane.queries.scopes import contains
from deltaplane.queries.syntax import (
    Aggregate,
    Body,
    Item,
    Nested,
    Query,
    Relation,
    Select,
    SetOperation,
    Star,
    Step,
    Values,
    Window,
)

__all__ = ["Grammar"]

_SETS = {"union": "union", "except": "except", "minus": "except"}
# Spark's spark.sql.cteRecursionLevelLimit, by default.
_LEVELS = 100
# Tokens that may follow an expression in a statement.
_BEHIND_EXPRESSIONS = (",", ")", ";", "by", "then", "when", "where")
_LATER_CLAUSES = ("lateral", "pivot", "unpivot", "tablesample", "sort", "cluster", "distribute")


class Grammar(Relations):
    """Parses queries and the names of tables.

    >>> Grammar("SELECT x FROM delta.`/t` VERSION AS OF 3 WHERE x > 1 ORDER BY x DESC LIMIT 2").query().limit
    2
    """

    def __init__(self, text: str, *, own_queries: bool = True) -> None:
        """Without `own_queries`, another engine parses the query at the end of a statement."""
        super().__init__(text)
        self.own_queries = own_queries

    def last_query(self) -> Query:
        """The query at the end of the statement; another engine's query is skipped."""
        if self.own_queries:
            return self.query()
        start = self.at
        while self.at < len(self.tokens) and self.peek() != ";":
            self.at += 1
        if start == self.at:
            self.expected("a query")
        return Query(Values(()))

    def aliased_query(self) -> Query:
        """As `last_query`, for one that an alias may follow."""
        if self.own_queries:
            return self.query()
        if not self.take("("):
            self.expected("a query in parentheses, which the name for its rows follows")
        made = self.passed_query()
        self.expect(")")
        return made

    def with_subqueries(self) -> Syntax:
        """Parses an expression; another engine evaluates its subqueries if it evaluates queries."""
        self.passes_subqueries = not self.own_queries
        try:
            return self.expression()
        finally:
            self.passes_subqueries = False

    def others_expression(self) -> Syntax | None:
        """Parses an expression for another engine; returns None if this grammar can't parse it.
        Ends where the statement continues."""
        start, depth, variables = self.at, self.depth, list(self.variables)
        try:
            made = self.with_subqueries()
            if self.at > start and self._ends_expression():
                return made
        except (SqlSyntaxError, UnsupportedExpressionError, InvalidArgumentError):
            pass
        self.at, self.depth, self.variables = start, depth, variables
        nested = 0
        while self.at < len(self.tokens) and (nested or not self._ends_expression()):
            nested += {"(": 1, "[": 1, "case": 1, ")": -1, "]": -1, "end": -1}.get(self.peek(), 0)
            self.at += 1
        if start == self.at:
            self.expected("an expression")
        return None

    def _ends_expression(self) -> bool:
        return self.at == len(self.tokens) or (self.kind() != "quoted" and self.peek() in _BEHIND_EXPRESSIONS)

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(self) -> Query:
        """Parses the query that begins at the next token."""
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
        """Counts nesting; refuses text beyond the parser's limit."""
        self.depth += 1
        if self.depth > 40:
            self.wrong("nested too deeply: give parts of it names with WITH")

    def named_queries(self) -> tuple[tuple[str, Nested], ...]:
        recursive = self.peek() == "recursive" and self.kind(1) in ("name", "quoted") and self.peek(1) != "as"
        self.at += recursive
        queries = []
        while True:
            token = self.at
            name = self.name("a name for the query")
            columns = tuple(self.listed(lambda: self.name("a column's name"))) if self.peek() == "(" else ()
            levels = self.levels() if recursive else None
            self.take("as")
            self.expect("(")
            queries.append((name, Nested(self.query(), name, columns, token, levels)))
            self.expect(")")
            if not self.take(","):
                return tuple(queries)

    def levels(self) -> int:
        """The number of levels up to which a recursive query may read its own rows."""
        if not self.take("max", "recursion", "level"):
            return _LEVELS
        return self.whole_number("a number of levels")

    def sets(self) -> Body:
        left = self.intersections()
        while True:
            token = self.at
            if (kind := _SETS.get(self.peek())) is not None:
                self.at += 1
                every = self.every()
                left = SetOperation(kind, every, left, self.intersections(), token)
            elif self.take("|>"):
                left = self.step(left)
            else:
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
            token, rows = self.at, self.values()
            named = self.nested(Query(rows), token)
            return rows if named == Nested(Query(rows), token=token) else _all_of(named, token)
        if self.peek() == "table" and self.kind(1) in ("name", "quoted"):
            token = self.at
            self.at += 1
            return _all_of(self.table(alias=False), token)
        if self.take("("):
            made = self.query()
            self.expect(")")
            return made
        if self.peek() == "from":
            return self.from_first()
        self.expected("SELECT, VALUES, TABLE or a query in parentheses")

    def from_first(self) -> Select:
        """A query that begins with FROM; without SELECT it has all columns."""
        token = self.at
        self.expect("from")
        source = self.viewed(self.relations())
        if self.peek() == "select":
            return self.select(source)
        last = self.tokens[self.at - 1]
        if self.peek() in ("into", "overwrite") and last.text.lower() == "insert":
            self.wrong("expected SELECT: begin the statement with INSERT, and its query with SELECT", last.start)
        if self.peek() in ("where", "group", "having"):
            self.expected("SELECT")
        return _all_of(source, token)

    # --- steps of a query with |> -------------------------------------------------------------------------------------

    def step(self, left: Body) -> Body:
        """Parses a step, over the rows of the query before it."""
        token, source = self.at, _source(left, self.at)
        word = self.peek()
        if word == "select":
            return self.selecting_step(source)
        if word in ("pivot", "unpivot"):
            return _all_of(self.pivoted(source), token)
        if word == "tablesample":
            return _all_of(self.sampled(Nested(Query(left), token=token)), token)
        if word in ("union", "except", "minus", "intersect"):
            self.at += 1
            every = self.every()
            return SetOperation(_SETS.get(word, word), every, left, self.rows(), token)
        if word in ("order", "limit", "offset"):
            return self.ordering_step(left, source)
        if self.take("as"):
            return _all_of(Nested(Query(left), self.name("a name for the rows"), token=token), token)
        if self.take("where"):
            made = Step(source, where=self.expression(), token=token + 1)
        elif self.take("extend"):
            made = Step(source, extended=tuple(self.step_items()), token=token)
        elif self.take("drop"):
            names = self.several(lambda: self.name("a column's name"))
            made = Step(source, dropped=tuple(names), token=token)
        elif self.take("set"):
            made = self.assigning_step(source)
        elif self.take("aggregate"):
            return self.aggregating_step(source, token)
        else:
            joined = self.joined(source)
            if joined is source:
                self.expected("a step: SELECT, EXTEND, SET, DROP, AS, WHERE, AGGREGATE, ORDER BY, LIMIT, JOIN or UNION")
            return _all_of(joined, token)
        return _all_of(made, token)

    def selecting_step(self, source: Relation) -> Select:
        token = self.at
        made = self.select(source)
        clauses = made.where is not None or made.group_by or made.sets or made.having is not None
        if clauses or any(isinstance(i, Item) and contains(i.value, Aggregate) for i in made.items):
            self.wrong(
                "expected |> AGGREGATE for aggregate functions, and |> WHERE for conditions", self.tokens[token].start
            )
        return made

    def step_items(self) -> list[Item]:
        """New columns, without aggregate functions."""
        items = self.several(self.named_item)
        for item in items:
            if contains(item.value, Aggregate):
                self.wrong("expected |> AGGREGATE for an aggregate function", self.tokens[item.token].start)
        return items

    def assigning_step(self, source: Relation) -> Step:
        """Parses assignments, each of which sees the values of those before it."""
        made: Step | None = None
        while made is None or self.take(","):
            token = self.at
            name = self.name("a column's name")
            self.expect("=")
            value = self.expression()
            if contains(value, Aggregate):
                self.wrong("expected |> AGGREGATE for an aggregate function", self.tokens[token].start)
            made = Step(made or source, assigned=Item(value, name, name, token), token=token)
        return made

    def ordering_step(self, left: Body, source: Relation) -> Query:
        """Parses ORDER BY, LIMIT or OFFSET; a limit after an order keeps the first rows of it."""
        if self.take("order"):
            return Query(_all_of(source, self.at), order=self.order())
        is_limit = self.take("limit")
        if not is_limit:
            self.expect("offset")
        before = left if isinstance(left, Query) and not left.named and left.limit is None else None
        query = before or Query(_all_of(source, self.at))
        if is_limit:
            return query if self.take("all") else replace(query, limit=self.whole_number("a number of rows"))
        return replace(query, offset=query.offset + self.whole_number("a number of rows"))

    def aggregating_step(self, source: Relation, token: int) -> Select:
        """Parses AGGREGATE, whose result has the keys before the values."""
        items = [] if self.peek() == "group" else self.several(self.named_item)
        keys: list[Item] = []
        if self.take("group"):
            self.expect("by")
            if self.peek() in ("rollup", "cube", "grouping", "all"):
                self.refuse(f"|> AGGREGATE with {self.peek().upper()}")
            keys = self.several(self.named_item)
        for key in keys:
            if ordinal(key.value) is not None:
                self.refuse("|> AGGREGATE by the number of a column")
        for item in items:
            if not contains(item.value, Aggregate):
                self.wrong(
                    "expected an aggregate function: other values stand in GROUP BY", self.tokens[item.token].start
                )
        return Select((*keys, *items), source, group_by=tuple(keys), token=token)

    # --- SELECT -------------------------------------------------------------------------------------------------------

    def select(self, source: Relation | None = None) -> Select:
        """Parses SELECT; `source` is a FROM before it."""
        token = self.at
        self.expect("select")
        while self.take("/*+"):
            self.hint()
        distinct = self.take("distinct")
        if not distinct:
            self.take("all")
        items = self.several(self.item)
        if source is None and self.take("from"):
            source = self.viewed(self.relations())
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

    def viewed(self, source: Relation) -> Relation:
        """Parses each LATERAL VIEW over relations."""
        while self.peek() == "lateral" and self.peek(1) == "view":
            source = self.pivoted(self.view(source))
        return source

    def hint(self) -> None:
        """Skips a hint, since hints affect only how rows are computed."""
        if self.kind() not in ("name", "quoted"):
            self.expected("a hint")
        while self.at < len(self.tokens) and self.peek() != "*/":
            self.at += 1
        self.expect("*/")

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
        if self.peek() == "(" or (self.peek() == "as" and self.peek(1) == "("):
            self.take("as")
            names = tuple(self.listed(lambda: self.name("a column's name")))
            if not generates(value):
                self.wrong("expected one name: several belong to a generator such as explode", self.tokens[token].start)
            return Item(value, text, None, token, names)
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
        if self.peek() == "except" and self.peek(1) == "(" and self.peek(2) not in FIRST_WORDS:
            self.at += 1
            but = self.listed(lambda: self.name("a column's name"))
        return Star(tuple(qualifier), tuple(but), start)

    # --- groups -------------------------------------------------------------------------------------------------------

    def group(self) -> tuple[tuple[Item, ...], tuple[tuple[int, ...], ...] | None]:
        """The grouping expressions, and the grouping sets if there are several."""
        self.expect("by")
        items: list[Item] = []
        sets: list[tuple[int, ...]] = [()]
        several = False
        while True:
            inner_sets = self.several_sets(items)
            several |= inner_sets is not None
            sets = [first_set + other for first_set in sets for other in inner_sets or [(self.group_item(items),)]]
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
        """The index of the next item, which may have occurred before."""
        token = self.at
        value = self.expression()
        for i, item in enumerate(items):
            if item.value == value:
                return i
        items.append(Item(value, self.text_from(token), token=token))
        return len(items) - 1

    def several_sets(self, items: list[Item]) -> list[tuple[int, ...]] | None:
        """The grouping sets that ROLLUP, CUBE or GROUPING SETS represents, if one comes next."""
        if self.peek() in ("rollup", "cube") and self.peek(1) == "(":
            rolls = self.take("rollup")
            if not rolls:
                self.at += 1
            parts = self.listed(lambda: self.group_set(items))
            return _rolled(parts) if rolls else _cubed(parts)
        if self.take("grouping", "sets"):
            members = self.listed(lambda: self.several_sets(items) or [self.group_set(items)])
            return [index_set for member in members for index_set in member]
        return None

    def group_set(self, items: list[Item]) -> tuple[int, ...]:
        start = self.at
        if self.take("(", ")"):
            return ()
        if self.peek() == "(":
            indices = tuple(self.listed(lambda: self.group_item(items)))
            if self.peek() in (",", ")"):
                return indices
            self.at = start
        return (self.group_item(items),)


def _all_of(source: Relation, token: int) -> Select:
    """All rows and columns of a relation."""
    return Select((Star(token=token),), source, token=token)


def _source(body: Body, token: int) -> Relation:
    """A query as the relation of the step behind it: what it adds nothing to remains itself, so
    that its columns keep the names of their tables."""
    if isinstance(body, Query) and isinstance(body.body, Select) and not body.named:
        source = _source(body.body, token)
        if not isinstance(source, Nested) or source is body.body.source:
            return Step(source, order=body.order, limit=body.limit, offset=body.offset, token=token)
    if isinstance(body, Select) and body.source is not None and _all_of(body.source, body.token) == body:
        return body.source
    return Nested(Query(body), token=token)


def _rolled(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    return [tuple(i for part in parts[:count] for i in part) for count in range(len(parts), -1, -1)]


def _cubed(parts: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    # Limits the number of sets, since larger numbers are refused later.
    masks = range(1 << min(len(parts), 11))
    return [tuple(i for n, part in enumerate(parts) if mask >> n & 1 for i in part) for mask in masks]
