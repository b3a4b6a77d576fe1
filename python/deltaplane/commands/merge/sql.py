"""The DuckDB statements of one MERGE, generated from a bound plan.

Reads and runs nothing. Relations: `source` has the rows of the source, `given` and `picked` are
streams of the table's rows, `matched` has the positions of rows (file number `f`, row `r`) with the
source's row `sid` and the number of the clause `act`, and `patched` the numbers of patched files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deltaplane.commands.merge.plan import BoundClause, Key, MergePlan

__all__ = ["CREATE_MATCHED", "MergeSql", "count_keys", "key_bounds", "key_values", "keys_up_to"]

CREATE_MATCHED = "CREATE TABLE matched (f INTEGER, r BIGINT, sid BIGINT, act SMALLINT)"
# The source with the number of each row.
_SOURCE = "(SELECT rowid AS sid, * FROM source) s"


def key_values(keys: Mapping[str, Key]) -> str:
    """The keys' values of each row of the source, as columns with these quoted names."""
    values = ", ".join(f"{key.source} AS {name}" for name, key in keys.items())
    return f"SELECT {values} FROM source s"


def count_keys(keys: Sequence[Key]) -> str:
    """The number of different values of each key."""
    counts = ", ".join(f"count(DISTINCT {key.source})" for key in keys)
    return f"SELECT {counts} FROM source s"


def keys_up_to(key: Key, limit: int) -> str:
    """At most this many different values of a key, without null."""
    values = f"SELECT DISTINCT {key.source} AS k FROM source s"
    return f"SELECT k FROM ({values}) WHERE k IS NOT NULL LIMIT {limit}"


def key_bounds(key: Key) -> str:
    """The smallest and the largest value of a key, in two rows."""
    return f"SELECT unnest([min({key.source}), max({key.source})]) FROM source s"


