"""Conditions have the meaning that an independent SQL parser finds, and unsupported constructs are
refused by name."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import necessary, parse
from deltaplane.expr.condition_tree import condition_tree, understood

_NAMES = st.sampled_from(["a", "B", "`odd name`", "s.x", "day", "`t`.`ü``q`", "date", "Value"])
_NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(-1000, 1000, places=3).map(lambda d: f"{d:f}"),
)
_TEXTS = st.sampled_from(["'x'", "''", '"q"', "'100%'", "'é😀'", "'-- no'"])
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


def from_sqlglot(node: exp.Expression) -> Any:
    """The tree of a condition parsed by sqlglot, for the constructs that are generated here."""
    compared = {
        exp.EQ: "=",
        exp.NEQ: "!=",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
        exp.NullSafeEQ: "<=>",
    }
    signs = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
    types = {"DATE": "date", "TIMESTAMP": "timestamp", "TIMESTAMPTZ": "timestamp", "TIMESTAMPNTZ": "timestamp_ntz"}
    read = from_sqlglot
    match node:
        case exp.Paren():
            return read(node.this)
        case exp.And() | exp.Or():
            kind, args, first = type(node), list[Any](), node
            while type(first) is kind:
                args.insert(0, read(first.expression))
                first = first.this
            return {"op": "and" if kind is exp.And else "or", "args": [read(first), *args]}
        case exp.Not():
            return {"op": "not", "arg": read(node.this)}
        case exp.NullSafeNEQ():
            inner = {"op": "compare", "cmp": "<=>", "left": read(node.this), "right": read(node.expression)}
            return {"op": "not", "arg": inner}
        case exp.Column() | exp.Dot():
            return {"op": "column", "name": [part.name for part in node.parts]}
        case exp.Literal() if node.is_string:
            return {"op": "literal", "value": node.this, "type": "string"}
        case exp.Literal():
            return number(node.this)
        case exp.Neg():
            return number("-" + node.this.this)
        case exp.Null():
            return {"op": "literal", "value": None, "type": "void"}
        case exp.Boolean():
            return {"op": "literal", "value": str(node.this).lower(), "type": "boolean"}
        case exp.Is() if isinstance(node.expression, exp.Null):
            return {"op": "is_null", "arg": read(node.this)}
        case exp.Is():
            return {"op": "compare", "cmp": "<=>", "left": read(node.this), "right": read(node.expression)}
        case exp.Between():
            low = {"op": "compare", "cmp": ">=", "left": read(node.this), "right": read(node.args["low"])}
            high = {"op": "compare", "cmp": "<=", "left": read(node.this), "right": read(node.args["high"])}
            return {"op": "and", "args": [low, high]}
        case exp.In():
            return {"op": "in", "arg": read(node.this), "list": [read(value) for value in node.expressions]}
        case exp.Escape():
            tree, escape = read(node.this), node.expression.this
            if tree["op"] == "not":
                return {**tree, "arg": {**tree["arg"], "escape": escape}}
            return {**tree, "escape": escape}
        case exp.Like():
            pattern = node.expression.this
            tree = {"op": "like", "arg": read(node.this), "pattern": pattern, "escape": "\\"}
            return {"op": "not", "arg": tree} if node.args.get("negate") else tree
        case exp.Cast():
            return {"op": "cast", "arg": read(node.this), "type": types[node.args["to"].this.name]}
    if type(node) in compared:
        left, right = read(node.this), read(node.expression)
        return {"op": "compare", "cmp": compared[type(node)], "left": left, "right": right}
    return {"op": "arithmetic", "sign": signs[type(node)], "left": read(node.this), "right": read(node.expression)}


def number(text: str) -> dict[str, Any]:
    digits, _, fraction = text.lstrip("-").partition(".")
    if fraction:
        kind = f"decimal({max(len(digits.lstrip('0') + fraction), 1)},{len(fraction)})"
    elif -(2**31) <= int(text) < 2**31:
        kind = "integer"
    else:
        kind = "long" if -(2**63) <= int(text) < 2**63 else f"decimal({len(digits)},0)"
    return {"op": "literal", "value": text, "type": kind}


@settings(max_examples=400, deadline=None)
@given(_CONDITIONS)
def test_conditions_are_read_as_sqlglot_reads_them(text: str) -> None:
    assert condition_tree(text) == from_sqlglot(sqlglot.parse_one(text, dialect="spark"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"'a\n\'b'", "a\n'b"),
        ("'a' 'b'", "ab"),
        (r"r'\d'", r"\d"),
        ("'\ue0011'", "\ue0011"),
    ],
)
def test_texts_have_sparks_escapes(text: str, value: str) -> None:
    assert condition_tree(f"a = {text}")["right"] == {"op": "literal", "value": value, "type": "string"}


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1L", "1", "long"),
        ("1Y", "1", "byte"),
        ("1S", "1", "short"),
        ("1.5F", "1.5", "float"),
        ("1.5D", "1.5", "double"),
        ("1e5", "1e5", "double"),
        ("1BD", "1", "decimal(1,0)"),
        (".5", "0.5", "decimal(1,1)"),
        ("X'0aF'", "00af", "binary"),
        ("- 5", "-5", "integer"),
        ("-(5)", "-5", "integer"),
        ("-(-5)", "5", "integer"),
        ("-(2147483648)", "-2147483648", "integer"),
        ("-1.5D", "-1.5", "double"),
    ],
)
def test_numbers_have_the_types_of_their_suffixes(text: str, value: str, kind: str) -> None:
    assert condition_tree(f"a = {text}")["right"] == {"op": "literal", "value": value, "type": kind}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("cast(a AS bigint)", "long"),
        ("try_cast(a AS int)", "integer"),
        ("cast(a AS decimal(5))", "decimal(5,0)"),
        ("cast(a AS timestamp_ltz)", "timestamp"),
        ("a::date", "date"),
        ("smallint(a)", "short"),
        ("date(a)", "date"),
    ],
)
def test_conversions_are_casts(text: str, kind: str) -> None:
    expected = {"op": "cast", "arg": {"op": "column", "name": ["a"]}, "type": kind}
    assert condition_tree(f"{text} = b")["left"] == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("length(a) = 1", "the function `length`"),
        ("a % 2 = 0", "the operator `%`"),
        ("a ILIKE 'x'", "the operator `ilike`"),
        ("a LIKE b", "LIKE with a pattern that isn't a constant"),
        ("a IN (SELECT 1)", "a subquery"),
        ("EXISTS (SELECT 1)", "a subquery"),
        ("(a, b) = (1, 2)", "a row constructor"),
        ("a = interval '1' day", "an interval"),
        ("-a = 1", "`-` before a value that isn't a number"),
        ("cast(a AS varchar(5)) = 'x'", "the type varchar(5)"),
        ("cast(a AS void) = 1", "casts to void"),
        ("named_struct('q', x).q = 1", "the operator `.`"),
        ("a ILIKE ANY ('x')", "the operator `ilike`"),
    ],
)
def test_constructs_that_the_core_lacks_are_refused_by_name(text: str, what: str) -> None:
    with pytest.raises(UnsupportedExpressionError) as refused:
        condition_tree(text)
    assert what in str(refused.value)
    assert understood(text) == ([], False)
    # An unsupported part doesn't affect the others.
    conjuncts, complete = understood(f"c BETWEEN 1 AND 2 AND {text} AND d = 3")
    assert ([tree["op"] for tree in conjuncts], complete) == (["and", "compare"], False)
    assert understood(f"c = 1 OR {text}") == ([], False)


@pytest.mark.parametrize("text", ["a =", "", "a IN ()", "a = 1; b = 2", "a BETWEEN 1", "a LIKE 'x' ESCAPE 'ab'", "a b"])
def test_wrong_conditions_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="the predicate"):
        parse(text)
    with pytest.raises(InvalidArgumentError, match="the predicate"):
        necessary(text)


def test_the_parts_of_a_condition_are_all_of_it() -> None:
    conjuncts, complete = necessary("(a = 1 AND b = 2) AND c BETWEEN 1 AND 2")
    assert [tree.to_dict()["op"] for tree in conjuncts] == ["compare", "compare", "and"]
    assert complete


def test_a_predicate_needs_no_other_library() -> None:
    modules = "pyarrow", "duckdb", "sqlglot", "pyspark"
    text = f"import sys, deltaplane.expr as e; e.parse(\"day = '2024-01-01'\"); sys.exit(any(m in sys.modules for m in {modules}))"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0
