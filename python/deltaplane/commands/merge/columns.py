"""The columns of a MERGE: assigned ones by clause, and those that the source adds to the table's
schema.

Uses neither rows nor bound expressions, so every engine's plan can build on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaplane import _native
from deltaplane.commands.column_defaults import default_text
from deltaplane.commands.merge.clauses import Clause, Kind
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError
from deltaplane.expr.joined import parsed
from deltaplane.expr.syntax import Name
from deltaplane.expr.types import of_json
from deltaplane.io import records

__all__ = ["Field", "MergeColumns", "check_star", "check_whole", "field_of", "is_default", "is_wider", "star_paths"]

Field = Mapping[str, Any]

# Names for the parts of arrays and maps in errors.
_PARTS = {"elementType": "element", "keyType": "key", "valueType": "value"}


@dataclass(kw_only=True)
class MergeColumns:
    """The columns of a MERGE between a version of a table and rows of a schema."""

    schema: _native.TableSchema
    source_fields: Sequence[Field]
    clauses: Sequence[Clause]
    target_alias: str | None = None
    merge_schema: bool = False
    widens: bool = False

    def __post_init__(self) -> None:
        self._fields: list[Field] = self.schema.to_value()["fields"]

    @property
    def target_columns(self) -> list[str]:
        """The table's columns, by number."""
        return [f["name"] for f in self._fields]

    def of_kind(self, kind: Kind) -> list[Clause]:
        """The clauses of a kind, in order."""
        return [c for c in self.clauses if c.kind == kind]

    @property
    def incoming(self) -> records.IncomingRequest | None:
        """The columns of new rows, and the columns by which the schema grows, for the core; None if
        it doesn't grow."""
        inserts = [c for c in self.clauses if c.action == "insert"]
        grows = self.merge_schema and any(c.action != "delete" for c in self.clauses)
        if not inserts and not grows:
            return None
        incoming: dict[str, Field] = {}
        for clause in self._growing(grows):
            for name in self._assigned_names(clause):
                if name.lower() not in incoming:
                    incoming[name.lower()] = self._incoming_field(name, self._assigned_paths(name, grows))
        for name in self._identities():
            # If a clause doesn't assign the identity column, the table allocates its values.
            if not all(name.lower() in map(str.lower, self._assigned_names(c)) for c in inserts):
                incoming.pop(name.lower(), None)
        schema = json.dumps({"type": "struct", "fields": list(incoming.values())})
        return records.IncomingRequest(_native.TableSchema(schema), bool(grows))

    @property
    def adds_columns(self) -> bool:
        """Whether clauses assign columns that the table gets by the merge, whichever rows match."""
        own = {field["name"].lower() for field in self._fields}
        names = (name for clause in self._growing(True) for name in self._assigned_names(clause))
        return self.merge_schema and any(name.lower() not in own for name in names)

    def _growing(self, grows: bool) -> list[Clause]:
        """The clauses whose columns are planned like those of new rows. Rows without a match have
        no source value for a new column or field."""
        updates = grows and [c for c in self.clauses if c.action == "update" and c.kind != "not_matched_by_source"]
        return [c for c in self.clauses if c.action == "insert" or (updates and c in updates)]

    def _assigned_paths(self, name: str, grows: bool) -> set[tuple[str, ...]]:
        """The lower-case paths within a column that get values. `*` assigns every field."""
        paths_assigned = set[tuple[str, ...]]()
        for clause in self._growing(grows):
            if clause.values is not None:
                paths_assigned |= {tuple(part.lower() for part in self.path(column)) for column in clause.values}
            elif name.lower() in map(str.lower, self._assigned_names(clause)):
                paths_assigned.add((name.lower(),))
        return {path for path in paths_assigned if path[0] == name.lower()}

    def _identities(self) -> list[str]:
        return [f["name"] for f in self._fields if "delta.identity.start" in f.get("metadata", {})]

    def _assigned_names(self, clause: Clause) -> list[str]:
        """The columns that a clause assigns; for fields of structs, the struct's column."""
        if clause.values is not None:
            return [self.path(name)[0] for name in clause.values]
        there = {f["name"].lower() for f in self._fields}
        names = [f["name"] for f in self._star(clause)]
        # Rows that are stored unchanged may not have columns that the table lacks; the core reports
        # these.
        whole = self.merge_schema or clause.kind == "source"
        return names if whole else [name for name in names if name.lower() in there]

    def _star(self, clause: Clause) -> list[Field]:
        """The source's columns that `*` includes."""
        known = {f["name"].lower() for f in (*self.source_fields, *self._fields)}
        excepted = {name.lower() for name in clause.excepted}
        unknown = [name for name in clause.excepted if name.lower() not in known]
        if unknown:
            raise InvalidArgumentError(f"`{unknown[0]}`, which is to be excepted, is a column of neither table")
        return [f for f in self.source_fields if f["name"].lower() not in excepted]

    def _incoming_field(self, name: str, paths: set[tuple[str, ...]]) -> Field:
        own = field_of(self._fields, name)
        brought = field_of(self.source_fields, name)
        part = None if brought is None else _part(brought["type"], (name.lower(),), paths)
        if own is None and (brought is None or part is None):
            raise InvalidArgumentError(f"the table has no column `{name}`, nor has the source one that could be added")
        chosen = own or brought
        assert chosen is not None
        if own is None:
            taken = part
        elif part is None or not self.merge_schema:
            taken = own["type"]
        else:
            taken = self._grown(own["type"], part)
        # As in an append, the data's metadata of a column counts if the column is new.
        metadata = chosen.get("metadata", {}) if own is None else {}
        return {"name": chosen["name"], "type": taken, "nullable": True, "metadata": metadata}

    def _grown(self, own: Any, brought: Any) -> Any:
        """A column's type with additional fields of a source's type, at any depth; other parts keep
        the column's type, unless the table allows widening them."""
        if isinstance(own, str) or isinstance(brought, str):
            # A column with only nulls takes the type of the first data (P153).
            return brought if own == "void" or (self.widens and is_wider(own, brought)) else own
        if own["type"] != brought["type"]:
            return own
        if own["type"] != "struct":
            return {key: self._grown(part, brought[key]) if key in _PARTS else part for key, part in own.items()}
        fields = []
        for field in own["fields"]:
            other = field_of(brought["fields"], field["name"])
            fields.append(field if other is None else {**field, "type": self._grown(field["type"], other["type"])})
        new = [f for f in brought["fields"] if field_of(own["fields"], f["name"]) is None]
        return {**own, "fields": [*fields, *new]}

    def starred(self, clause: Clause, fields: Sequence[Field]) -> list[str]:
        """The columns that `*` assigns, for a table with these columns."""
        names = [f["name"] for f in self._star(clause) if field_of(fields, f["name"]) is not None]
        if not names and not fields:
            raise InvalidArgumentError(
                "the table has no columns to merge into: add some, or let the merge add the source's (merge_schema=True, "
                "WITH SCHEMA EVOLUTION)"
            )
        if not names:
            raise InvalidArgumentError("the source has no column of the table: name the columns and their values")
        return names

    def check_star(self, clause: Clause) -> None:
        """Checks that source and table have the columns of a clause that takes all of them, unless
        the schema evolves or rows are stored unchanged."""
        if clause.takes_all and not self.merge_schema and clause.kind != "source":
            check_star(self.target_columns, [f["name"] for f in self.source_fields], clause.excepted)

    def inserted_column(self, name: str, path: Sequence[str], fields: Sequence[Field], before: Sequence[str]) -> str:
        """Resolves a column name of an insert clause, which must not be among the columns `before`
        it.

        Raises:
            InvalidArgumentError: an unknown column, or one that already has a value.
            SchemaMismatchError: an identity column that accepts no values (P108).
        """
        to = field_of(fields, path[0])
        if len(path) > 1 or to is None:
            raise InvalidArgumentError(f"the table has no column `{name}` that a new row could give a value to")
        if to["name"] in before:
            raise InvalidArgumentError(f"`{name}` is assigned twice: give each column one value")
        if to.get("metadata", {}).get("delta.identity.allowExplicitInsert") is False:
            raise SchemaMismatchError(
                f"DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED: `{to['name']}` is GENERATED ALWAYS AS "
                "IDENTITY: leave it out of the new rows"
            )
        return str(to["name"])

    def default(self, name: str, fields: Sequence[Field]) -> str:
        """A column's default in its type, for the word DEFAULT (P107)."""
        own = field_of(fields, self.path(name)[0])
        sql = (own or {}).get("metadata", {}).get("CURRENT_DEFAULT")
        return "NULL" if own is None or sql is None else default_text(sql, own["type"])

    def path(self, name: str) -> list[str]:
        """The path of an assigned name, with or without the target's alias."""
        columns = {f["name"].lower() for f in (*self._fields, *self.source_fields)}
        if name.lower() in columns:
            return [name]
        node = parsed(name)
        if not isinstance(node, Name):
            raise InvalidArgumentError(f"`{name}` is no column: put names with signs in backticks")
        first, *rest = node.parts
        if rest and self.target_alias is not None and first.lower() == self.target_alias.lower():
            return rest
        return [first, *rest]


