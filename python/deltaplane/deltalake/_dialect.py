"""deltalake's SQL, which is DataFusion's, as Spark SQL: names in double quotes, texts without
escapes, typed literals, lists in brackets, other names of types.

Changes tokens only; deltaplane parses and binds the result. DataFusion divides integers to an
integer, and Spark doesn't: a quotient keeps `/` if a factor has a fraction, becomes DIV if all are
integers, and is refused if the tokens don't tell which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from deltaplane.exceptions import DeltaError, UnsupportedExpressionError

if TYPE_CHECKING:
    from deltaplane.queries.syntax import Item

__all__ = [
    "CASTS",
    "LITERALS",
    "TYPES",
    "Token",
    "Unnamed",
    "clause_words",
    "deltalake_sql",
    "near",
    "spark_query",
    "spark_sql",
    "tokens_of",
    "unnamed_columns",
]

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*|/\*.*?\*/)
    | (?P<text>'(?:[^']|'')*')
    | (?P<name>"(?:[^"]|"")*"|`(?:[^`]|``)*`)
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<word>[^\W\d]\w*)
    | (?P<sign><=>|<>|!=|<=|>=|==|::|\|\||.)
    """,
    re.VERBOSE | re.DOTALL,
)
# DataFusion's names of types → Spark's.
TYPES = {
    "varchar": "STRING",
    "char": "STRING",
    "text": "STRING",
    "utf8": "STRING",
    "bytea": "BINARY",
    "int2": "SMALLINT",
    "int4": "INT",
    "int8": "BIGINT",
    "integer": "INT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "real": "FLOAT",
    "bool": "BOOLEAN",
}
# Words before a text that Spark has as typed literals itself.
LITERALS = {"date", "timestamp", "timestamp_ntz", "interval", "x"}
CASTS = {"int", "bigint", "smallint", "tinyint", "float", "double", "decimal", "boolean", "string", *TYPES}
_COMPARISONS = {"=", "==", "!=", "<>", "<", ">", "<=", ">=", "<=>"}
_CLAUSES = {"where", "order", "limit", "group", "having", "by", "asc", "desc", "and", "or", "not", "in", "like", "is"}
# Aggregate functions that DataFusion names as Spark does, with the column's table.
_AGGREGATES = {"avg", "count", "max", "min", "sum"}
# Types whose quotients DataFusion cuts to an integer, and types whose quotients have a fraction.
_INTEGERS = {"byte", "short", "long", "int", "integer", "bigint", "smallint", "tinyint", "int2", "int4", "int8"}
_FRACTIONS = {"float", "double", "real", "float4", "float8", "decimal", "numeric"}


# Functions whose Spark namesakes have other results: other logarithms, null for numbers without
# one, other types and other names of fields.
_OTHERS = {"ln", "log", "log10", "log2", "pow", "power", "struct"}


class Token(NamedTuple):
    """A part of a text: `kind` is space, text, name, number, word or sign."""

    kind: str
    text: str


def tokens_of(sql: str) -> list[Token]:
    """The tokens of a text in deltalake's dialect; together they are the text."""
    return [Token(m.lastgroup or "sign", m.group()) for m in _TOKEN.finditer(sql)]


def clause_words() -> set[str]:
    """Words that no value ends with, in small letters."""
    return _CLAUSES


def spark_sql(sql: str, types: Mapping[str, str] | None = None) -> str:
    """An expression or statement in Spark SQL.

    Args:
        sql: in deltalake's dialect.
        types: column → primitive type's name. Numbers that are compared with texts become texts, as
            DataFusion compares them, and integers are divided to an integer.

    Raises:
        UnsupportedExpressionError: a division of factors whose types aren't known; a function that
            has another result in Spark.

    >>> spark_sql('"a b" = \\'it\\'\\'s\\' AND x > int\\'10\\'')
    "`a b` = 'it\\\\'s' AND x > CAST('10' AS INT)"
    >>> spark_sql("p = 1 AND n = 1", {"p": "string", "n": "long"})
    "p = '1' AND n = 1"
    """
    tokens = tokens_of(sql)
    _check_functions(tokens)
    tokens = _with_quotients(tokens, types or {})
    tokens = _with_texts(_with_lists(_with_types(tokens)), types or {})
    return "".join(_shown(token) for token in tokens)


