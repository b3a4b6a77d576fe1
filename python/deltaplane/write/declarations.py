"""Checks the expressions that a table declares: refuses what delta-spark refuses when it creates or
alters a table.

Checks names, types and constants; `row_rules` checks rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaplane.io import records

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deltaplane import _native
from deltaplane.commands.column_defaults import check_default
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import columns_of
from deltaplane.expr.program import Check, compile_boolean, compile_expressions
from deltaplane.expr.quoting import refuse_unclear
from deltaplane.expr.syntax import called, captured, parse
from deltaplane.expr.types import SparkType, of_json

__all__ = ["check_constraint", "check_declared", "check_declared_default", "check_identity"]

# Functions of the embedded engine that delta-spark 4.4.0 refuses in generated columns, as measured.
NOT_GENERATED = frozenset(
    """
    array_append array_compact array_prepend array_size between bit_get btrim contains date_from_unix_date dayname endswith equal_null get getbit
    ilike map_contains_key monthname nullif nullifzero split_part startswith timestamp_micros timestamp_millis
    timestamp_seconds try_add try_divide try_mod try_multiply try_subtract unix_date unix_micros unix_millis
    unix_seconds zeroifnull
    """.split()
) | {"->", "array_sort", "interval", "make_dt_interval", "make_ym_interval"}


def check_identity(column: str, data_type: Any, metadata: Mapping[str, Any]) -> None:
    """Refuses an identity column of another type than long.

    Args:
        column: the column's name.
        data_type: its type, as a schema's JSON has it.
        metadata: the metadata of its field.

    Raises:
        InvalidArgumentError: the column has another type; the message names it.
    """
    if "delta.identity.start" in metadata and data_type != "long":
        kind = data_type if isinstance(data_type, str) else data_type["type"]
        raise InvalidArgumentError(
            f"the identity column `{column}` is of type {kind}: give it the type BIGINT (long), which every identity column has"
        )


def check_declared(spec: records.WriteSpec, location: str) -> None:
    """Refuses invalid rules in a write job that creates a table or replaces its columns.

    Raises:
        InvalidArgumentError: an unknown column, a wrong type, a generated column over another
            generated one, or a default that isn't constant.
        UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
            result: subqueries, aggregates, nondeterministic functions.
    """
    rules = spec.row_rules
    if not spec.declares or not rules:
        return
    schema = spec.schema
    fields = {f["name"]: f for f in schema.to_value()["fields"]}
    types = {name: of_json(f["type"]) for name, f in fields.items()}
    generated = [r.column for r in rules.generated]
    try:
        for rule in rules.generated:
            _about(f"the generated column `{rule.column}`", _check_generated, rule, schema, types, generated)
        for rule in rules.defaults:
            check_declared_default(rule.sql, fields[rule.column])
        for check in rules.checks:
            _about(f"the constraint `{check.name}`", check_constraint, check.sql, schema)
    except DeltaError as e:
        e.table = location
        raise


def check_declared_default(sql: str, field: Mapping[str, Any]) -> None:
    """As `check_default`; errors name the column."""
    _about(f"the default of `{field['name']}`", check_default, sql, field)


def _about(what: str, judge: Callable[..., object], *args: Any) -> None:
    try:
        judge(*args)
    except (InvalidArgumentError, UnsupportedExpressionError) as e:
        raise type(e)(f"{what} can't be declared: {e}") from e


def _check_generated(
    rule: records.ColumnRule,
    schema: _native.TableSchema,
    types: Mapping[str, SparkType | None],
    generated: Sequence[str],
) -> None:
    sql = rule.sql
    refuse_unclear(sql, columns_of(lambda: schema), is_condition=False)
    program = compile_expressions([sql], schema)
    unfit = sorted(called(parse(sql)) & NOT_GENERATED)
    if not unfit and program.intervals:
        unfit = ["the interval between two times"]
    if unfit:
        raise UnsupportedExpressionError(
            f"`{unfit[0]}` can't be used in a generated column, as delta-spark has it "
            f"(DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN): write `{sql}` with other functions"
        )
    if others := [c for c in program.columns if c in generated]:
        raise InvalidArgumentError(
            f"`{sql}` refers to `{others[0]}`, which is generated itself: refer to the columns that one is made of"
        )
    actual, wanted = program.types[0], types[rule.column]
    if actual != wanted:
        raise InvalidArgumentError(
            f"`{sql}` is {actual}, the column is {wanted or 'of a type that expressions have no form of'} "
            "(DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH): cast the expression"
        )


def check_constraint(sql: str, schema: _native.TableSchema) -> Check:
    """Parses and checks the condition of a declared constraint.

    Raises:
        InvalidArgumentError: not a condition over the table's columns.
        UnsupportedExpressionError: deltaplane can't evaluate the named expression with Spark's
            result; or a column in a lambda function, with which delta-spark 4.4.0 fails at every
            write.

    >>> import pyarrow as pa
    >>> schema = _native.TableSchema.of_arrow(pa.schema([("x", pa.int64())]))
    >>> check_constraint("x > 0", schema).columns
    ['x']
    """
    refuse_unclear(sql, columns_of(lambda: schema))
    check = compile_boolean(sql, schema)
    if columns := captured(parse(sql)):
        raise UnsupportedExpressionError(
            f"a lambda function of `{sql}` names the column `{columns[0]}`, with which delta-spark fails at every write: "
            "compare with the column outside of it, as in array_contains(items, id)"
        )
    return check