def field_of(fields: Sequence[Field], name: str) -> Field | None:
    """Finds a field by name, ignoring case."""
    return next((f for f in fields if f["name"].lower() == name.lower()), None)


def _part(data_type: Any, path: tuple[str, ...], paths: set[tuple[str, ...]]) -> Any | None:
    """The part of a source's type, at this path, that these assignments store in the table; None
    for no part."""
    if path in paths:
        return data_type
    if isinstance(data_type, str) or data_type["type"] != "struct" or not any(p[: len(path)] == path for p in paths):
        return None
    parts = [(f, _part(f["type"], (*path, f["name"].lower()), paths)) for f in data_type["fields"]]
    fields = [{**field, "type": part} for field, part in parts if part is not None]
    return {**data_type, "fields": fields} if fields else None


def star_paths(path: list[str], to: Any, brought: Any) -> Iterator[tuple[list[str], bool]]:
    """The assignments of an update's `*` within a column if the schema evolves: the paths, and
    whether only fields of an existing struct are assigned.

    Fields that the source's structs lack keep their values. A struct with only some assigned fields
    stays null if it and the source's are null.
    """
    both = not isinstance(to, str) and not isinstance(brought, str) and to["type"] == brought["type"] == "struct"
    if not both or not _lacks(to, brought):
        yield path, False
        return
    yield path, True
    for field in brought["fields"]:
        own = field_of(to["fields"], field["name"])
        if own is not None:
            yield from star_paths([*path, own["name"]], own["type"], field["type"])


