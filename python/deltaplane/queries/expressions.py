"""The grammar of expressions in queries: adds aggregate functions, windows and subqueries.

Extends the parser of expressions, through `cursor`; leaves queries in parentheses to its caller,
and knows no relation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Decimal
from typing import NoReturn

from deltaplane.exceptions import UnsupportedExpressionError
from deltaplane.expr.syntax import Call, Literal, Syntax
from deltaplane.expr.types import BOOLEAN, INT, STRING
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.functions.aggregates import AGGREGATES
from deltaplane.queries.functions.collecting import LISTING
from deltaplane.queries.functions.windows import WINDOW_FUNCTIONS
from deltaplane.queries.syntax import Aggregate, Distance, Frame, Order, Query, Subquery, Values, Window

__all__ = ["BEGINNINGS", "FIRST_WORDS", "Expressions"]

# Words that begin a query, and only a query.
BEGINNINGS = ("select", "table", "values", "with")
# The first words of a query.
FIRST_WORDS = ("from", *BEGINNINGS)
_GROUPINGS = ("grouping", "grouping_id")
# The name of several values that IN compares with a subquery's columns.
_ROW = "row of values"
# Functions that accept IGNORE NULLS inside their parentheses.
_INSIDE = ("first", "last", "any_value")


class Expressions(Cursor, ABC):
    """Parses expressions, and the orders of windows and queries."""

    names_fields = True

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.passes_subqueries = False
        self.ignored = False

    @abstractmethod
    def query(self) -> Query:
        """Parses the query that begins at the next token."""

    def refuse(self, what: str) -> NoReturn:
        line, column = self.line_and_column(self.place())
        raise UnsupportedExpressionError(
            f"line {line}, column {column}: {what} isn't evaluated by the embedded engine: give spark= to run it on Spark"
        )

    # --- subqueries ---------------------------------------------------------------------------------------------------

    def subquery(self) -> Query:
        """A subquery, including its closing parenthesis."""
        made = self.passed_query() if self.passes_subqueries else self.query()
        self.expect(")")
        return made

    def passed_query(self) -> Query:
        """Skips a query in parentheses that another engine parses."""
        depth = 0
        while self.at < len(self.tokens) and (depth or self.peek() != ")"):
            depth += {"(": 1, ")": -1}.get(self.peek(), 0)
            self.at += 1
        return Query(Values(()))

    def tested(self, value: Syntax) -> Syntax | None:
        if self.peek() == "in" and self.peek(1) == "(" and self.peek(2) in FIRST_WORDS:
            self.at += 2
            values = value.args if isinstance(value, Call) and value.name == _ROW else (value,)
            return Subquery("in", values, self.subquery())
        return super().tested(value)

    def primary(self) -> Syntax:
        if self.peek() == "(" and self.peek(1) in FIRST_WORDS:
            self.at += 1
            return Subquery("scalar", (), self.subquery())
        return self.row() or super().primary()

    def row(self) -> Syntax | None:
        """Parses several values in parentheses, which IN compares with a subquery's columns; None
        for anything else."""
        if self.peek() != "(" or not self._is_row():
            return None
        self.at += 1
        values = [self.expression()]
        while self.take(","):
            values.append(self.expression())
        self.expect(")")
        return Call(_ROW, tuple(values))

    def _is_row(self) -> bool:
        """Whether the next parenthesis has several values, and IN with a subquery follows it."""
        depth, ahead, several = 0, 0, False
        while self.kind(ahead) != "end":
            sign = self.peek(ahead)
            depth += {"(": 1, ")": -1}.get(sign, 0)
            several |= sign == "," and depth == 1
            ahead += 1
            if depth == 0:
                break
        ahead += self.peek(ahead) == "not"
        return (
            several and self.peek(ahead) == "in" and self.peek(ahead + 1) == "(" and self.peek(ahead + 2) in FIRST_WORDS
        )

    def call(self) -> Syntax:
        name = self.peek()
        if name == "exists" and self.peek(2) in FIRST_WORDS:
            self.at += 2
            return Subquery("exists", (), self.subquery())
        if name in WINDOW_FUNCTIONS:
            self.at += 2
            return self.window_function(name)
        if name not in AGGREGATES and name not in _GROUPINGS:
            return super().call()
        self.at += 2
        return self.aggregate(name)

    # --- functions of many rows ---------------------------------------------------------------------------------------

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
            args = self.arguments(function=name)
        if name in ("percentile_cont", "percentile_disc"):
            args = self.within_group(name, args)
        if name in LISTING:
            args = self.listing(name, args)
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
        # Aggregate functions ignore nulls, so null replaces the values of excluded rows, which
        # thereby aren't evaluated.
        selected = args if where is None else [Call("case", (where, arg)) for arg in args]
        return self.window(name, tuple(selected))

    def within_group(self, name: str, args: list[Syntax]) -> list[Syntax]:
        """Parses WITHIN GROUP, whose key is the function's first argument; a descending key adds an
        argument."""
        self.expect("within", "group", "(", "order")
        orders = self.order()
        self.expect(")")
        if len(args) != 1 or len(orders) != 1:
            self.wrong(f"expected one share and one key for {name}")
        return [orders[0].value, args[0], *([Literal(True, BOOLEAN)] if orders[0].descending else [])]

    def listing(self, name: str, args: list[Syntax]) -> list[Syntax]:
        """Parses WITHIN GROUP of a function that makes one text: its value, its delimiter, and
        whether the order descends."""
        if not 1 <= len(args) <= 2:
            self.wrong(f"expected a value and a delimiter for {name}")
        if not self.take("within", "group"):
            self.refuse(f"{name} in the order of the rows: add WITHIN GROUP (ORDER BY its value)")
        self.expect("(", "order")
        orders = self.order()
        self.expect(")")
        if len(orders) != 1 or orders[0].value != args[0]:
            self.refuse(f"{name} in another order than that of its values")
        delimiter = args[1] if len(args) == 2 else Literal("", STRING)
        return [args[0], delimiter, Literal(orders[0].descending, BOOLEAN)]

    def arguments(self, function: str = "") -> list[Syntax]:
        if function not in AGGREGATES and function not in WINDOW_FUNCTIONS and function not in _GROUPINGS:
            return super().arguments(function)
        args: list[Syntax] = []
        if self.take(")"):
            return args
        while True:
            args.append(self.expression())
            if function in _INSIDE:
                self.ignored = self.nulls()
            if not self.take(","):
                self.expect(")")
                return args

    def window_function(self, name: str) -> Syntax:
        args = self.arguments(function=name)
        if self.peek() == "filter" and self.peek(1) == "(":
            self.refuse(f"FILTER of {name}")
        ignores = self.nulls() or (name in _INSIDE and self.ignored)
        self.ignored = False
        if self.peek() != "over":
            self.refuse(f"the function `{name}` without OVER")
        self.at += 1
        return self.window(name, tuple(args), ignores)

    def nulls(self) -> bool:
        """Parses IGNORE NULLS or RESPECT NULLS; returns whether nulls are ignored."""
        if self.take("ignore", "nulls"):
            return True
        self.take("respect", "nulls")
        return False

    # --- windows and orders -------------------------------------------------------------------------------------------

    def window(self, name: str, args: tuple[Syntax, ...], ignores: bool = False) -> Window:
        """A function over a window, which is a name or a definition in parentheses."""
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
            start = self.bound("following", rows)
            self.expect("and")
            end = self.bound("preceding", rows)
        else:
            start, end = self.bound("following", rows), 0
        if isinstance(start, int) and isinstance(end, int) and start > end:
            self.wrong("expected a frame that ends behind its beginning", self.tokens[token].start)
        return Frame(rows, start, end)

    def bound(self, unfit: str, rows: bool) -> int | Distance | None:
        if self.take("unbounded"):
            if self.peek() == unfit or not (self.take("preceding") or self.take("following")):
                self.expected("FOLLOWING" if unfit == "preceding" else "PRECEDING")
            return None
        if self.take("current", "row"):
            return 0
        if (
            self.kind() != "number"
            or not self.tokens[self.at].text.isdecimal()
            or self.peek(1) not in ("preceding", "following")
        ):
            if rows:
                self.refuse("a frame's bound that isn't a whole number")
            return self.distance()
        count = self.whole_number("a number of rows")
        if self.take("preceding"):
            return -count
        self.expect("following")
        return count

    def distance(self) -> Distance:
        """A distance of values: a constant number or interval."""
        value = self.expression()
        if not isinstance(value, Literal) or not isinstance(value.value, str) or value.type.name == "string":
            self.refuse("a frame's bound that isn't a constant number or interval")
        number = Decimal(value.value)
        if self.take("preceding"):
            return Distance(-number, value.type)
        self.expect("following")
        return Distance(number, value.type)

    def order(self) -> tuple[Order, ...]:
        self.expect("by")
        orders = []
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
            orders.append(Order(value, descending, nulls_first, token))
            if not self.take(","):
                return tuple(orders)