class MergeSql:
    """The statements of one MERGE whose clauses are bound to the schema after the commit.

    `changing` are the clauses that change rows of the table: a clause's index there is its number
    in `matched`. `inserts` are those that add rows.
    """

    # The positions of rows that change, in the order of files.
    places = "SELECT f, r FROM matched WHERE act IS NOT NULL ORDER BY f, r"
    # How many rows each clause changes.
    rows_of_clauses = "SELECT act, count(*) FROM matched WHERE act IS NOT NULL GROUP BY act ORDER BY act"

    def __init__(self, plan: MergePlan, clauses: Sequence[BoundClause]) -> None:
        self._on = plan.on
        self._columns = len(plan.target_columns)
        self._matched = [c for c in clauses if c.clause.kind == "matched"]
        self._by_source = [c for c in clauses if c.clause.kind == "not_matched_by_source"]
        self.inserts = [c for c in clauses if c.clause.action == "insert"]
        self.changing = [*self._matched, *self._by_source]

    @property
    def changes_unmatched(self) -> bool:
        """Whether a clause changes rows of the table that match no row of the source."""
        return bool(self._by_source)

    # --- which rows -------------------------------------------------------------------------------------------------

    def join(self, columns: Sequence[int]) -> str:
        """Stores the matching pairs of rows in `matched`, with the clause that applies to each.

        `columns` are the numbers of the target's columns in `given`, before file and row.
        """
        target_rows = _renamed("given", [*(f"c{n}" for n in columns), "f", "r"])
        if not self.changing:
            # Only inserts: the identity of the matching table rows is irrelevant.
            query = f"SELECT DISTINCT NULL, NULL, s.sid, NULL FROM {target_rows} JOIN {_SOURCE} ON {self._on}"
        else:
            act = _first(self._matched, 0)
            pairs = f"SELECT t.f, t.r, s.sid, {act} AS act FROM {target_rows} JOIN {_SOURCE} ON {self._on}"
            # Pairs that no clause changes are only needed for finding rows without a match.
            where = "" if self.inserts or self._by_source else " WHERE act IS NOT NULL"
            query = f"SELECT * FROM ({pairs}){where}"
        return f"INSERT INTO matched {query}"

    def join_unmatched(self, columns: Sequence[int]) -> list[str]:
        """Stores the table's rows without a match in `matched`, if a clause changes them."""
        target_rows = _renamed("given", [*(f"c{n}" for n in columns), "f", "r"])
        act = _first(self._by_source, len(self._matched))
        return [
            f"CREATE TABLE unmatched AS SELECT t.f, t.r, CAST(NULL AS BIGINT) AS sid, {act} AS act "
            f"FROM {target_rows} ANTI JOIN matched m ON t.f = m.f AND t.r = m.r",
            "INSERT INTO matched SELECT * FROM unmatched WHERE act IS NOT NULL",
            "DROP TABLE unmatched",
        ]

    def count_several_matches(self, *, as_delta_rs: bool = False) -> str:
        """The number of rows that several pairs change: those that all pairs delete, and the
        others. delta-rs allows this only for deletes without a condition."""
        deletes = [
            n
            for n, c in enumerate(self.changing)
            if c.clause.action == "delete" and not (as_delta_rs and c.clause.condition is not None)
        ]
        all_delete = f"bool_and(act IN ({_listed(deletes)}))" if deletes else "false"
        twice = f"SELECT {all_delete} AS fine FROM matched WHERE act IS NOT NULL GROUP BY f, r HAVING count(*) > 1"
        return f"SELECT count(*) FILTER (fine), count(*) FILTER (NOT fine) FROM ({twice})"

    def keep_first_match(self) -> str:
        """Keeps one change for each row. The other pairs stay: their source rows have a match."""
        first = "SELECT min(rowid) FROM matched WHERE act IS NOT NULL GROUP BY f, r"
        return f"UPDATE matched SET act = NULL WHERE act IS NOT NULL AND rowid NOT IN ({first})"

    # --- their new values -------------------------------------------------------------------------------------------

    def evaluate(
        self,
        numbers: Sequence[int],
        columns: Sequence[int],
        *,
        patched: bool | None = None,
        few: bool = False,
    ) -> str:
        """Changed rows: clause, file, row, then columns of `picked`, then the new values of these
        clauses.

        Args:
            numbers: the clauses, by number in `matched`.
            columns: the numbers of the columns in `picked`, before file and row; if empty, `picked`
                isn't read. Numbers beyond the target's columns are hidden columns of files.
            patched: whether the rows are those of patched files, in the files' order; None for all
                files. Without an order rows come approximately in the table's order, which
                preserves the clustering of values in new files.
            few: whether the changed rows, which all have a match, are no more than the source's
                rows.
        """
        names = [f"c{n}" for n in columns]
        rows = "matched m"
        if names:
            rows = f"{_renamed('picked', [*names, 'f', 'r'])} JOIN matched m ON t.f = m.f AND t.r = m.r"
        if self._matched:
            # DuckDB holds the right side in memory: positions are shorter than the values that are
            # joined to them. Rows come in the order of the left side.
            held = bool(patched) and few and not names and not self._by_source
            rows = f"{_SOURCE} JOIN {rows}" if held else f"{rows} LEFT JOIN {_SOURCE}"
            rows += " ON s.sid = m.sid"
        new = [f"CASE WHEN m.act = {n} THEN {v.sql} END" for n in numbers for v in self.changing[n].values]
        selected = _numbered(["m.act", "m.f", "m.r", *(f"t.{name}" for name in names), *new])
        sql = f"SELECT {selected} FROM {rows} WHERE m.act IN ({_listed(numbers)})"
        if patched is None:
            return sql
        files = "SELECT c0 FROM patched"
        return f"{sql} AND m.f IN ({files}) ORDER BY m.f, m.r" if patched else f"{sql} AND m.f NOT IN ({files})"

    def insert(self, number: int) -> str:
        """The rows that one of the clauses in `inserts` adds: its values, in the order of its
        columns."""
        clause = self.inserts[number]
        values = _numbered([value.sql for value in clause.values])
        lacking = "" if clause.clause.kind == "source" else " ANTI JOIN matched m ON s.sid = m.sid"
        chosen = f"SELECT * FROM (SELECT s.* FROM {_SOURCE}{lacking}) s WHERE {_first(self.inserts, 0)} = {number}"
        return f"SELECT {values} FROM ({chosen}) s"


def _renamed(stream: str, names: Sequence[str]) -> str:
    """A stream of the table's rows as the relation `t`, with these column names."""
    return f"(SELECT {', '.join(f'c{i} AS {name}' for i, name in enumerate(names))} FROM {stream}) t"


def _numbered(expressions: Iterable[str]) -> str:
    """Expressions of a SELECT under generated names."""
    return ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(expressions))


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def _first(clauses: Sequence[BoundClause], number: int) -> str:
    """The number of the first clause that applies, counted from `number`; null if none applies."""
    if not clauses:
        return "CAST(NULL AS SMALLINT)"
    cases = "".join(f" WHEN {c.condition or 'true'} THEN {number + i}" for i, c in enumerate(clauses))
    return f"CAST(CASE{cases} END AS SMALLINT)"
