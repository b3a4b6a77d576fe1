"""Objects as HTML for notebooks, which show what `_repr_html_` returns. Reads nothing: a notebook
calls it for the last value of a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

__all__ = ["TextInNotebooks", "facts_html", "preformatted", "table_html"]


def table_html(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table; the cells are escaped.

    >>> table_html(["column"], [["<x>"]])
    '<table><thead><tr><th>column</th></tr></thead><tbody><tr><td>&lt;x&gt;</td></tr></tbody></table>'
    """
    shown = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{shown}</tr></thead><tbody>{body}</tbody></table>"


def facts_html(facts: Mapping[str, object]) -> str:
    """Names and values, a row each."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def preformatted(text: str) -> str:
    """A text whose lines and spaces are kept.

    >>> preformatted("a < b")
    '<pre>a &lt; b</pre>'
    """
    return f"<pre>{escape(text)}</pre>"


class TextInNotebooks:
    """A result that a notebook shows as its text."""

    def _repr_html_(self) -> str:
        return preformatted(str(self))
