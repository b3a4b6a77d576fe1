"""Whether the core understands a tree: asked of the rows that it would prune, never decided here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError

if TYPE_CHECKING:
    from deltaplane import _native
    from deltaplane.expr.tree import Node

__all__ = ["Bind", "understands"]

# Binds a tree, as JSON, to the columns of rows, and raises where the core doesn't take it.
Bind = Callable[[str], object]


def understands(rows: _native.Snapshot | Bind, tree: Node | str, *, checked_elsewhere: bool = False) -> bool:
    """Whether the core prunes and filters these rows by a tree. Binds the tree; reads no file.

    Args:
        rows: a version of a table, or what binds a tree to the columns of other rows.
        tree: the tree, or its JSON.
        checked_elsewhere: whether another engine checks the expression that the tree is part of, so that a tree with an
            unknown column or a wrong value is only one that the core doesn't understand.

    Raises:
        InvalidArgumentError: an unknown column, or a value that isn't one of its column's type; unless the expression
            is checked elsewhere.
    """
    text = tree if isinstance(tree, str) else json.dumps(tree)
    try:
        if callable(rows):
            rows(text)
        else:
            rows.scan([], text)
    except UnsupportedExpressionError:
        return False
    except InvalidArgumentError:
        if checked_elsewhere:
            return False
        raise
    return True
