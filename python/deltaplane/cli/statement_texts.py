"""Names within statements that the command line writes."""

from __future__ import annotations

__all__ = ["name", "table"]


def name(value: str) -> str:
    """A column's name, or one of a nested column by its dots.

    >>> name("a.b c")
    '`a`.`b c`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in value.split("."))


def table(location: str) -> str:
    """The table at a location.

    >>> table("/data/a`b")
    'delta.`/data/a``b`'
    """
    return f"delta.`{location.replace('`', '``')}`"
