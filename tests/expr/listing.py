"""Generates the page of admitted expressions: `python tests/expr/listing.py > docs/expressions.md`.

A test compares the page with the registry.
"""

from __future__ import annotations

import textwrap

import deltaplane.expr.functions  # noqa: F401 - fills the list
from deltaplane.expr.casts import CASTS
from deltaplane.expr.registry import ENTRIES

_HEAD = """# Expressions

Constraints, invariants, generated columns and default values are Spark SQL. On Spark, Spark
evaluates them. Without it DuckDB does (`pip install 'deltaplane[local]'`), for the functions of
this list: each one returns what Spark 4 returns in ANSI mode for every row, errors included, which
`tests/expr/test_parity.py` compares. Anything else is refused by name before a row is written.

- The session's time zone is UTC by default. Fixed offsets are supported; zones with rules only
  where no clock is read.
- A row with a year outside of 1 to 9999, a decimal in exponent notation or a hexadecimal
  floating-point number is refused. So are texts of timestamps that name a zone with rules or have
  no date, and decimals of more than 18 digits that become a whole number where a double rounds them
  up.
- `to_date` and `to_timestamp` read patterns of `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss`, each once,
  with separators between them.
- The text of a float or double, and a decimal of one, have the digits that Java writes. Java 17 and
  Java 19 or newer, both of which Spark supports, write some numbers differently: mostly whole ones
  above 2^53 (of a float above 2^24), small and large powers of two, and the smallest subnormal
  ones. A row with such a number is refused.
- Regular expressions are constants, in the syntax that Java and RE2 share. `regexp_replace` refuses
  patterns that match an empty text, and a row whose text ends with a line break is refused where
  the pattern of `regexp_extract` or `regexp_replace` contains `$`. Formats of `format_string` are
  constants of `%s`, `%d`, `%x`, `%n` and `%%`. `to_json` takes no options; `initcap` and `ilike`'s
  pattern are limited to ASCII.
- Generated columns cannot have lambda functions, intervals and some other functions, as in
  delta-spark. Constraints can; a column in a lambda function is refused there, since delta-spark
  fails with it at every write.
- A condition of `exists` or `forall` that fails for an element is an error, even after the element
  that decides the result.
- Intervals are literals, differences of dates and times, or made of columns (`make_ym_interval`,
  `make_dt_interval`), and are added to dates and times. One that mixes months with days
  (`make_interval`) has no type here, and no result is an interval.

Aggregate functions of queries whose answer in Spark depends on the order of the rows, or is an
approximation, have one of Spark's answers, and always the same one:

- `max_by` and `min_by` with several rows of the extreme key: the greatest of their values for
  `max_by`, the least for `min_by`; null only if all of them are null.
- `mode` with several most frequent values: the least one, which is Spark's `mode(x, true)`.
- `approx_count_distinct` is the exact number of different values. Spark's is that of a sketch,
  within the given relative deviation for most groups.
- `approx_percentile` is the exact element, as Spark's is for groups of some thousand rows.
- Sums, averages, variances and regressions of floating-point numbers differ in their last digits.
"""


def page() -> str:
    """The page's text."""
    families: dict[str, list[str]] = {}
    for entry in ENTRIES.values():
        families.setdefault(entry.family, []).append(entry.name)
    lines = [_HEAD, f"## {len(ENTRIES)} functions and operators", ""]
    for family, names in sorted(families.items()):
        names_of_family = ", ".join(f"`{n}`" for n in sorted(names))
        lines += textwrap.wrap(
            f"- **{family}**: {names_of_family}",
            100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    targets: dict[str, list[str]] = {}
    for source, target in CASTS:
        targets.setdefault(source, []).append(target)
    lines += ["", f"## {len(CASTS)} casts", "", "| from | to |", "| --- | --- |"]
    lines += [f"| {source} | {', '.join(sorted(to))} |" for source, to in sorted(targets.items())]
    return "\n".join(lines).replace("`|`", "`\\|`").replace("`||`", "`\\|\\|`") + "\n"


if __name__ == "__main__":
    print(page(), end="")
