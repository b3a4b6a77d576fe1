"""`DeltaTable.alter`: one change of a table's columns, properties or protocol, planned or
committed.

Arguments in, a request to the Rust core, an `AlterPlan` out; the rules are the core's. It must not
know `deltaplane.table`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.commands.purge import purge
from deltaplane.commands.remove_column_mapping import remove_column_mapping
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.compat import Protocol, newly_excluded
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr.program import violations
from deltaplane.expr.types import of_json
from deltaplane.io import records
from deltaplane.io.arrow import Scan
from deltaplane.properties import CommitProperties, PostCommitHookProperties
from deltaplane.schema import Field, PrimitiveType, StructType
from deltaplane.write.api import OpenTable
from deltaplane.write.declarations import check_constraint, check_default

# Purges before a feature is dropped: more than one only where others write files that need it at
# the same time.
_PURGES = 10

__all__ = ["AlterPlan", "TableAlterer"]

# The name that Spark reserves for the lengths of CHAR and VARCHAR.
_CHARACTERS = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"
_MAPPING = "delta.columnMapping.mode"
# The key under which a column of CHAR or VARCHAR notes its type (P102).
_LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"

_log = logging.getLogger("deltaplane.alter")


@dataclass(frozen=True)
class AlterPlan:
    """What a change did, or would do.

    `version` is the version it made: None after a dry run, and when there was nothing to change
    (`changed` is False). `before` and `after` are the protocols, `unreadable_for` and
    `unwritable_for` the engines that could read or write the table before and can't after, as the
    compatibility data says.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-alter-plan/t", pa.table({"x": [1]}))
    >>> table = DeltaTable("memory://doc-alter-plan/t")
    >>> plan = table.alter.set_table_properties({"delta.enableDeletionVectors": "true"}, dry_run=True)
    >>> plan.added_features, plan.version, table.version()
    (['deletionVectors'], None, 0)
    >>> any(line.startswith("this makes the table unreadable for") for line in plan.announcement())
    True
    """

    operation: str
    changed: bool
    version: int | None
    before: Protocol
    after: Protocol
    unreadable_for: list[str] = field(default_factory=list)
    unwritable_for: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, result: records.AlterResult) -> AlterPlan:
        """From the core's result."""
        before, after = Protocol.of(result.before), Protocol.of(result.after)
        return cls.between(before, after, operation=result.operation, changed=result.changed, version=result.version)

    @classmethod
    def between(
        cls, before: Protocol, after: Protocol, *, operation: str, changed: bool, version: int | None
    ) -> AlterPlan:
        """With the engines that the step from one protocol to the other excludes."""
        unreadable, unwritable = newly_excluded(before, after)
        return cls(operation, changed, version, before, after, unreadable, unwritable)

    @property
    def added_features(self) -> list[str]:
        """Features that the table supports after and not before."""
        return sorted(self.after.features - self.before.features)

    @property
    def removed_features(self) -> list[str]:
        """Features that the table supports before and not after."""
        return sorted(self.before.features - self.after.features)

    def announcement(self) -> list[str]:
        """What users of the table should know first, one sentence a line; empty when the protocol
        stays."""
        if self.before == self.after:
            return []
        lines = [f"the protocol goes from {self.before} to {self.after}"]
        if self.unreadable_for:
            lines.append(f"this makes the table unreadable for {', '.join(self.unreadable_for)}")
        if self.unwritable_for:
            lines.append(f"this makes the table unwritable for {', '.join(self.unwritable_for)}")
        return lines


