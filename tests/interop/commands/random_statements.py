"""Random sequences of statements over one small table, for two engines that have to agree.

Everything follows from the seed. Most statements are valid; the others have values of another type,
missing columns, or changes that the table doesn't support, so that refusals are compared too. Uses
no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

__all__ = ["Sequence", "random_sequence"]

# Statements leave out what is known to differ:
#
# - DEFAULT in a table without the feature `allowColumnDefaults`: deltaplane adds the feature,
#   because the statement asks for it; delta-spark refuses.
# - The first timestamp_ntz column by ADD COLUMN: the same, for the feature `timestampNtz`.
# - Subqueries in conditions of UPDATE and in new values: deltaplane takes them, because Spark
#   evaluates them; delta-spark refuses.
# - Structs whose fields are in another order, by INSERT BY NAME: deltaplane matches the fields by
#   name, as the statement says; delta-spark 4.4 matches them by position as soon as a type of the
#   row is cast, NULL included.
#   `test_fields_of_cast_structs_are_matched_by_name_by_name` holds it.
# - Constants that a struct within an array can't hold, in an UPDATE of no rows: deltaplane
#   refuses them; delta-spark does if there are rows.

_VALUES: dict[str, tuple[str, ...]] = {
    "tinyint": ("1Y", "-128Y", "127"),
    "smallint": ("2S", "-32768S", "300"),
    "int": ("0", "7", "-2147483648", "2147483647"),
    "bigint": ("5L", "-9223372036854775808L", "99999999999"),
    "float": ("1.5F", "float('NaN')", "float('-0.0')", "float('-Infinity')"),
    "double": ("2.5D", "double('NaN')", "-0.0D", "1e300D", "double('Infinity')"),
    "decimal(5,2)": ("1.25", "999.99BD", "-0.01"),
    "decimal(20,4)": ("12345678.1234", "0.5", "-99999999999.9999"),
    "string": ("'a'", "''", "'12'", "'é\\''", "'2024-02-29'"),
    "varchar(4)": ("'abcd'", "''", "'x  '"),
    "char(3)": ("'abc'", "'a'"),
    "boolean": ("true", "false"),
    "date": ("DATE'2024-02-29'", "DATE'0001-01-01'", "DATE'9999-12-31'"),
    "timestamp": ("TIMESTAMP'2024-02-29 12:30:00.000001'", "TIMESTAMP'1900-01-01 00:00:00'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ'2024-02-29 12:30:00'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
    "binary": ("X'00FF'", "X''"),
    "struct<a: int, b: string>": (
        "named_struct('a', 1, 'b', 'x')",
        "named_struct('b', 'y', 'a', 2)",
        "struct(3, 'z')",
        "named_struct('a', CAST(NULL AS int), 'b', CAST(NULL AS string))",
        "named_struct('a', 4L, 'b', 5)",
        "named_struct('a', 1)",
        "named_struct('a', 1, 'b', 'x', 'c', 2.5D)",
    ),
    "array<int>": ("array(1, 2)", "array(1, NULL)", "array()", "array(1L)"),
    "array<struct<x: int, y: date>>": (
        "array(named_struct('x', 1, 'y', DATE'2024-01-01'))",
        "array(named_struct('x', 2, 'y', DATE'2024-01-01'), NULL)",
        "array(named_struct('x', 1))",
    ),
    "map<string, int>": ("map('k', 1)", "map('k', NULL, 'l', 2)", "map()"),
}
_PLAIN = tuple(name for name in _VALUES if not name.startswith(("struct", "array", "map")))
_PARTITIONS = ("int", "string", "date", "boolean", "decimal(5,2)", "timestamp", "bigint")
_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "double", "decimal(10,0)"),
    "smallint": ("int", "bigint", "double"),
    "int": ("bigint", "double", "decimal(10,0)", "decimal(12,2)"),
    "bigint": ("decimal(20,0)", "int", "double"),
    "float": ("double", "int"),
    "decimal(5,2)": ("decimal(7,2)", "decimal(7,4)", "decimal(5,3)"),
    "date": ("timestamp_ntz", "timestamp"),
    "varchar(4)": ("varchar(8)", "string", "varchar(2)"),
    "char(3)": ("string", "varchar(5)"),
    "string": ("varchar(4)", "int"),
}
_VECTORS = ("'delta.enableDeletionVectors' = 'true'", "'delta.enableDeletionVectors' = 'false'")
_DEFAULTS = "'delta.feature.allowColumnDefaults' = 'supported'"
_OPTIONS = (
    "'delta.enableChangeDataFeed' = 'true'",
    "'delta.enableRowTracking' = 'true'",
    "'delta.enableTypeWidening' = 'true'",
    "'delta.columnMapping.mode' = 'name'",
    _DEFAULTS,
    "'delta.checkpointInterval' = '2'",
)


@dataclass(frozen=True)
class Sequence:
    """Statements with `{t}` for the table; the first one creates it."""

    seed: int
    statements: tuple[str, ...]


def random_sequence(seed: int, length: int = 7) -> Sequence:
    """The statements of a seed."""
    drawn = _Drawn(Random(seed))
    statements = [drawn.create(), drawn.insert()]
    statements += [drawn.statement() for _ in range(length)]
    return Sequence(seed, tuple(statements))


class _Drawn:
    """Draws statements, and remembers the columns that the table should have by then."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._columns: dict[str, str] = {"id": "int"}
        for i in range(random.randint(1, 3)):
            self._columns[f"c{i}"] = random.choice(list(_VALUES))
        self._partition = ""
        if random.random() < 0.35:
            self._partition, self._columns["p"] = "p", random.choice(_PARTITIONS)
        self._added = 0
        self._defaults = False

    def create(self) -> str:
        random, parts = self._random, []
        options = [random.choice(_VECTORS)] if random.random() < 0.6 else []
        options += random.sample(_OPTIONS, random.randint(0, 3))
        # Without the feature, delta-spark refuses defaults; deltaplane adds the feature.
        self._defaults = _DEFAULTS in options
        for name, data_type in self._columns.items():
            text = f"{name} {data_type}"
            if name != "p" and random.random() < 0.1:
                text += " NOT NULL"
            if self._defaults and random.random() < 0.3 and data_type in _PLAIN:
                text += f" DEFAULT {self._value(data_type)}"
            parts.append(text)
        if random.random() < 0.15:
            parts.append("g bigint GENERATED ALWAYS AS (CAST(id AS bigint) * 2)")
        text = f"CREATE TABLE {{t}} ({', '.join(parts)}) USING delta"
        if self._partition:
            text += " PARTITIONED BY (p)"
        elif random.random() < 0.1:
            text += " CLUSTER BY (id)"
        return text + (f" TBLPROPERTIES ({', '.join(options)})" if options else "")

    def statement(self) -> str:
        kinds = {
            self.insert: 5,
            self._insert_by_name: 3,
            self._insert_listed: 3,
            self._insert_overwrite: 2,
            self._replace_where: 2,
            self._update: 6,
            self._delete: 4,
            self._merge: 7,
            self._alter: 7,
            self._maintain: 2,
        }
        return self._random.choices(list(kinds), list(kinds.values()))[0]()

    # --- rows -----------------------------------------------------------------------------------------------------------

    def insert(self) -> str:
        rows = [self._row(self._columns) for _ in range(self._random.randint(1, 3))]
        return f"INSERT INTO {{t}} VALUES {', '.join(rows)}"

    def _insert_by_name(self) -> str:
        names = self._some_columns()
        taken = ", ".join(f"{self._value(self._columns[n])} AS {n}" for n in names)
        taken = taken.replace("named_struct('b', 'y', 'a', 2)", "named_struct('a', 2, 'b', 'y')")
        grown = f", {self._any_value()} AS more" if self._random.random() < 0.15 else ""
        evolving = "WITH SCHEMA EVOLUTION " if self._random.random() < 0.3 else ""
        return f"INSERT {evolving}INTO {{t}} BY NAME SELECT {taken}{grown}"

    def _insert_listed(self) -> str:
        names = self._some_columns()
        if self._random.random() < 0.3:
            values = ", ".join(self._value(self._columns[n]) for n in names)
            return f"INSERT INTO {{t}} ({', '.join(names)}) SELECT {values} FROM range(2)"
        values = ", ".join("DEFAULT" if self._random.random() < 0.1 else self._value(self._columns[n]) for n in names)
        return f"INSERT INTO {{t}} ({', '.join(names)}) VALUES ({values})"

    def _insert_overwrite(self) -> str:
        if self._partition and self._random.random() < 0.5:
            rest = {name: kind for name, kind in self._columns.items() if name != "p"}
            fixed = self._value(self._columns["p"])
            return f"INSERT OVERWRITE {{t}} PARTITION (p = {fixed}) VALUES {self._row(rest)}"
        return f"INSERT OVERWRITE {{t}} VALUES {self._row(self._columns)}"

    def _replace_where(self) -> str:
        return f"INSERT INTO {{t}} REPLACE WHERE {self._condition()} VALUES {self._row(self._columns)}"

    def _update(self) -> str:
        where = f" WHERE {self._condition()}" if self._random.random() < 0.8 else ""
        return f"UPDATE {{t}} SET {self._assignments('')}{where}"

    def _delete(self) -> str:
        return "DELETE FROM {t}" + (f" WHERE {self._condition()}" if self._random.random() < 0.9 else "")

    def _merge(self) -> str:
        random = self._random
        names = list(self._columns)
        if random.random() < 0.3:
            names.remove(random.choice(names[1:]))
        columns = [f"{self._value(self._columns[n])} AS {n}" for n in names if n != "id"]
        if random.random() < 0.3:
            columns.append(f"{self._any_value()} AS more")
        first = random.randint(-1, 6)
        source = f"SELECT CAST(id AS int) AS id{''.join(', ' + c for c in columns)} FROM range({first}, {first + 3}) r"
        evolving = "WITH SCHEMA EVOLUTION " if random.random() < 0.3 else ""
        text = f"MERGE {evolving}INTO {{t}} t USING ({source}) s ON t.id = s.id"
        if random.random() < 0.2:
            text += f" AND t.{self._condition(prefixed=True)}"
        clauses = [
            "WHEN MATCHED AND s.id % 2 = 0 THEN DELETE" if random.random() < 0.3 else "",
            random.choice(
                ("", "WHEN MATCHED THEN UPDATE SET *", f"WHEN MATCHED THEN UPDATE SET {self._assignments('s.')}")
            ),
            random.choice(
                ("", "WHEN NOT MATCHED THEN INSERT *", "WHEN NOT MATCHED AND s.id > 2 THEN INSERT (id) VALUES (s.id)")
            ),
            random.choice(("", "", "WHEN NOT MATCHED BY SOURCE AND t.id > 5 THEN DELETE")),
        ]
        if not any(clauses):
            clauses = ["WHEN MATCHED THEN DELETE"]
        return " ".join([text, *filter(None, clauses)])

    # --- the table ------------------------------------------------------------------------------------------------------

    def _alter(self) -> str:
        random = self._random
        name = random.choice(list(self._columns))
        data_type = self._columns[name]

        def add() -> str:
            self._added += 1
            # For a first timestamp_ntz, deltaplane adds the feature and delta-spark refuses.
            new, kind = f"n{self._added}", random.choice([name for name in _VALUES if name != "timestamp_ntz"])
            place = random.choice(("", "", " FIRST", f" AFTER {name}"))
            self._put(new, kind, place, name)
            return f"ADD COLUMN {new} {kind}{place}"

        def rename() -> str:
            return f"RENAME COLUMN {name} TO {name}_r"

        def drop() -> str:
            return f"DROP COLUMN {name}"

        def change() -> str:
            return f"ALTER COLUMN {name} TYPE {random.choice(_WIDER.get(data_type, ('string', 'int')))}"

        def constrain() -> str:
            return f"ADD CONSTRAINT c{random.randint(0, 2)} CHECK ({self._condition()})"

        changes = (
            add,
            rename,
            drop,
            change,
            constrain,
            lambda: f"DROP CONSTRAINT IF EXISTS c{random.randint(0, 2)}",
            lambda: f"ALTER COLUMN {name} SET NOT NULL",
            lambda: f"ALTER COLUMN {name} DROP NOT NULL",
            lambda: f"ALTER COLUMN {name} {random.choice(('FIRST', 'AFTER id'))}",
            lambda: f"ALTER COLUMN {name} COMMENT 'said'",
            lambda: (
                f"ALTER COLUMN {name} {f'SET DEFAULT {self._value(data_type)}' if self._defaults else 'DROP DEFAULT'}"
            ),
            lambda: f"ALTER COLUMN {name} DROP DEFAULT",
            lambda: f"SET TBLPROPERTIES ({random.choice(_OPTIONS + _VECTORS)})",
            lambda: f"CLUSTER BY ({random.choice((name, 'id'))})",
        )
        return f"ALTER TABLE {{t}} {random.choice(changes)()}"

    def _maintain(self) -> str:
        return self._random.choice(
            (
                "OPTIMIZE {t}",
                "REORG TABLE {t} APPLY (PURGE)",
                "RESTORE TABLE {t} TO VERSION AS OF 1",
                "TRUNCATE TABLE {t}",
            )
        )

    def _put(self, new: str, kind: str, place: str, name: str) -> None:
        columns: dict[str, str] = {} if place != " FIRST" else {new: kind}
        for own, own_type in self._columns.items():
            columns[own] = own_type
            if own == name and place.startswith(" AFTER"):
                columns[new] = kind
        columns.setdefault(new, kind)
        self._columns = columns

    # --- values ---------------------------------------------------------------------------------------------------------

    def _row(self, columns: dict[str, str]) -> str:
        values = [self._key() if n == "id" and t == "int" else self._value(t) for n, t in columns.items()]
        return f"({', '.join(values)})"

    def _key(self) -> str:
        return str(self._random.randint(0, 9))

    def _value(self, data_type: str) -> str:
        drawn = self._random.random()
        if drawn < 0.12:
            return "NULL"
        if drawn < 0.24:
            return self._any_value()
        return self._random.choice(_VALUES[data_type])

    def _any_value(self) -> str:
        return self._random.choice(_VALUES[self._random.choice(list(_VALUES))])

    def _some_columns(self) -> list[str]:
        names = list(self._columns)
        self._random.shuffle(names)
        return names if self._random.random() < 0.7 else names[: self._random.randint(1, len(names))]

    def _assignments(self, source: str) -> str:
        random = self._random
        texts = []
        for name in random.sample(list(self._columns), random.randint(1, min(2, len(self._columns)))):
            data_type = self._columns[name]
            if data_type.startswith("struct") and random.random() < 0.5:
                texts.append(f"{'t.' if source else ''}{name}.a = {self._value('int')}")
            else:
                texts.append(f"{'t.' if source else ''}{name} = {self._new_value(name, data_type, source)}")
        return ", ".join(texts)

    def _new_value(self, name: str, data_type: str, source: str) -> str:
        other = self._random.choice(list(self._columns))
        choices = [self._value(data_type), self._value(data_type), f"{source}{other}", f"{source}{name}"]
        if data_type in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(20,4)"):
            choices += [f"{source}{name} + 1", f"{source}{name} * 2"]
        if data_type in ("string", "varchar(4)", "char(3)"):
            choices += [f"concat({source}{name}, 'x')", f"upper({source}{name})", f"CAST({source}{other} AS string)"]
        return self._random.choice(choices)

    def _condition(self, *, prefixed: bool = False) -> str:
        random = self._random
        name = random.choice([n for n, t in self._columns.items() if t in _PLAIN])
        value = random.choice(_VALUES[self._columns[name]])
        choices = [
            f"id = {random.randint(0, 9)}",
            f"id > {random.randint(0, 9)}",
            f"id IN ({random.randint(0, 9)}, {random.randint(0, 9)})",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} = {value}",
            f"{name} >= {value}",
            f"{name} <> {value}",
            f"{name} <=> {value}",
            f"{name} IN ({value}, {random.choice(_VALUES[self._columns[name]])})",
        ]
        if not prefixed:
            choices += [
                f"NOT ({name} < {value})",
                f"id > 3 AND {name} = {value}",
                f"id = 1 OR {name} <= {value}",
                "true",
            ]
        return random.choice(choices)
