"""Random queries over the tables of `queries`: random combinations of expressions, joins, groups
and orders.

Uses no engine.
"""

from __future__ import annotations

import random

# Columns of `sales` and `codes` by kind, of types that both engines read.
_SALES = {"number": ["id", "i", "d", "f", "m"], "text": ["k"], "truth": ["o"], "day": ["day"]}
_CODES = {"number": ["n", "rate"], "text": ["k", "name"], "truth": [], "day": []}
Scope = list[tuple[str, dict[str, list[str]]]]


class Drawing:
    """Draws queries from a seed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def one_of(self, *choices: str) -> str:
        return self.chance.choice(choices)

    def columns(self, scope: Scope, kind: str) -> list[str]:
        return [f"{alias}.{column}" for alias, columns in scope for column in columns[kind]]

    def number(self, scope: Scope, depth: int = 2) -> str:
        drawn = self.chance.random()
        if depth == 0 or drawn < 0.45:
            constants = ("1", "2", "0", "-3", "1.5", "2.25", "1e0", "10L", "NULL")
            return self.one_of(*(self.columns(scope, "number") if self.chance.random() < 0.8 else constants))
        a, b = self.number(scope, depth - 1), self.number(scope, depth - 1)
        if drawn < 0.8:
            return f"({a} {self.one_of('+', '-', '*', '%')} {b})"
        if drawn < 0.85:
            return f"({a} / {self.one_of('2', '4.0', f'nullif({b}, 0)')})"
        if drawn < 0.9:
            return f"coalesce({a}, {b})"
        return f"CASE WHEN {self.condition(scope, depth - 1)} THEN {a} ELSE {b} END"

    def text(self, scope: Scope, depth: int = 2) -> str:
        if depth == 0 or self.chance.random() < 0.6:
            return self.one_of(*self.columns(scope, "text"))
        a = self.text(scope, depth - 1)
        return self.one_of(
            f"upper({a})", f"({a} || 'x')", "'a'", "NULL", f"substring({a}, 1, 1)", f"coalesce({a}, 'z')"
        )

    def condition(self, scope: Scope, depth: int = 2) -> str:
        drawn, text = self.chance.random(), self.one_of(*self.columns(scope, "text"))
        if drawn < 0.35:
            sign = self.one_of("=", "<", ">", "<=", ">=", "<>", "<=>")
            return f"{self.number(scope, 1)} {sign} {self.number(scope, 1)}"
        if drawn < 0.5:
            return f"{self.text(scope, 1)} {self.one_of('=', '<', '>', '<>', '<=>')} {self.text(scope, 1)}"
        if drawn < 0.6:
            return f"{text} {self.one_of('', 'NOT ')}IN ('a', 'b'{self.one_of('', ', NULL')})"
        if drawn < 0.65:
            return f"{self.number(scope, 0)} > (SELECT {self.one_of('max', 'min', 'count', 'avg')}(n) FROM codes)"
        if drawn < 0.72:
            return f"{text} IS {self.one_of('', 'NOT ')}NULL"
        if drawn < 0.78 and self.columns(scope, "truth"):
            return self.one_of(*self.columns(scope, "truth"))
        if depth == 0:
            return f"{self.number(scope, 0)} BETWEEN {self.number(scope, 0)} AND {self.number(scope, 0)}"
        a = self.condition(scope, depth - 1)
        return f"({a} {self.one_of('AND', 'OR')} {self.condition(scope, depth - 1)})" if drawn < 0.9 else f"NOT ({a})"

    def where(self, scope: Scope) -> str:
        if self.chance.random() < 0.4:
            return ""
        made = f" WHERE {self.condition(scope)}"
        if self.chance.random() < 0.2:
            inner = self.one_of("SELECT k FROM codes", "SELECT k FROM codes WHERE k IS NOT NULL")
            if self.chance.random() < 0.5:
                related = self.one_of(*self.columns(scope, "text"), "'a'")
                return made + f" AND {self.one_of('', 'NOT ')}EXISTS (SELECT 1 FROM codes x WHERE x.k = {related})"
            made += f" AND {self.one_of(*self.columns(scope, 'text'))} {self.one_of('', 'NOT ')}IN ({inner})"
        return made

    def value(self, scope: Scope) -> str:
        return self.one_of(self.number(scope), self.text(scope), self.condition(scope))

    def windowed(self, scope: Scope) -> str:
        """A window function over `sales`, whose rows an id orders."""
        partition = self.one_of("", f"PARTITION BY {self.text(scope, 1)} ")
        by_id = f"({partition}ORDER BY s.id{self.one_of('', ' DESC')})"
        frame = f"ROWS BETWEEN {self.one_of('UNBOUNDED', '2', '1')} PRECEDING AND {self.one_of('CURRENT ROW', '1 FOLLOWING')}"
        framed = f"({partition}ORDER BY s.id {frame})"
        nulls = self.one_of("", " IGNORE NULLS", " RESPECT NULLS")
        return self.one_of(
            f"{self.one_of('rank', 'dense_rank')}() OVER ({partition}ORDER BY {self.value(scope)} NULLS LAST)",
            f"{self.one_of('row_number()', 'ntile(3)', 'percent_rank()')} OVER {by_id}",
            f"{self.one_of('lag', 'lead')}({self.value(scope)}, {self.one_of('1', '2')}){nulls} OVER {by_id}",
            f"{self.one_of('first_value', 'last_value')}({self.text(scope)}){nulls} OVER {framed}",
            f"{self.one_of('count', 'min', 'max')}({self.text(scope)}) OVER {self.one_of(by_id, framed)}",
            f"sum(s.id % 7) OVER {self.one_of(by_id, framed)}",
        )

    def aggregate(self, scope: Scope) -> str:
        # Remainders are small: no sum overflows, and no sum of doubles depends on the order of
        # rows.
        exact = [c for c in self.columns(scope, "number") if c.split(".")[1] not in ("d", "f", "rate")]
        number = f"{self.one_of(*exact)} % 7"
        call = self.one_of(
            "count(*)",
            f"count({self.one_of('', 'DISTINCT ')}{self.value(scope)})",
            f"{self.one_of('min', 'max')}({self.value(scope)})",
            f"{self.one_of('sum', 'avg')}({self.one_of('', 'DISTINCT ')}{number})",
            f"{self.one_of('every', 'some', 'count_if')}({self.condition(scope, 1)})",
        )
        return call + (f" FILTER (WHERE {self.condition(scope, 1)})" if self.chance.random() < 0.15 else "")

    def relation(self) -> tuple[str, Scope]:
        sales, both = [("s", _SALES)], [("s", _SALES), ("c", _CODES)]
        if self.chance.random() < 0.5:
            inner = f"(SELECT * FROM sales WHERE {self.condition([('sales', _SALES)], 1)}) s"
            return self.one_of("sales s", inner), sales
        kind = self.one_of("", "LEFT ", "RIGHT ", "FULL ", "LEFT SEMI ", "LEFT ANTI ")
        on = self.one_of(
            "s.k = c.k", "s.k <=> c.k", "s.i = c.n", "s.d = c.rate", "s.f = c.rate", "s.k = c.k AND s.id > c.n"
        )
        return f"sales s {kind}JOIN codes c ON {on}", sales if kind in ("LEFT SEMI ", "LEFT ANTI ") else both

    def query(self) -> str:
        """One query, ordered by all its columns or unordered."""
        relation, scope = self.relation()
        keys: list[str] = []
        if self.chance.random() < 0.5:
            items = [self.value(scope) for _ in range(self.chance.randint(1, 3))]
            if [alias for alias, _ in scope] == ["s"] and self.chance.random() < 0.5 and "JOIN" not in relation:
                items.append(self.windowed(scope))
            head = f"SELECT {self.one_of('', '', 'DISTINCT ')}"
        else:
            keys = [self.one_of(self.number(scope, 1), self.text(scope, 1)) for _ in range(self.chance.randint(0, 2))]
            items = keys + [self.aggregate(scope) for _ in range(self.chance.randint(1, 3))]
            head = "SELECT "
        made = (
            head + ", ".join(f"{item} AS c{i}" for i, item in enumerate(items)) + f" FROM {relation}{self.where(scope)}"
        )
        numbers = ", ".join(f"{i + 1}" for i in range(len(keys)))
        made += (
            f" GROUP BY {self.one_of(f'({numbers})', 'ALL', f'ROLLUP ({numbers})', f'CUBE ({numbers})')}"
            if keys
            else ""
        )
        if self.chance.random() < 0.5:
            ways = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
            made += f" ORDER BY {', '.join(f'{i + 1}{self.one_of(*ways)}' for i in range(len(items)))}"
        return made
