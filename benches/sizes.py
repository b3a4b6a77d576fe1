"""How large the logs of each scale are, and up to which size a contestant can be asked.

Called by the measures that grow with a table's files.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from harness import SUBJECT, scale_of

FILES = {"quick": [1_000], "small": [1_000, 10_000, 100_000], "full": [1_000, 10_000, 100_000, 1_000_000, 10_000_000]}
# What a peer does for each file takes it minutes and tens of gigabytes above this.
PEER_FILES = 1_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """The option that every one of these measures has."""
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files, instead of those of the scale")


def files(options: argparse.Namespace) -> list[int]:
    """The sizes that were asked for, smallest first."""
    return sorted(options.files or FILES[scale_of(options)])


def largest(options: argparse.Namespace) -> int:
    """The one size of measures that don't grow: the targets are for a million files."""
    return max(options.files or FILES[scale_of(options)][:4])


def asked(contestants: Iterable[str], files: int, peer_files: int = PEER_FILES) -> list[str]:
    """Those that can be asked at this size."""
    return [name for name in contestants if files <= peer_files or name.startswith(SUBJECT)]
