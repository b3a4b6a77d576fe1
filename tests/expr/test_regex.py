"""Regular expressions that Java and RE2 don't share are refused by name; the others are compared in
`test_parity.py`."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltaplane
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.functions.regex import Pattern, translated


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        (r"\bword", r"`\\b`"),
        (r"\p{L}", r"`\\p`"),
        (r"(a)\1", r"`\\1`"),
        ("(?i)a", r"`\(\?i`"),
        ("a(?=b)", r"`\(\?=`"),
        ("a++", "behind a quantifier"),
        ("a{2}{3}", "behind a quantifier"),
        ("[a&&b]", "in brackets"),
        ("[a[b]]", "in brackets"),
        (r"[\d-z]", "odd range"),
        ("[z-a]", "odd range"),
        ("a$b", "before the end"),
        ("(a$)", "before the end"),
        ("a{", "no regular expression"),
        ("a}", "bare"),
        ("(a{100}){100}", "repetitions"),
        ("a\0", "zero byte"),
    ],
)
def test_what_is_not_shared_is_named(pattern: str, named: str) -> None:
    # P104
    with pytest.raises((UnsupportedExpressionError, InvalidArgumentError), match=named):
        translated(pattern)


@pytest.mark.parametrize("pattern", ["(a", "a)", "*a", "[a", "a{3,2}", "\\"])
def test_what_java_refuses_too(pattern: str) -> None:
    with pytest.raises(InvalidArgumentError, match="no regular expression"):
        translated(pattern)


def test_what_is_written_otherwise() -> None:
    assert translated(r"\s[\s]$") == Pattern(r"[\t\n\x0B\f\r ][\t\n\x0B\f\r ]\z", True, empty=False)
    assert translated("a.b") == Pattern(r"a[^\n\r\x{85}\x{2028}\x{2029}]b", False, empty=False)
    assert translated(r"[^a-c\-^]") == Pattern(r"[^a-c\-\^]", False, empty=False)


def test_what_captures_keeps_its_groups_and_its_greed() -> None:
    assert translated("(a+?)(?:b|(c))", captures=True) == Pattern("(a+?)(?:b|(c))", False, 2, empty=False)
    assert translated("(a+?)(b)") == Pattern("(?:a+)(?:b)", False, empty=False)
    for pattern in ("a*", "a?", "a{0,2}", "^", "$", "a|", "(b*)", ""):
        assert translated(pattern, captures=True).empty, pattern
    for pattern in ("(a*)*", "(?:a|b?)+", "(^a*){2}"):
        with pytest.raises(UnsupportedExpressionError, match="may be nothing"):
            translated(pattern, captures=True)


# Parts of a pattern with the texts that they match, and texts.
_PARTS = {"%": ".*", "_": ".", "a": "a", "ab": "ab", "é": "é", "\\%": "%", "\\_": "_", "\n": "\n"}
_TEXTS = st.lists(st.text("abé%_\n\\", max_size=6), min_size=1, max_size=8)


@given(st.lists(st.sampled_from(list(_PARTS)), max_size=6), _TEXTS)
def test_like_with_and_without_an_escape(parts: list[str], texts: list[str]) -> None:
    """DuckDB has several ways to search for a pattern, by its parts."""
    rows = pa.table({"x": texts})
    # A literal's backslash is written twice.
    pattern = "".join(parts).replace("\\", "\\\\")
    matches = deltaplane.sql(f"SELECT x LIKE '{pattern}' AS y FROM t", tables={"t": rows}).to_pydict()["y"]
    regex = re.compile("".join(_PARTS[part] for part in parts), re.DOTALL)
    assert matches == [regex.fullmatch(text) is not None for text in texts]
