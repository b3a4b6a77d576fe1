"""`DeltaTable.alter`: plans or commits changes of a table's columns, properties and protocol.

Converts arguments to a request for the Rust core and its result to an `AlterPlan`; the core owns
the rules. Must not import `deltaplane.table.delta_table`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.commands.purge import purge
from deltaplane.commands.remove_column_mapping import remove_column_mapping
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.compat import Protocol
from deltaplane.exceptions import ConstraintViolationError, DeltaError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.expr.program import violations
from deltaplane.io import records
from deltaplane.io.arrow import Scan
from deltaplane.io.tracing import traced
from deltaplane.metastores.named import keep_in_step
from deltaplane.properties import CommitProperties, PostCommitHookProperties, commit_request
from deltaplane.schema import Field, PrimitiveType, StructType
from deltaplane.table.alter_plan import AlterPlan
from deltaplane.write.api import OpenTable
from deltaplane.write.declarations import check_constraint, check_declared_default
from deltaplane.write.refresh import refresh_after_commit

# Maximum number of purges before a feature is dropped. A second purge is needed only if another
# writer adds files that need the feature during the first.
_PURGES = 10

__all__ = ["TableAlterer"]

# The metadata key that Spark reserves for the lengths of CHAR and VARCHAR.
_CHARACTERS = "__CHAR_VARCHAR_STRING_LENGTH_CHECK__"
_MAPPING = "delta.columnMapping.mode"
# The metadata key under which a CHAR or VARCHAR column stores its type (P102).
_LENGTHS = "__CHAR_VARCHAR_TYPE_STRING"

_log = logging.getLogger("deltaplane.alter")


@checked()
class TableAlterer:
    """Changes of a table's schema, properties and protocol, as `DeltaTable.alter`; method names are
    deltalake's where deltalake has the method.

    Every call makes one commit and moves the `DeltaTable` to it. With `dry_run=True` nothing is
    committed: the returned plan shows the new protocol and the engines that would lose access. A
    change that raises the protocol is logged by the logger `deltaplane.alter` before the commit.

    Columns are named by dotted paths (`address.street`, `tags.element.name`); names that contain
    dots need backticks.

    Raises (every call):
        InvalidArgumentError: the table doesn't allow the change; the message gives the reason.
        UnsupportedFeatureError: the change needs a feature, named in the message, that this version
            can't maintain.
        MetadataChangedException, ProtocolChangedException: another writer changed the table first.
    """

    # Whether a change that changes nothing is committed, too.
    _always = False

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
        """Adds nullable columns, which existing rows show as null; no file is rewritten.

        An existing struct column gets the new fields of the passed struct. `into` names the struct
        to extend instead of the table; `first` and `after` choose the position.

        Raises:
            InvalidArgumentError: an existing name, a NOT NULL column, a default, or an unknown
                position.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, Field, write_deltalake
        >>> _ = write_deltalake("memory://doc-alter-add/t", pa.table({"x": [1]}))
        >>> table = DeltaTable("memory://doc-alter-add/t")
        >>> table.alter.add_columns([Field("day", "date")], first=True).version
        1
        >>> [f.name for f in table.schema().fields]
        ['day', 'x']
        """
        added_fields = [fields] if isinstance(fields, Field) else list(fields)
        placed = {"into": into, "fields": _columns(added_fields), "position": _position(first, after)}
        return self._alter("add_columns", {"columns": [placed]}, dry_run, commit_properties, post_commithook_properties)

    def _add_declared(self, columns: Sequence[tuple[str, Field, bool, str | None]]) -> AlterPlan:
        """Adds columns as `add_columns` does, each with a parent struct and a position, in one
        commit."""
        placed = [
            {"into": into, "fields": _columns([field]), "position": _position(first, after)}
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
        """Replaces the whole list of columns: order, comments and new columns; no file is
        rewritten. Of a table with column mapping, columns that are missing are dropped.

        Raises:
            InvalidArgumentError: an existing column is missing of a table without column mapping,
                changes its type or becomes NOT NULL; or a new column is refused as in
                `add_columns`.

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
            {"fields": _columns(fields)},
            dry_run,
            commit_properties,
            post_commithook_properties,
        )

    def _check_lengths(self, fields: Sequence[Field]) -> None:
        """Refuses CHAR and VARCHAR columns whose lengths differ from the table's, since replacing
        columns doesn't change types (P102)."""
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
        """Moves a column among its siblings: to the first position, or directly behind the column
        `after`."""
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
        """Renames a column of a table with column mapping; `to` is the last part of its new path
        (P114).

        Raises:
            InvalidArgumentError: the table has no column mapping, the name exists, or a constraint
                or generated column uses the column (P104).
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
        """Drops columns of a table with column mapping; older versions still show them (P114).

        Raises:
            InvalidArgumentError: the table has no column mapping, the column is a partition column,
                or a constraint or generated column uses the column (P104).
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
        """Widens the type of a column, or of its elements, keys or values; no file is rewritten
        (P153).

        The table needs the property `delta.enableTypeWidening`. Types widen byte → short → integer
        → long, float → double, byte, short and integer → double, date → timestamp_ntz, integers and
        decimals → wider decimals.

        Raises:
            InvalidArgumentError: the new type isn't wider, the property is off, or a constraint
                uses the column.

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
        """Changes a type as `change_column_type` does; `lengths` also allows a string type with a
        length, such as `varchar(10)`."""
        arguments = {"column": column, "to": to.type, "lengths": lengths}
        return self._alter("change_type", arguments, dry_run, None, None)

    def _several(self, changes: Sequence[Callable[[TableAlterer], AlterPlan]]) -> AlterPlan:
        """Commits several column changes as one version."""
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
        """Sets a column's comment; None removes the comment."""
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
        """Makes a column nullable (P102)."""
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
        """Makes a column nullable, as `drop_column_not_null` does.

        Raises:
            UnsupportedFeatureError: `nullable=False`, since existing rows would have to be checked;
                add the constraint `x IS NOT NULL` instead.
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
        """Sets keys of a column's metadata; None removes a key. Refuses keys with a meaning for
        writers (`delta.…`)."""
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
        """Sets the value that writers use for a column that an insert omits; existing rows keep
        their values (P107).

        `expression` is a constant expression in Spark SQL, such as `0` or `current_date()`. The
        change adds the table feature for defaults.

        Raises:
            InvalidArgumentError: the expression isn't constant, has another type than the column,
                or writers compute the column's values.
            UnsupportedExpressionError: deltaplane can't evaluate the expression with Spark's
                result.
        """
        newest = _native.Snapshot.open(self._table.location, self._table.storage_options)
        fields = {f["name"].lower(): f for f in newest.schema.to_value()["fields"]}
        # The core refuses an unknown name.
        if (field := fields.get(column.strip("`").lower())) is not None:
            check_declared_default(expression, field)
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
        """Drops a column's default: inserts that omit the column store null again."""
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
        """Sets the table's name; None removes the name."""
        return self._alter("set_name", {"name": name}, dry_run, commit_properties, post_commithook_properties)

    def set_table_description(
        self,
        description: str | None,
        *,
        dry_run: bool = False,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> AlterPlan:
        """Sets the table's description; None removes the description."""
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
        """Sets table properties and adds the features that the properties need, in one commit
        (P093, P190).

        Keys that begin with `delta.` are case-insensitive and must be known, with legal values;
        other keys are free. `delta.feature.<name>`, `delta.minReaderVersion`,
        `delta.minWriterVersion` and `delta.ignoreProtocolDefaults` are instructions and aren't
        stored (P096). `delta.columnMapping.mode` = `none` ends column mapping; it must be the only
        property of the call, since all files whose columns have other names are rewritten (P114).
        `raise_if_not_exists` exists for compatibility with deltalake: unknown `delta.` keys are
        refused either way.

        Raises:
            InvalidArgumentError: an unknown key, an illegal value, or contradictory values.

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
                        f"{_MAPPING} goes to none by itself, as files are rewritten: set the other properties in another change"
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
        """Removes table properties; the features stay supported until `drop_feature`.

        Raises:
            InvalidArgumentError: a key isn't set and `if_exists` is False.
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
        """Sets the clustering columns, by which OPTIMIZE orders rows; an empty list ends
        clustering. No file is rewritten (P152).

        Raises:
            InvalidArgumentError: the table is partitioned, more than four columns are named, or a
                column has no statistics.

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
        """Adds one CHECK constraint, as name → condition in Spark SQL, which every row must satisfy
        (P103).

        Checks all existing rows first; a row that yields false or null violates the condition. Rows
        that another writer adds during the check are a conflict.

        Raises:
            ConstraintViolationError: an existing row violates the condition.
            UnsupportedFeatureError: this version can't evaluate the condition with Spark's result.
            InvalidArgumentError: not exactly one constraint, or an existing name.
        """
        if len(constraints) != 1:
            raise InvalidArgumentError(f"one constraint is added at a time, not {len(constraints)}")
        return self._add_constraints(constraints, dry_run, commit_properties, post_commithook_properties)

    def _add_constraints(
        self,
        constraints: Mapping[str, str],
        dry_run: bool,
        commit_properties: CommitProperties | None,
        post_commithook_properties: PostCommitHookProperties | None,
    ) -> AlterPlan:
        """Adds constraints, as `add_constraint` does, in one commit."""
        if _CHARACTERS in constraints:
            raise InvalidArgumentError(
                f"`{_CHARACTERS}` can't be the name of a constraint: Spark calls its own check of CHAR and VARCHAR so; take another name"
            )
        (name, expression), *others = constraints.items()
        arguments: dict[str, Any] = {"name": name, "expression": expression}
        if others:
            arguments["others"] = dict(others)
        # Reading the rows takes time, so everything that can be refused without the rows is refused
        # first.
        self._alter("add_constraint", arguments, True, commit_properties, post_commithook_properties)
        for each, condition in constraints.items():
            seen = self._judged(each, condition)
            arguments["seen"] = min(seen, arguments.get("seen", seen))
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
            InvalidArgumentError: the constraint doesn't exist and `raise_if_not_exists` is True.
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
        """Moves an identity column's high-water mark beyond the values that users inserted (P108).

        Reads the column. The high-water mark becomes the first value of the series at or above the
        column's maximum (at or below its minimum if the step is negative); it never moves back.
        Rows that another writer adds during the read are a conflict.

        Raises:
            InvalidArgumentError: the column doesn't exist, or isn't an identity column.
            ConstraintViolationError: the series has no value beyond the column's values.

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
        """Adds table features to the protocol without using them; accepts names and deltalake's
        `TableFeatures`.

        Raises:
            InvalidArgumentError: the change would raise the protocol's versions and
                `allow_protocol_versions_increase` is False.
            UnsupportedFeatureError: the feature is unknown, or this version can't maintain it.
        """
        names = list(feature) if isinstance(feature, (list, tuple, set, frozenset)) else [feature]
        arguments = {
            "features": [_feature_name(name) for name in names],
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
        """Removes a feature and its properties from the table, so that programs without the feature
        can use the table (P098).

        First rewrites the files that need the feature, in separate commits (`DeltaTable.purge`):
        files with deletion vectors, with values in types that were widened later, or with mapped
        column names (`REMOVE COLUMN MAPPING`). Dropping a feature that readers need takes effect in
        one call: older versions stay, behind checkpoints which the feature `checkpointProtection`
        then protects. With `truncate_history=True` the older versions are deleted instead, by two
        calls: the first prepares the table; the second, at least
        `delta.dropFeatureTruncateHistory.retentionDuration` (24 hours) later, deletes the history
        and drops the feature.

        Raises:
            InvalidArgumentError: the table doesn't have the feature, other features need it, it is
                in use, or the history is too young; the message says what to do.
            UnsupportedFeatureError: the feature can't be dropped, because its data would have to be
                rewritten.

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
        # Plans against the table as a purge would leave it.
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
        """Adds the features that these protocol versions imply (P094), as `upgradeTableProtocol` of
        `delta.tables` does.

        The table gets the lowest protocol with the same features; versions that the table already
        has change nothing.

        Raises:
            InvalidArgumentError: the versions don't exist or can't be combined (P092).
        """
        arguments = {"reader": reader_version, "writer": writer_version}
        return self._alter("upgrade_protocol", arguments, dry_run, commit_properties, post_commithook_properties)

    def _newest(self) -> _native.Snapshot:
        return _native.Snapshot.open(self._table.location, self._table.storage_options)

    def _unmapped(self, newest: _native.Snapshot, settings: Settings) -> AlterPlan:
        """Ends column mapping; the protocol stays the same."""
        version, protocol = remove_column_mapping(Target(self._table.location, newest), settings)
        refresh_after_commit(self._table.update_incremental)
        return AlterPlan("REMOVE COLUMN MAPPING", True, version, protocol, protocol)

    def _rewritten(self, feature: str, settings: Settings) -> int | None:
        """Purges the files that need the feature and returns the purged version; None if no file
        needed the feature."""
        newest = self._newest()
        how = newest.rewrite_before_drop(feature)
        if how is None:
            return None
        if how == "remove_column_mapping":
            return self._unmapped(newest, settings).version
        # A purge writes files in their columns' current types, so only other writers can make
        # another purge necessary.
        for _ in range(_PURGES):
            if not purge(Target(self._table.location, newest), None, settings):
                break
            newest = newest.update()
        return newest.version

    def _judged(self, name: str, expression: str) -> int:
        """Checks the rows of the newest version against the condition and returns that version."""
        newest = self._newest()
        check = check_constraint(expression, newest.schema)
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

    @traced("ALTER")
    def _alter(
        self,
        change: str,
        arguments: Mapping[str, Any],
        dry_run: bool,
        commit_properties: CommitProperties | None,
        hook: PostCommitHookProperties | None,
        prepare: Callable[[], Mapping[str, Any]] = dict,
    ) -> AlterPlan:
        """Plans a change, logs a raised protocol, calls `prepare`, and commits the change with the
        arguments that `prepare` returns."""
        commit = commit_request(commit_properties, hook)
        plan = self._run(records.AlterRequest({"change": change, **arguments}, dry_run=True, commit=commit))
        if dry_run or not (plan.changed or self._always):
            return plan
        for line in plan.announcement():
            _log.warning("%s: %s", self._table.location, line)
        arguments = {**arguments, **prepare()}
        done = self._run(records.AlterRequest({"change": change, **arguments}, always=self._always, commit=commit))
        version = done.version
        keep_in_step(self._table.location)
        if version is None:
            # Another writer made the change meanwhile.
            refresh_after_commit(self._table.update_incremental)
        else:
            refresh_after_commit(lambda: self._table.move_to_own_commit(version))
        return done

    def _run(self, request: records.AlterRequest) -> AlterPlan:
        options = self._table.storage_options
        return AlterPlan.of(_native.alter_table(self._table.location, options, request))


def committing_always(alterer: TableAlterer) -> TableAlterer:
    """The same changes of the same table, each with a commit: as in delta-spark's statements, a
    change that changes nothing makes a version, too."""
    made = TableAlterer(alterer._table)
    made._always = True
    return made


class _Collected(TableAlterer):
    """Records changes instead of committing them."""

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
    """The extreme value of an identity column in the direction of its step: maximum, or minimum for
    a negative step."""
    import pyarrow.compute as pc

    # The core has already resolved the column, so the path has one name.
    name = column[1:-1].replace("``", "`") if column.startswith("`") else column
    fields = snapshot.schema.to_value()["fields"]
    field = next(part for part in fields if part["name"].lower() == name.lower())
    descends = field["metadata"]["delta.identity.step"] < 0
    furthest: int | None = None
    for batch in Scan(snapshot.scan([field["name"]])).batches():
        value = (pc.min if descends else pc.max)(batch.column(0)).as_py()
        if value is not None:
            furthest = value if furthest is None else min(furthest, value) if descends else max(furthest, value)
    return furthest


def _columns(fields: Sequence[Field]) -> _native.TableSchema:
    """Declared columns for the core.

    Raises:
        InvalidArgumentError: a type that no table has.
    """
    try:
        return _native.TableSchema(StructType(list(fields)).to_json())
    except DeltaError as e:
        raise InvalidArgumentError(str(e)) from e


def _property_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    raise InvalidArgumentError(f"the value of the property {key!r} is text, not {type(value).__name__}")


def _feature_name(feature: object) -> str:
    """The name of a feature: a string unchanged, or the name of a `TableFeatures` member
    (deltaplane's or deltalake's); the core knows both spellings."""
    return feature if isinstance(feature, str) else str(feature).rpartition(".")[2]
