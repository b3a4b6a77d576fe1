"""Finds what a script written for deltalake must change for deltaplane's own API.

    from deltaplane.cli.migration import check_script

`deltaplane migrate-check SCRIPT` prints the findings; docs/migrating-from-deltalake.md lists the
rules. Scripts that run on `deltaplane.deltalake` need no change.
"""

from deltaplane.cli.migration.rules import FUNCTIONS, RULES, Rule
from deltaplane.cli.migration.script import Finding, check_script

__all__ = ["FUNCTIONS", "RULES", "Finding", "Rule", "check_script"]