def _shown(token: Token) -> str:
    if token.kind == "text":
        inner = token.text[1:-1].replace("''", "'").replace("\\", "\\\\").replace("'", "\\'")
        return f"'{inner}'"
    if token.kind == "name" and token.text[0] == '"':
        return f"`{token.text[1:-1].replace(chr(34) * 2, chr(34)).replace('`', '``')}`"
    return token.text


def near(tokens: Sequence[Token], index: int, step: int) -> int:
    """The index of the next token in a direction that isn't space; -1 if there is none."""
    index += step
    while 0 <= index < len(tokens):
        if tokens[index].kind != "space":
            return index
        index += step
    return -1


def _check_functions(tokens: Sequence[Token]) -> None:
    for index, token in enumerate(tokens):
        after = near(tokens, index, 1)
        if token.kind == "word" and token.text.lower() in _OTHERS and after >= 0 and tokens[after].text == "(":
            raise UnsupportedExpressionError(
                f"the function `{token.text}` has another result in Spark SQL, which runs the query: use deltaplane.sql for "
                "Spark's"
            )


def _with_types(tokens: list[Token]) -> list[Token]:
    """Typed literals as casts, and names of types as Spark's."""
    result: list[Token] = []
    skipped = -1
    for index, token in enumerate(tokens):
        if index <= skipped:
            continue
        word = token.text.lower()
        after, before = near(tokens, index, 1), near(tokens, index, -1)
        if token.kind != "word":
            result.append(token)
        elif word in CASTS and after >= 0 and tokens[after].kind == "text" and word not in LITERALS:
            kind = TYPES.get(word, word.upper())
            result += [Token("sign", "CAST("), tokens[after], Token("sign", f" AS {kind})")]
            skipped = after
        elif before >= 0 and tokens[before].text.lower() in ("as", "::") and word in TYPES and _is_type(tokens, index):
            result.append(Token("word", TYPES[word]))
        else:
            result.append(token)
    return result


def _is_type(tokens: list[Token], index: int) -> bool:
    """Whether a word after AS or `::` is a type's name and not an alias: it ends a cast."""
    before, after = near(tokens, index, -1), near(tokens, index, 1)
    return tokens[before].text == "::" or (after >= 0 and tokens[after].text == ")")


def _with_lists(tokens: list[Token]) -> list[Token]:
    """`[1, 2]` as `array(1, 2)`; brackets after a value read an element and stay."""
    result: list[Token] = []
    open_lists: list[bool] = []
    for index, token in enumerate(tokens):
        if token.text == "[" and token.kind == "sign":
            before = near(tokens, index, -1)
            is_element = before >= 0 and (
                tokens[before].kind in ("name", "number", "text")
                or tokens[before].text in (")", "]")
                or (tokens[before].kind == "word" and tokens[before].text.lower() not in _CLAUSES)
            )
            open_lists.append(not is_element)
            result.append(token if is_element else Token("sign", "array("))
        elif token.text == "]" and token.kind == "sign" and open_lists and open_lists.pop():
            result.append(Token("sign", ")"))
        else:
            result.append(token)
    return result


def _with_texts(tokens: list[Token], types: Mapping[str, str]) -> list[Token]:
    """Numbers that are compared with a column of texts as texts."""
    texts = {name.lower() for name, kind in types.items() if kind == "string"}
    result = list(tokens)
    for index, token in enumerate(tokens):
        if token.kind != "number" or not texts:
            continue
        for step in (-1, 1):
            sign = near(tokens, index, step)
            other = near(tokens, sign, step) if sign >= 0 else -1
            if other < 0 or tokens[sign].text not in _COMPARISONS or tokens[other].kind not in ("word", "name"):
                continue
            if tokens[other].text.strip('"`').lower() in texts:
                result[index] = Token("text", f"'{token.text}'")
    return result


class _Factor(NamedTuple):
    """The type of a factor, as far as it is known, and the indexes of its first and last token."""

    kind: str | None
    first: int
    last: int


