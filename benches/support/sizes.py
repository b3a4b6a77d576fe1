"""The sizes of the logs by scale, and the maximum size for each contestant."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence

from support.harness import SUBJECT, scale_of
from support.logs import Kind

FILES = {"quick": [1_000], "small": [1_000, 10_000, 100_000], "full": [1_000, 10_000, 100_000, 1_000_000, 10_000_000]}
# Above this size, a peer's work per file takes minutes and tens of gigabytes. The targets use this
# size, too.
PEER_FILES = 1_000_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """The option that all of these measures have."""
    parser.add_argument("--files", type=int, nargs="+", help="numbers of files, instead of those of the scale")


def files(options: argparse.Namespace) -> list[int]:
    """The requested sizes, smallest first."""
    return sorted(options.files or FILES[scale_of(options)])


def logs(options: argparse.Namespace, growing: Sequence[Kind], others: Sequence[Kind]) -> Iterator[tuple[Kind, int]]:
    """Kinds of logs with their sizes: some grow, the others have one size, unless sizes were
    requested."""
    for kind in growing:
        yield from ((kind, count) for count in files(options))
    largest = max(n for n in FILES[scale_of(options)] if n <= PEER_FILES)
    for kind in others:
        yield from ((kind, count) for count in (files(options) if options.files else [largest]))


def asked(contestants: Iterable[str], files: int, peer_files: int = PEER_FILES) -> list[str]:
    """The contestants that can run at this size."""
    return [name for name in contestants if files <= peer_files or name.startswith(SUBJECT)]