@checked()
class TableAlterer:
    """The changes of a table, as `DeltaTable.alter`; the names are deltalake's where deltalake has
    them.

    Every call makes one commit and moves the table to it. With `dry_run=True` nothing is committed:
    the plan that comes back says which protocol the table would get and who couldn't read or write
    it any more. A change that raises the protocol is announced in the log `deltaplane.alter` before
    it is committed.

    Columns are named by dotted paths (`address.street`, `tags.element.name`, backticks around names
    that hold dots).

    Raises (every call):
        InvalidArgumentError: what the table can't become, and why.
        UnsupportedFeatureError: a feature that this version can't keep up, by name.
        MetadataChangedException, ProtocolChangedException: another writer changed the table first.
    """

    def __init__(self, table: OpenTable) -> None:
        self._table = table

    # --- columns ------------------------------------------------------------------------------------------------------

    def add_columns(
        self,
        fields: Field | list[Field],
        *,
        into: str = "",
        first: bool = False,
        after: str | None = None,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Adds nullable columns, which old rows show as null; files stay as they are.

        A struct column that is there already gets the new fields of the struct given. `into` names
        a struct that gets the fields instead of the table, `first` and `after` say where.

        Raises:
            InvalidArgumentError: a name that is taken, NOT NULL, a default, an unknown place.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, Field, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-add/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-alter-add/t")
        >>> table.alter.add_columns([Field("day", "date")], first=True).version
        1
        >>> [f.name for f in table.schema().fields]
        ['day', 'x']
        """
        given = [fields] if isinstance(fields, Field) else list(fields)
        placed = {"into": into, "fields": StructType(given).to_json(), "position": _position(first, after)}
        return self._alter("add_columns", {"columns": [placed]}, dry_run, commit_properties, post_commithook_properties)

    def _add_declared(self, columns: Sequence[tuple[str, Field, bool, str | None]]) -> AlterPlan:
        """As `add_columns`, with a struct and a place for each column, in one commit."""
        placed = [
            {"into": into, "fields": StructType([field]).to_json(), "position": _position(first, after)}
            for into, field, first, after in columns
        ]
        return self._alter("add_columns", {"columns": placed}, False, None, None)

    def replace_columns(
        self,
        fields: list[Field],
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Tells all columns anew: their order, their comments, and others among them; files stay as
        they are.

        Raises:
            InvalidArgumentError: a column that is left out, gets another type or becomes NOT NULL;
                a new one as for `add_columns`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, Field, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-replace/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-alter-replace/t")
        >>> table.alter.replace_columns([Field("day", "date"), Field("x", "long")]).version
        1
        >>> [f.name for f in table.schema().fields]
        ['day', 'x']
        """
        self._check_lengths(fields)
        return self._alter(
            "replace_columns",
            {"fields": StructType(list(fields)).to_json()},
            dry_run,
            commit_properties,
            post_commithook_properties,
        )

    def _check_lengths(self, fields: Sequence[Field]) -> None:
        """Refuses columns of CHAR and VARCHAR with other lengths than the table's, which replacing
        columns doesn't change (P102)."""
        own = {f["name"].lower(): f["metadata"].get(_LENGTHS) for f in self._newest().schema.to_value()["fields"]}
        for field_ in fields:
            name, here = field_.name, own.get(field_.name.lower(), ...)
            there = (field_.metadata or {}).get(_LENGTHS)
            if here is not ... and here != there:
                raise InvalidArgumentError(
                    f"column `{name}` stays {here or field_.type.to_value()}, it can't become {there or field_.type.to_value()} so: "
                    "ALTER COLUMN … TYPE changes types",
                    table=self._table.location,
                )

    def reorder(
        self,
        column: str,
        *,
        first: bool = False,
        after: str | None = None,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Moves a column among its siblings: `first`, or behind the column `after`."""
        position = _position(first, after)
        if position is None:
            raise InvalidArgumentError(f"say where {column!r} goes: first=True or after='another column'")
        arguments = {"column": column, "position": position}
        return self._alter("move_column", arguments, dry_run, commit_properties, post_commithook_properties)

    def rename_column(
        self,
        column: str,
        to: str,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Gives a column of a table with column mapping another name; `to` is the last part of its
        new path (P114).

        Raises:
            InvalidArgumentError: no column mapping, a name that is taken, or a constraint or
                generated column uses it (P104).
        """
        arguments = {"column": column, "to": to}
        return self._alter("rename_column", arguments, dry_run, commit_properties, post_commithook_properties)

    def drop_columns(
        self,
        columns: str | Sequence[str],
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Takes columns out of a table with column mapping; older versions still show them (P114).

        Raises:
            InvalidArgumentError: no column mapping, a partition column, or a constraint or
                generated column uses it (P104).
        """
        arguments = {"columns": [columns] if isinstance(columns, str) else list(columns)}
        return self._alter("drop_columns", arguments, dry_run, commit_properties, post_commithook_properties)

    def change_column_type(
        self,
        column: str,
        to: str | PrimitiveType,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Gives a column, or the elements, keys or values in it, a wider type; files stay as they
        are (P153).

        The table needs the property `delta.enableTypeWidening`. Types widen byte → short → integer
        → long, float → double, byte, short and integer → double, date → timestamp_ntz, integers and
        decimals → wider decimals.

        Raises:
            InvalidArgumentError: not a wider type, the property is off, or a constraint uses the
                column.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-widen/t", pa.table({"n": pa.array([1], pa.int32())}))
        >>> table = DeltaTable("memory://doc-alter-widen/t")
        >>> table.alter.set_table_properties({"delta.enableTypeWidening": "true"}).added_features
        ['typeWidening']
        >>> table.alter.change_column_type("n", "long").version
        2
        >>> table.to_pyarrow_table().schema.field("n").type
        DataType(int64)
        """
        arguments = {"column": column, "to": to if isinstance(to, str) else to.type}
        return self._alter("change_type", arguments, dry_run, commit_properties, post_commithook_properties)

    def _change_type(self, column: str, to: PrimitiveType, lengths: str | None, *, dry_run: bool = False) -> AlterPlan:
        """As `change_column_type`, also to a string of the type `lengths`, such as
        `varchar(10)`."""
        arguments = {"column": column, "to": to.type, "lengths": lengths}
        return self._alter("change_type", arguments, dry_run, None, None)

    def _several(self, changes: Sequence[Callable[[TableAlterer], AlterPlan]]) -> AlterPlan:
        """Changes of columns in one commit."""
        collected = _Collected(self._table)
        for change in changes:
            change(collected)
        return self._alter("change_columns", {"changes": collected.requests}, False, None, None)

    def set_comment(
        self,
        column: str,
        comment: str | None,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets a column's comment; None takes it away."""
        arguments = {"column": column, "comment": comment}
        return self._alter("set_comment", arguments, dry_run, commit_properties, post_commithook_properties)

    def drop_column_not_null(
        self,
        column_name: str,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
        *,
        dry_run: bool = False,
    ) -> AlterPlan:
        """Lets a column be null (P102)."""
        arguments = {"column": column_name}
        return self._alter("drop_not_null", arguments, dry_run, commit_properties, post_commithook_properties)

    def set_nullable(
        self,
        column: str,
        nullable: bool = True,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Lets a column be null, as `drop_column_not_null`.

        Raises:
            UnsupportedFeatureError: `nullable=False`, which no row may contradict; add the
                constraint `x IS NOT NULL`.
        """
        if not nullable:
            raise UnsupportedFeatureError(
                f"column {column!r} can't become NOT NULL in a table that exists: add a constraint such as"
                f" add_constraint({{'{column}_not_null': '{column} IS NOT NULL'}}), which existing rows must meet"
            )
        arguments = {"column": column}
        return self._alter("drop_not_null", arguments, dry_run, commit_properties, post_commithook_properties)

    def set_column_metadata(
        self,
        column: str,
        metadata: Mapping[str, Any],
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets free keys of a column's metadata; None takes one away. Keys that writers obey
        (`delta.…`) are refused."""
        arguments = {"column": column, "metadata": dict(metadata)}
        return self._alter("set_column_metadata", arguments, dry_run, commit_properties, post_commithook_properties)

    def set_default(
        self,
        column: str,
        expression: str,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets the value that writers fill in where a column isn't given; rows that are there stay
        as they are (P107).

        `expression` is a constant one in Spark SQL, such as `0` or `current_date()`. The table gets
        the feature that defaults need.

        Raises:
            InvalidArgumentError: not a constant, not of the column's type, or a column whose values
                writers compute.
            UnsupportedExpressionError: an expression that can't be evaluated with Spark's meaning
                here.
        """
        newest = _native.Snapshot.open(self._table.location, self._table.storage_options)
        fields = {f["name"].lower(): f["type"] for f in newest.schema.to_value()["fields"]}
        # A name that isn't there is the core's to refuse.
        if (of := fields.get(column.strip("`").lower())) is not None:
            check_default(expression, of_json(of))
        arguments = {"column": column, "expression": expression}
        return self._alter("set_default", arguments, dry_run, commit_properties, post_commithook_properties)

    def drop_default(
        self,
        column: str,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Takes a column's default away: it is null again where it isn't given."""
        arguments = {"column": column, "expression": None}
        return self._alter("set_default", arguments, dry_run, commit_properties, post_commithook_properties)

    # --- the table ----------------------------------------------------------------------------------------------------

    def set_table_name(
        self,
        name: str | None,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets the table's name; None takes it away."""
        return self._alter("set_name", {"name": name}, dry_run, commit_properties, post_commithook_properties)

    def set_table_description(
        self,
        description: str | None,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets the table's description; None takes it away."""
        arguments = {"description": description}
        return self._alter("set_description", arguments, dry_run, commit_properties, post_commithook_properties)

    def set_table_properties(
        self,
        properties: Mapping[str, str],
        raise_if_not_exists: bool = True,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets table properties, with the features that they need, in one commit (P093, P190).

        Keys that begin with `delta.` ignore case and must be known, their values legal; other keys
        are yours. `delta.feature.<name>`, `delta.minReaderVersion`, `delta.minWriterVersion` and
        `delta.ignoreProtocolDefaults` are instructions and aren't stored (P096).
        `delta.columnMapping.mode` = `none` ends column mapping: by itself, since all files are
        written anew under the columns' names unless they have them (P114). `raise_if_not_exists` is
        there for deltalake's sake: unknown `delta.` keys are refused either way.

        Raises:
            InvalidArgumentError: an unknown key, an illegal value, values that clash.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-set/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-alter-set/t")
        >>> table.alter.set_table_properties({"DELTA.appendonly": "true", "owner": "payments"}).version
        1
        >>> table.metadata().configuration
        {'delta.appendOnly': 'true', 'owner': 'payments'}
        """
        texts = {key: _property_text(key, value) for key, value in properties.items()}
        if any(key.lower() == _MAPPING.lower() and text.lower() == "none" for key, text in texts.items()):
            newest = self._newest()
            if newest.column_mapping != "none":
                if len(texts) > 1:
                    raise InvalidArgumentError(
                        f"{_MAPPING} goes to none by itself, as files are written anew: set the other properties in another change"
                    )
                settings = Settings(None, commit_properties, post_commithook_properties, dry_run=dry_run)
                return self._unmapped(newest, settings)
        arguments = {"properties": texts}
        return self._alter("set_properties", arguments, dry_run, commit_properties, post_commithook_properties)

    def unset_table_properties(
        self,
        keys: str | Sequence[str],
        *,
        if_exists: bool = False,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Takes table properties away; features that they needed stay supported (`drop_feature`
        takes those).

        Raises:
            InvalidArgumentError: a key that isn't set, unless `if_exists`.
        """
        arguments = {"keys": [keys] if isinstance(keys, str) else list(keys), "if_exists": if_exists}
        return self._alter("unset_properties", arguments, dry_run, commit_properties, post_commithook_properties)

    def cluster_by(
        self,
        columns: str | Sequence[str],
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Keeps rows together by these columns from now on, by none with an empty list; files stay
        as they are (P152).

        Raises:
            InvalidArgumentError: a partitioned table, more than four columns, or one without
                statistics.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-cluster/t", pa.table({"day": [1], "x": [2]}))
        >>> DeltaTable("memory://doc-alter-cluster/t").alter.cluster_by("day").added_features
        ['clustering', 'domainMetadata']
        """
        arguments = {"columns": [columns] if isinstance(columns, str) else list(columns)}
        return self._alter("cluster_by", arguments, dry_run, commit_properties, post_commithook_properties)

    # --- constraints --------------------------------------------------------------------------------------------------

    def add_constraint(
        self,
        constraints: Mapping[str, str],
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Adds one CHECK constraint, name → condition in Spark SQL, which every row must meet
        (P103).

        The rows that are there are read and judged first; false and null both break the condition.
        Rows that another writer adds meanwhile are a conflict.

        Raises:
            ConstraintViolationError: a row of the table breaks the condition.
            UnsupportedFeatureError: a condition that this version can't evaluate with Spark's
                meaning.
            InvalidArgumentError: not exactly one constraint, or a name that is taken.
        """
        if len(constraints) != 1:
            raise InvalidArgumentError(f"one constraint is added at a time, not {len(constraints)}")
        ((name, expression),) = constraints.items()
        if name == _CHARACTERS:
            raise InvalidArgumentError(
                f"`{name}` can't be the name of a constraint: Spark calls its own check of CHAR and VARCHAR so; take another name"
            )
        arguments: dict[str, Any] = {"name": name, "expression": expression}
        # Reading the rows takes time: what can be refused without is refused first.
        self._alter("add_constraint", arguments, True, commit_properties, post_commithook_properties)
        arguments["seen"] = self._judged(name, expression)
        return self._alter("add_constraint", arguments, dry_run, commit_properties, post_commithook_properties)

    def drop_constraint(
        self,
        name: str,
        raise_if_not_exists: bool = True,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Drops a CHECK constraint.

        Raises:
            InvalidArgumentError: no such constraint, unless `raise_if_not_exists` is False.
        """
        arguments = {"name": name, "if_exists": not raise_if_not_exists}
        return self._alter("drop_constraint", arguments, dry_run, commit_properties, post_commithook_properties)

    # --- identity columns ---------------------------------------------------------------------------------------------

    def sync_identity(
        self,
        column: str,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Has an identity column go on behind the values that its rows have, some of which users
        gave (P108).

        The column is read. The high-water mark becomes the value of the column's series at or
        behind the greatest one, or the smallest one where the step is negative; it never moves
        back. Rows that another writer adds meanwhile are a conflict.

        Raises:
            InvalidArgumentError: no such column, none of identity, or one that is GENERATED ALWAYS.
            ConstraintViolationError: the series has no later value.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, Field, Schema, write_deltalake
        >>> identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True}
        >>> schema = Schema([Field("id", "long", metadata=identity), Field("x", "long")])
        >>> table = DeltaTable.create("memory://doc-alter-sync/t", schema)
        >>> _ = write_deltalake(table, pa.table({"id": [7], "x": [0]}), mode="append")
        >>> table.alter.sync_identity("id").version
        2
        >>> _ = write_deltalake(table, pa.table({"x": [1]}), mode="append")
        >>> sorted(DeltaTable("memory://doc-alter-sync/t").to_pyarrow_table()["id"].to_pylist())
        [7, 8]
        """
        arguments: dict[str, Any] = {"column": column}
        self._alter("sync_identity", arguments, True, commit_properties, post_commithook_properties)
        newest = self._newest()
        arguments |= {"seen": newest.version, "furthest": _furthest(newest, column)}
        return self._alter("sync_identity", arguments, dry_run, commit_properties, post_commithook_properties)

    # --- the protocol -------------------------------------------------------------------------------------------------

    def add_feature(
        self,
        feature: object,
        allow_protocol_versions_increase: bool = False,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Supports a feature, or several, without using it yet: names, or deltalake's
        `TableFeatures`.

        Raises:
            InvalidArgumentError: the protocol's versions would rise and
                `allow_protocol_versions_increase` is False.
            UnsupportedFeatureError: no such feature, or one that this version can't keep up.
        """
        given = list(feature) if isinstance(feature, (list, tuple, set, frozenset)) else [feature]
        arguments = {
            "features": [_feature_name(one) for one in given],
            "allow_protocol_versions_increase": allow_protocol_versions_increase,
        }
        return self._alter("add_features", arguments, dry_run, commit_properties, post_commithook_properties)

    def drop_feature(
        self,
        feature: str,
        truncate_history: bool = False,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Stops supporting a feature and takes its properties away, so that programs without it can
        use the table (P098).

        Files that need it are written anew first, in commits of their own (`DeltaTable.purge`):
        rows marked in deletion vectors, values in types that were widened since, columns with other
        names in files (`REMOVE COLUMN MAPPING`). A feature that readers must know goes at once:
        versions that need it stay, behind checkpoints that the feature `checkpointProtection` then
        guards. With `truncate_history=True` they go instead. The first call prepares the table, a
        second one, `delta.dropFeatureTruncateHistory.retentionDuration` (24 hours) later, deletes
        the history and drops the feature.

        Raises:
            InvalidArgumentError: the table doesn't have it, other features need it, it is in use,
                or history has to become older first; says what to do.
            UnsupportedFeatureError: a feature that can't be dropped, as what needs it would have to
                be written anew.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-drop/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-alter-drop/t")
        >>> table.alter.set_table_properties({"delta.enableDeletionVectors": "true"}).added_features
        ['deletionVectors']
        >>> plan = table.alter.drop_feature("deletionVectors")
        >>> plan.removed_features, plan.added_features
        (['deletionVectors'], ['checkpointProtection'])
        """
        # The plan is that of the table that a purge leaves.
        arguments = {"feature": feature, "truncate_history": truncate_history, "rewritten": self._newest().version}

        def purged() -> dict[str, int | None]:
            return {
                "rewritten": self._rewritten(feature, Settings(None, commit_properties, post_commithook_properties))
            }

        return self._alter("drop_feature", arguments, dry_run, commit_properties, post_commithook_properties, purged)

    def upgrade_protocol(
        self,
        reader_version: int,
        writer_version: int,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Supports what these protocol versions imply (P094): `upgradeTableProtocol` of
        `delta.tables`.

        The table gets the weakest protocol that names the same features; versions it has already
        change nothing.

        Raises:
            InvalidArgumentError: versions that don't exist or don't go together (P092).
        """
        arguments = {"reader": reader_version, "writer": writer_version}
        return self._alter("upgrade_protocol", arguments, dry_run, commit_properties, post_commithook_properties)

    def _newest(self) -> _native.Snapshot:
        return _native.Snapshot.open(self._table.location, self._table.storage_options)

    def _unmapped(self, newest: _native.Snapshot, settings: Settings) -> AlterPlan:
        """The table without column mapping; its protocol stays."""
        version, protocol = remove_column_mapping(Target(self._table.location, newest), settings)
        self._table.update_incremental()
        return AlterPlan("REMOVE COLUMN MAPPING", True, version, protocol, protocol)

    def _rewritten(self, feature: str, settings: Settings) -> int | None:
        """The version whose files no longer need the feature; None where none did."""
        newest = self._newest()
        how = newest.rewrite_before_drop(feature)
        if how is None:
            return None
        if how == "remove_column_mapping":
            return self._unmapped(newest, settings).version
        # A purge writes files in their columns' types, so that only other writers can make another
        # one necessary.
        for _ in range(_PURGES):
            if not purge(Target(self._table.location, newest), None, settings):
                break
            newest = newest.update()
        return newest.version

    def _judged(self, name: str, expression: str) -> int:
        """The newest version, whose rows all meet the condition."""
        newest = self._newest()
        check = check_constraint(expression, newest.schema.to_json())
        rows = Scan(newest.scan(check.columns))
        for broken in violations(check, rows.batches()):
            raise ConstraintViolationError(
                f"the constraint {name!r} can't be added: a row of the table breaks `{expression}`"
                f" (DELTA_NEW_CHECK_CONSTRAINT_VIOLATION):{check.shown(broken.slice(0, 1))}",
                table=self._table.location,
                version=newest.version,
            )
        return newest.version

    # --- the commit ---------------------------------------------------------------------------------------------------

    def _alter(
        self,
        change: str,
        arguments: Mapping[str, Any],
        dry_run: bool,
        commit_properties: CommitProperties | None,
        hook: PostCommitHookProperties | None,
        prepare: Callable[[], Mapping[str, Any]] = dict,
    ) -> AlterPlan:
        """Plans a change, announces it, calls `prepare`, and commits the change with the arguments
        that `prepare` returns."""
        settings = (commit_properties or CommitProperties()).to_request()
        if settings.pop("txn"):
            raise UnsupportedFeatureError("a change of the table carries no application's version: leave it out")
        settings |= (hook or PostCommitHookProperties()).to_request()
        if settings.pop("cleanup", None):
            raise UnsupportedFeatureError("a change of the table leaves old log files alone: leave clean-up to a write")
        plan = self._run(records.AlterRequest({"change": change, **arguments}, {**settings, "dry_run": True}))
        if dry_run or not plan.changed:
            return plan
        for line in plan.announcement():
            _log.warning("%s: %s", self._table.location, line)
        arguments = {**arguments, **prepare()}
        done = self._run(records.AlterRequest({"change": change, **arguments}, {**settings, "dry_run": False}))
        self._table.update_incremental()
        return done

    def _run(self, request: records.AlterRequest) -> AlterPlan:
        options = self._table.storage_options
        return AlterPlan.of(_native.alter_table(self._table.location, options, request))


class _Collected(TableAlterer):
    """Takes changes down instead of making them."""

    def __init__(self, table: OpenTable) -> None:
        super().__init__(table)
        self.requests: list[dict[str, Any]] = []

    def _alter(
        self,
        change: str,
        arguments: Mapping[str, Any],
        dry_run: bool,
        commit_properties: CommitProperties | None,
        hook: PostCommitHookProperties | None,
        prepare: Callable[[], Mapping[str, Any]] = dict,
    ) -> AlterPlan:
        if change == "sync_identity":
            raise UnsupportedFeatureError("SYNC IDENTITY reads the column's rows: write a statement for it alone")
        self.requests.append({"change": change, **arguments})
        protocol = Protocol.of(self._newest().protocol)
        return AlterPlan(change, True, None, protocol, protocol)


def _position(first: bool, after: str | None) -> object:
    if first and after is not None:
        raise InvalidArgumentError("first and after are two places: give one")
    if first:
        return "first"
    return None if after is None else {"after": after}


def _furthest(snapshot: _native.Snapshot, column: str) -> int | None:
    """The value of an identity column that lies furthest in the direction of its steps."""
    import pyarrow.compute as pc

    # The core has found the column, so the path is one name.
    name = column[1:-1].replace("``", "`") if column.startswith("`") else column
    fields = snapshot.schema.to_value()["fields"]
    field = next(one for one in fields if one["name"].lower() == name.lower())
    descends = field["metadata"]["delta.identity.step"] < 0
    found: int | None = None
    for batch in Scan(snapshot.scan([field["name"]])).batches():
        value = (pc.min if descends else pc.max)(batch.column(0)).as_py()
        if value is not None:
            found = value if found is None else min(found, value) if descends else max(found, value)
    return found


def _property_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise InvalidArgumentError(f"the value of the property {key!r} is text, not {type(value).__name__}")


def _feature_name(feature: object) -> str:
    """The name of a feature: text as it is, a member of `TableFeatures`, ours or deltalake's, by
    its own; the core knows both."""
    return feature if isinstance(feature, str) else str(feature).rpartition(".")[2]
