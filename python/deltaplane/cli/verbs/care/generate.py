"""`deltaplane generate`: writes manifests for engines that can't read Delta tables.

Uses the public API only.
"""

from __future__ import annotations

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, DryRun, Location, StoreOptions, open_table

__all__ = ["generate"]

EXAMPLES = ("deltaplane generate s3://bucket/orders",)


def generate(location: Location, dry_run: DryRun = False, option: StoreOptions = None, json: AsJson = False) -> None:
    """Writes lists of the newest version's files, for engines that can't read Delta tables."""
    table = open_table(location, None, option)
    with render.counts("generate", shown=not json) as advance:
        manifests = table.generate(dry_run=dry_run, progress=lambda p: advance(p.phase, p.done, p.total))
    facts = {"table": table.table_uri, "version": table.version(), "dry_run": dry_run}
    render.facts({**facts, "manifests": manifests if json else f"{len(manifests):,}"}, as_json=json)