def _with_quotients(tokens: list[Token], types: Mapping[str, str]) -> list[Token]:
    """The tokens with Spark's operators of division.

    Args:
        tokens: in deltalake's dialect.
        types: column → primitive type's name.

    Raises:
        UnsupportedExpressionError: a division of factors whose types aren't known.
    """
    kinds = {name.lower(): _kind(data_type) for name, data_type in types.items()}
    result = list(tokens)
    for index, token in enumerate(tokens):
        if token.kind == "sign" and token.text == "/":
            factors = [*_left(tokens, index, kinds), _right(tokens, index, kinds)]
            if "fraction" in factors:
                continue
            if None in factors:
                raise UnsupportedExpressionError(
                    "the SQL divides values of types that it doesn't name: deltalake divides integers to an integer, "
                    "and Spark doesn't; write `CAST(x AS DOUBLE) / y` for a fraction, or `x DIV y` for an integer"
                )
            result[index] = Token("word", " DIV ")
    return result


def _kind(data_type: str) -> str | None:
    name = data_type.lower().partition("(")[0]
    return "integer" if name in _INTEGERS else "fraction" if name in _FRACTIONS else None


def _left(tokens: Sequence[Token], index: int, kinds: Mapping[str, str | None]) -> list[str | None]:
    """The kinds of the factors before an operator, back to the first one of the product."""
    factors = []
    while True:
        factor = _before(tokens, index, kinds)
        factors.append(factor.kind)
        index = near(tokens, factor.first, -1)
        if index < 0 or tokens[index].text not in ("*", "/", "%"):
            return factors


def _before(tokens: Sequence[Token], index: int, kinds: Mapping[str, str | None]) -> _Factor:
    last = near(tokens, index, -1)
    if last < 0:
        return _Factor(None, index, index)
    token, before = tokens[last], near(tokens, last, -1)
    if token.text == ")":
        opening = _partner(tokens, last, -1)
        function = near(tokens, opening, -1)
        if function >= 0 and tokens[function].text.lower() in ("cast", "try_cast"):
            return _Factor(_cast_kind(tokens, opening, last), function, last)
        return _Factor(None, function if function >= 0 and tokens[function].kind == "word" else opening, last)
    if before >= 0 and tokens[before].text == "::":
        return _Factor(_kind(token.text), _before(tokens, before, kinds).first, last)
    if before >= 0 and tokens[before].text == ".":
        return _Factor(_value_kind(token, kinds), max(near(tokens, before, -1), 0), last)
    return _Factor(_value_kind(token, kinds), last, last)


def _right(tokens: Sequence[Token], index: int, kinds: Mapping[str, str | None]) -> str | None:
    first = near(tokens, index, 1)
    while first >= 0 and tokens[first].text in ("-", "+"):
        first = near(tokens, first, 1)
    if first < 0:
        return None
    after = near(tokens, first, 1)
    if after >= 0 and tokens[after].text == "(":
        is_cast = tokens[first].text.lower() in ("cast", "try_cast")
        return _cast_kind(tokens, after, _partner(tokens, after, 1)) if is_cast else None
    while after >= 0 and tokens[after].text == ".":
        first = near(tokens, after, 1)
        after = near(tokens, first, 1) if first >= 0 else -1
    if after >= 0 and tokens[after].text == "::":
        named = near(tokens, after, 1)
        return _kind(tokens[named].text) if named >= 0 else None
    return _value_kind(tokens[first], kinds) if first >= 0 else None


def _value_kind(token: Token, kinds: Mapping[str, str | None]) -> str | None:
    if token.kind == "number":
        return "integer" if token.text.isdigit() else "fraction"
    if token.kind in ("word", "name"):
        return kinds.get(token.text.strip('"`').lower())
    return None


def _cast_kind(tokens: Sequence[Token], opening: int, closing: int) -> str | None:
    """The kind of the type at the end of a cast's brackets."""
    if opening < 0 or closing < 0:
        return None
    depth = 0
    for index in range(opening + 1, closing):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0 and tokens[index].text.lower() == "as":
            named = near(tokens, index, 1)
            return _kind(tokens[named].text)
    return None


def _partner(tokens: Sequence[Token], index: int, step: int) -> int:
    """The index of the bracket that belongs to this one; -1 if there is none."""
    depth = 0
    while 0 <= index < len(tokens):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0) if tokens[index].kind == "sign" else 0
        if depth == 0:
            return index
        index += step
    return -1


