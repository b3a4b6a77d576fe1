"""Plain predicates have one tree, whichever of the two parsers reads them; the slow one isn't imported for them."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane.expr import necessary
from deltaplane.expr.simple import from_simple, parts
from deltaplane.expr.sql import from_sql

_NAMES = st.sampled_from(["a", "B", "`odd name`", "s.x", "day", "`t`.`ü``q`", "date", "Value"])
_NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-1000, 1000, places=3).map(lambda d: f"{d:f}"),
)
_TEXTS = st.sampled_from(
    ["'x'", "''", "'it''s'", "'a\\\\n\\'b'", '"q"', "'a' 'b'", "'100%'", "r'\\d'", "'é😀'", "'-- no'"]
)
_MOMENTS = st.sampled_from(
    ["DATE '2024-01-01'", "date'2024-02-30'", "TIMESTAMP '2024-01-01 00:00:00Z'", "TIMESTAMP_NTZ '2024-01-01'"]
)
_LITERALS = st.one_of(_NUMBERS, _TEXTS, _MOMENTS, st.sampled_from(["NULL", "true", "FALSE"]))
_OPERANDS = st.recursive(
    st.one_of(_NAMES, _LITERALS),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*"), inner),
    max_leaves=3,
)
_SIGNS = st.sampled_from(["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"])
_NOT = st.sampled_from(["", "NOT "])
_TESTS = st.one_of(
    st.builds("{} {} {}".format, _OPERANDS, _SIGNS, _OPERANDS),
    st.builds("{} {}IN ({})".format, _NAMES, _NOT, st.lists(_LITERALS, min_size=1, max_size=4).map(", ".join)),
    st.builds("{} {}BETWEEN {} AND {}".format, _NAMES, _NOT, _OPERANDS, _OPERANDS),
    st.builds("{} IS {}NULL".format, _OPERANDS, _NOT),
    st.builds("{} IS {}TRUE".format, _NAMES, _NOT),
    st.builds("{} {}LIKE {}".format, _NAMES, _NOT, st.sampled_from(["'a%'", "'%b_'", "'x!%' ESCAPE '!'"])),
    st.builds("{} IS {}DISTINCT FROM {}".format, _NAMES, _NOT, _LITERALS),
    _NAMES,
)
_CONDITIONS = st.recursive(
    _TESTS,
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "or", "And"]), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(_CONDITIONS)
def test_both_parsers_give_one_tree(text: str) -> None:
    plain = from_simple(text)
    if plain is not None:
        assert plain == from_sql(text)


@pytest.mark.parametrize(
    "text",
    [
        "day = '2024-01-01'",
        "a > 1 AND b < -2.5 OR c IN ('x', 'y')",
        "NOT (a LIKE 'p%')",
        "at >= TIMESTAMP '2024-01-01'",
    ],
)
def test_plain_conditions_are_read(text: str) -> None:
    assert from_simple(text) == from_sql(text)


@pytest.mark.parametrize("text", ["length(a) = 1", "a = 1L", "a = 1e5", "a =", "", "isnotnull(a)", "a = X'00'"])
def test_others_are_left(text: str) -> None:
    assert from_simple(text) is None
    assert parts(text) is None


def test_the_parts_of_a_plain_condition_are_all_of_it() -> None:
    found, complete = necessary("(a = 1 AND b = 2) AND c BETWEEN 1 AND 2")
    assert (len(found), complete) == (3, True)


def test_a_plain_predicate_needs_no_other_parser() -> None:
    text = "import sys, deltaplane.expr as e; e.parse(\"day = '2024-01-01'\"); sys.exit('sqlglot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
