"""Generated conditions and expressions: each is accepted or refused with a typed error, in bounded
time."""

from __future__ import annotations

import decimal
import re
import time
from typing import Any

import pytest

from deltaplane import Schema
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import condition_tree as condition_trees
from deltaplane.expr import parse
from deltaplane.expr.condition_tree import condition_tree
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.syntax import called
from deltaplane.expr.syntax import parse as parse_expression
from deltaplane.schema import Field

SCHEMA = Schema([Field("x", "long"), Field("s", "string")])
N = 5000
# Refused both as conditions of scans and as expressions.
TEXTS: dict[str, str] = {
    "brackets": "(" * N + "x" + ")" * N + " = 1",
    "signs": "- " * N + "x = 1",
    "CASE": "CASE WHEN x = 1 THEN " * N + "true" + " ELSE false END" * N,
    "calls": "abs(" * N + "x" + ")" * N + " = 1",
    "sums": "x" + " + 1" * N + " = 1",
    "casts": "cast(" * N + "x" + " as bigint)" * N + " = 1",
    "lists": "array(" * N + "x" + ")" * N + " = 1",
    "places": "x" + "[0]" * N + " = 1",
    "digits": "x = " + "9" * N,
    "digits below zero": "x = -" + "9" * N,
    "digits behind the point": "x = 0." + "9" * N,
    "digits of a type": f"cast(x as decimal({'9' * N}, 1)) = 1",
    "digits of an interval": f"x = interval '{'9' * N}' days",
    "an open comment": "/*" * N,
    "an open string": "s = '" + "'" * (2 * N + 1) + "a",
}
TOO_MUCH = (InvalidArgumentError, UnsupportedExpressionError)


@pytest.mark.parametrize("what", TEXTS)
def test_what_is_too_deep_or_too_long_is_refused(what: str) -> None:
    text, began = TEXTS[what], time.process_time()
    with pytest.raises(TOO_MUCH) as refused:
        parse(text)
    assert len(str(refused.value)) < 1000
    with pytest.raises(TOO_MUCH) as refused:
        compile_expressions([text], SCHEMA)
    assert len(str(refused.value)) < 1000
    assert time.process_time() - began < 20


def test_zeros_before_a_number_count_for_nothing() -> None:
    text = "x = " + "0" * N + "7"
    assert condition_tree(text)["right"] == {"op": "literal", "value": "0" * N + "7", "type": "integer"}
    assert [str(t) for t in compile_expressions(["0" * N + "7"], SCHEMA).types] == ["integer"]


def test_numbers_beyond_all_types_are_refused_in_tuples() -> None:
    values: list[Any] = [10**N, -(10**40), decimal.Decimal("1e999999999999"), decimal.Decimal("1e-99999999")]
    for value in values:
        with pytest.raises(InvalidArgumentError, match="more than 38 digits"):
            parse([("x", "=", value)])


def test_names_in_deep_trees_are_found() -> None:
    assert called(parse_expression("x" + " + 1" * 3000)) == {"+"}


VALUES = ["-1", "0.50", "12345678901", "'it''s'", "'a,b'", "007", "-0", "'\ue0011'", "'x)'", "1e3", "null", "x", "(1)"]


@pytest.mark.parametrize("kind", ["x IN ({})", "NOT (x in({})) OR `in (1,2)` iN (\n{} )", "x NOT IN ({})"])
@pytest.mark.parametrize("plain", [9, len(VALUES)])
def test_long_lists_mean_what_short_ones_do(kind: str, plain: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = kind.replace("{}", ", ".join(VALUES[:plain] * 20))
    expected = parse(text)
    monkeypatch.setattr(condition_trees, "_LONG_LIST", re.compile(r"(?!)"))
    assert parse(text) == expected


@pytest.mark.parametrize("value", ["7", "'a'"])
def test_long_lists_are_one_token(value: str) -> None:
    text = "x IN (" + ",".join([value] * 60_000) + ")"
    assert [token.kind for token in condition_trees._ConditionParser(text).tokens] == [
        "name",
        "name",
        "op",
        "values",
        "op",
    ]
    assert len(condition_tree(text)["list"]) == 60_000


def test_a_long_string_is_one_value() -> None:
    began = time.process_time()
    assert condition_tree(f"s = '{'a' * 5_000_000}'")["right"]["value"] == "a" * 5_000_000
    assert time.process_time() - began < 10