def spark_query(sql: str, types: Mapping[str, str] | None = None) -> str:
    """A query in Spark SQL: also orders nulls as DataFusion does, last if the order is ascending
    and first if it is descending. `types` as in `spark_sql`.

    >>> spark_query('SELECT "a" FROM t ORDER BY a, b DESC LIMIT 1')
    'SELECT `a` FROM t ORDER BY a NULLS LAST, b DESC NULLS FIRST LIMIT 1'
    """
    tokens = tokens_of(spark_sql(sql, types))
    result: list[Token] = []
    depth = 0
    orders: list[int] = []
    descending = named = False

    def end() -> None:
        if not named:
            spaces = []
            while result and result[-1].kind == "space":
                spaces.append(result.pop())
            result.append(Token("word", " NULLS FIRST" if descending else " NULLS LAST"))
            result.extend(reversed(spaces))

    for index, token in enumerate(tokens):
        word = token.text.lower() if token.kind == "word" else token.text
        in_order = bool(orders) and orders[-1] == depth
        if in_order and (word in (",", ")", ";") or word in ("limit", "offset", "union", "rows", "range")):
            end()
            descending = named = False
            if word != ",":
                orders.pop()
        elif in_order and word == "desc":
            descending = True
        elif in_order and word == "nulls":
            named = True
        if word == "(":
            depth += 1
        elif word == ")":
            depth -= 1
        result.append(token)
        before = near(tokens, index, -1)
        if word == "by" and before >= 0 and tokens[before].text.lower() == "order":
            orders.append(depth)
    if orders and orders[-1] == depth:
        end()
    return "".join(token.text for token in result)


class Unnamed(NamedTuple):
    """An unnamed column of a query: where its text begins and ends, and DataFusion's name of it, as
    far as that is known; otherwise its text."""

    start: int
    end: int
    name: str


def unnamed_columns(sql: str) -> list[Unnamed]:
    """The unnamed columns of a query's result, in a query in Spark SQL; none for a text that isn't
    a query of deltaplane.

    >>> [column.name for column in unnamed_columns("SELECT a, COUNT(*), max(b), b + 1 FROM t")]
    ['count(*)', 'max(t.b)', 'b + 1']
    """
    from deltaplane.expr.syntax import Call, Name
    from deltaplane.queries.functions.generators import GENERATORS
    from deltaplane.queries.grammar import Grammar
    from deltaplane.queries.syntax import Item, Query, Select, SetOperation, TableName

    try:
        grammar = Grammar(sql)
        body = grammar.query().body
    except DeltaError:
        return []
    while isinstance(body, (Query, SetOperation)):
        body = body.body if isinstance(body, Query) else body.left
    if not isinstance(body, Select):
        return []
    table = body.source.qualifiers[-1] if isinstance(body.source, TableName) else None
    columns = []
    for item in body.items:
        if not isinstance(item, Item) or item.alias is not None or isinstance(item.value, Name):
            continue
        # A generator gives its columns their names.
        if not (isinstance(item.value, Call) and item.value.name in GENERATORS):
            start = grammar.tokens[item.token].start
            columns.append(Unnamed(start, start + len(item.text), _aggregate_name(item, table) or item.text))
    return columns


def _aggregate_name(item: Item, table: str | None) -> str | None:
    """DataFusion's name of an aggregate function of one column or of all rows; None for any other
    value."""
    from deltaplane.expr.syntax import Name
    from deltaplane.queries.syntax import Aggregate

    call = item.value
    if not isinstance(call, Aggregate) or call.name not in _AGGREGATES or call.where is not None:
        return None
    (arg,) = call.args if len(call.args) == 1 else (None,)
    if "*" in item.text and not isinstance(arg, Name):
        return "count(*)" if item.text.replace(" ", "").lower() == "count(*)" else None
    if not isinstance(arg, Name) or (len(arg.parts) == 1 and table is None):
        return None
    parts = arg.parts if len(arg.parts) > 1 else (str(table), *arg.parts)
    return f"{call.name}({'DISTINCT ' if call.distinct else ''}{'.'.join(parts)})"


def deltalake_sql(sql: str) -> str:
    """An expression in Spark SQL as deltalake shows it: names in double quotes instead of
    backticks.

    >>> deltalake_sql("`high price` >= 0")
    '"high price" >= 0'
    """
    shown = []
    for match in _TOKEN.finditer(sql):
        text = match.group()
        if match.lastgroup == "name" and text[0] == "`":
            text = f'"{text[1:-1].replace("``", "`")}"'
        shown.append(text)
    return "".join(shown)
