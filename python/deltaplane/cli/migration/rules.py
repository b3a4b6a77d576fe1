"""What means something else in deltaplane's own API than in deltalake, as data: the checker of
scripts and the page of the documentation use the same rules."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FUNCTIONS", "RULES", "Function", "Rule"]


@dataclass(frozen=True)
class Rule:
    """One difference: what deltalake does, what deltaplane does, and what to write. `sql` tells
    that it concerns SQL texts."""

    name: str
    theirs: str
    ours: str
    write: str
    sql: bool = False


_RULES = (
    Rule(
        "double-quotes",
        '`"x"` is a column',
        "a string, as in Spark SQL; refused where it may be meant as a column",
        "`` `x` ``",
        sql=True,
    ),
    Rule(
        "backslash",
        "a backslash in a text is a backslash",
        "begins an escape, as in Spark SQL",
        r"`'a\\b'`",
        sql=True,
    ),
    Rule(
        "typed-literal",
        "`int '10'` is a cast",
        "refused",
        "`CAST('10' AS INT)`",
        sql=True,
    ),
    Rule(
        "type-name",
        "`varchar` without a length, `text`, `utf8`, `int8`, `float8` are types",
        "refused, or another type",
        "`STRING`, `BIGINT`, `DOUBLE`",
        sql=True,
    ),
    Rule("regex-operator", "`x ~ 'p'` matches a pattern", "refused", "`x RLIKE 'p'`", sql=True),
    Rule("list-literal", "`[1, 2]` is an array", "refused", "`array(1, 2)`", sql=True),
    Rule(
        "division",
        "integers are divided to an integer",
        "`/` gives a fraction",
        "`x DIV y` for an integer",
        sql=True,
    ),
    Rule(
        "null-order",
        "`ORDER BY x` puts nulls last, `ORDER BY x DESC` first",
        "the other way round",
        "`ORDER BY x NULLS LAST`",
        sql=True,
    ),
    Rule(
        "column-name",
        "`SELECT count(*)` gives a column `count(*)`",
        "a column `count(1)`, Spark's name for it",
        "`count(*) AS n`",
        sql=True,
    ),
    Rule(
        "function",
        "a function of DataFusion",
        "refused, or Spark's function of that name with another result",
        "the function in the table below",
        sql=True,
    ),
    Rule(
        "import",
        "modules of deltalake's package",
        "the module or the name doesn't exist",
        "the names of `deltaplane`, or `deltaplane.deltalake`",
    ),
    Rule(
        "method",
        "`create_write_transaction`, `table_config`",
        "not part of the API",
        "`write_deltalake`; `deltaplane.deltalake` for files that were written already",
    ),
    Rule(
        "argument",
        "arguments of deltalake",
        "TypeError",
        "the arguments in the method's docstring",
    ),
    Rule(
        "positional-argument",
        "commit arguments may be passed by position",
        "TypeError: they are keywords",
        "`commit_properties=…`",
    ),
    Rule(
        "repeated-transaction",
        "a version of an application may be committed again",
        "the write is skipped, so that a retry writes once; `WriteResult.skipped` gives the reason",
        "a greater version for each write",
    ),
    Rule(
        "transaction-time",
        "`Transaction(…, last_updated)` is stored",
        "InvalidArgumentError: the commit sets it",
        "leave it out",
    ),
    Rule(
        "writer-setting",
        "sizes of pages, dictionaries, statistics of columns, BROTLI",
        "UnsupportedFeatureError, or InvalidArgumentError for BROTLI",
        "leave it out; ZSTD is the default",
    ),
    Rule(
        "session-config",
        "`QueryBuilder(session_config)` sets DataFusion",
        "UnsupportedFeatureError",
        "leave it out",
    ),
    Rule(
        "arrow-objects",
        "results are objects of arro3",
        "objects of pyarrow, or a `Scan`, which any Arrow library accepts",
        "pyarrow's methods; `read_all()` works on both",
    ),
    Rule(
        "history",
        "delta-rs's names of parameters, and numbers",
        "delta-spark's names, and texts as in the log",
        "`int(entry['operationMetrics'][…])`",
    ),
    Rule(
        "merge-deletes",
        "several source rows for one row are an error if the delete has a condition",
        "the row is deleted once",
        "one source row for each key",
    ),
    Rule(
        "repair",
        "looks for missing files of the version that is open",
        "first moves to the newest version",
        "`repair(dry_run=True)` lists the files",
    ),
    Rule(
        "location",
        "`%20` is decoded, and what follows `#` or `?` is dropped",
        "the path is the key; only `file:` URIs are decoded",
        "the characters themselves",
    ),
)
RULES = {rule.name: rule for rule in _RULES}


@dataclass(frozen=True)
class Function:
    """A function of DataFusion: what to write instead, and an `example` over the text `k`, the
    number `i` and the list `l` with another result. `refused`: deltaplane refuses the function
    instead of giving another result. `only`: a pattern of the arguments that are concerned."""

    write: str
    example: str
    refused: bool = True
    only: str = ""


FUNCTIONS = {
    "array_extract": Function("`element_at(a, n)`", "array_extract(l, 1)"),
    "array_has": Function("`array_contains(a, x)`", "array_has(l, 1)"),
    "array_length": Function("`size(a)`", "array_length(l)"),
    "array_position": Function(
        "`nullif(array_position(a, x), 0)`: 0, not null, is the position of a missing element",
        "array_position(l, 9)",
        refused=False,
    ),
    "array_slice": Function("`slice(a, start, length)`", "array_slice(l, 1, 1)"),
    "array_to_string": Function("`array_join(a, ',')`", "array_to_string(l, ',')"),
    "arrow_cast": Function("`CAST(x AS type)`", "arrow_cast(i, 'Int32')"),
    "arrow_typeof": Function("`DeltaTable.schema()`", "arrow_typeof(i)"),
    "concat": Function("`concat_ws('', …)`, which skips nulls", "concat('a', NULL)", refused=False),
    "date_bin": Function("`date_trunc(unit, t)`", "date_bin(INTERVAL '1 day', to_timestamp(i))"),
    "date_part": Function(
        "`dayofweek(d) - 1`: Spark's days begin with 1",
        "date_part('dow', DATE '2024-01-01')",
        refused=False,
        only="(?i)'dow'",
    ),
    "ends_with": Function("`endswith(x, y)`", "ends_with(k, 'z')"),
    "initcap": Function("words end at spaces only", "initcap('ab-cd')", refused=False),
    "left": Function("`left(x, length(x) - n)`", "left(k, -1)", refused=False, only="-"),
    "list_contains": Function("`array_contains(a, x)`", "list_contains(l, 1)"),
    "ln": Function("null, not NaN, for numbers without a logarithm", "ln(-1.0)", refused=False),
    "log": Function("`log10(x)`", "log(100.0)", refused=False, only=r"^\([^,]*\)$"),
    "log10": Function("null, not NaN, for numbers without a logarithm", "log10(-1.0)", refused=False),
    "log2": Function("null, not NaN, for numbers without a logarithm", "log2(-1.0)", refused=False),
    "make_array": Function("`array(…)`", "make_array(1, 2)"),
    "regexp_match": Function("`regexp_extract(x, pattern, 0)`", "regexp_match(k, 'z')"),
    "regexp_replace": Function(
        "all matches are replaced, as with the flag 'g'", "regexp_replace('aaa', 'a', 'b')", refused=False
    ),
    "sha256": Function("`sha2(x, 256)`, a text", "sha256(k)"),
    "starts_with": Function("`startswith(x, y)`", "starts_with(k, 'z')"),
    "strpos": Function("`instr(x, y)`", "strpos(k, 'y')"),
    "substr": Function("a negative start counts from the end", "substr('abc', -1)", refused=False, only="-"),
    "to_char": Function("`date_format(t, 'yyyy')`", "to_char(DATE '2024-01-01', '%Y')"),
    "to_hex": Function("`lower(hex(x))`", "to_hex(255)"),
    "to_timestamp_micros": Function("`timestamp_micros(x)`", "to_timestamp_micros(i)"),
    "to_timestamp_millis": Function("`timestamp_millis(x)`", "to_timestamp_millis(i)"),
    "to_timestamp_seconds": Function("`timestamp_seconds(x)`", "to_timestamp_seconds(i)"),
}