def _lacks(to: Any, brought: Any) -> bool:
    """Whether a struct lacks a field of another one, at any depth."""
    if isinstance(to, str) or isinstance(brought, str) or not to["type"] == brought["type"] == "struct":
        return False
    pairs = [(own, field_of(brought["fields"], own["name"])) for own in to["fields"]]
    return any(other is None or _lacks(own["type"], other["type"]) for own, other in pairs)


def is_default(sql: str) -> bool:
    """Whether a value is the word DEFAULT (P107)."""
    return sql.strip().lower() == "default"


def is_wider(own: Any, brought: Any) -> bool:
    """Whether a type contains all values of another type of its family."""
    a, b = of_json(own), of_json(brought)
    if a is None or b is None or a == b:
        return False
    if a.integral and b.integral:
        return a.bits < b.bits
    if a.name == b.name == "decimal":
        return a.scale <= b.scale and a.precision - a.scale <= b.precision - b.scale
    return (a.name, b.name) == ("float", "double")


def check_star(columns: Sequence[str], source: Sequence[str], excepted: Sequence[str]) -> None:
    """Refuses a `*` that leaves a column of the table without a value: in Spark it means the
    table's columns.

    Raises:
        InvalidArgumentError: the message names the column.
    """
    there = {name.lower() for name in (*source, *excepted)}
    lacking = [name for name in columns if name.lower() not in there]
    if lacking:
        raise InvalidArgumentError(
            f"DELTA_MERGE_UNRESOLVED_EXPRESSION: the source has no column `{lacking[0]}`, which `*` takes from it: name the "
            "columns and their values, leave it out by EXCEPT, or evolve the schema (withSchemaEvolution(), MERGE WITH SCHEMA "
            "EVOLUTION)"
        )


def check_whole(column: str, to: Any, value_type: Any, *, lacks: bool, inside: bool = True) -> None:
    """Refuses a value whose fields differ from its column's, at any depth: additional fields would
    be lost silently, missing ones would overwrite values with null.

    Args:
        column: its path, as errors show it.
        to, given: the types, as JSON.
        lacks: whether fields may be missing.
        inside: whether fields may be missing within arrays and maps, if `lacks` is False.

    Raises:
        SchemaMismatchError: the message names the field.
    """
    if isinstance(to, str) or isinstance(value_type, str):
        return
    if to["type"] != value_type["type"]:
        raise SchemaMismatchError(f"`{column}` of type {to['type']} doesn't take a {value_type['type']}")
    if to["type"] != "struct":
        for part in ("elementType", "keyType", "valueType"):
            if part in to:
                check_whole(
                    f"{column}.{_PARTS[part]}", to[part], value_type[part], lacks=lacks or not inside, inside=inside
                )
        return
    for f in to["fields"]:
        brought = field_of(value_type["fields"], f["name"])
        if brought is not None:
            check_whole(f"{column}.{f['name']}", f["type"], brought["type"], lacks=lacks, inside=inside)
        elif not lacks:
            raise SchemaMismatchError(
                f"DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION: the value for `{column}` has no field `{f['name']}`, which would be "
                f"empty: give it one, or update the other fields one by one, as in `{column}.{to['fields'][0]['name']}`, or "
                "in a merge evolve the schema, where it becomes null, and stays as it is with `*`"
            )
    for f in value_type["fields"]:
        if field_of(to["fields"], f["name"]) is None:
            raise SchemaMismatchError(
                f"DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION: the value for `{column}` has a field `{f['name']}`, which the column "
                "lacks and which would be lost: leave it out, or add it to the table, in a merge by evolving the schema"
            )
