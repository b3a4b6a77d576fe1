"""`deltaplane forget-history`: deletes every older version from the log.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location, StoreOptions, Yes, confirm, open_table

__all__ = ["forget_history"]

EXAMPLES = ("deltaplane forget-history /data/people --yes",)


def forget_history(location: Location, yes: Yes = False, option: StoreOptions = None, json: AsJson = False) -> None:
    """Deletes every older version from the log, with values in statistics and conditions."""
    table = open_table(location, None, option)
    confirm(f"delete every version of {table.table_uri} before {table.version() + 1} from its log?", yes)
    render.facts({"table": table.table_uri, **table.forget_history()}, as_json=json)
