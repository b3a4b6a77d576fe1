"""Explains a plan's selection of files: the figures of `DeltaTable.explain`, and their text.

Independent of how files are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane.io import records
from deltaplane.io.html import TextInNotebooks
from deltaplane.names import renamed_attribute

__all__ = ["PlanExplanation", "size_text"]


@dataclass(frozen=True)
class PlanExplanation(TextInNotebooks):
    """The numbers of files that each stage of a plan examined and excluded; other units are in the
    attributes' names.

    A file counts in the stage that excluded it. The attributes are in the order of the stages;
    `replaced` are files of the checkpoint that later commits removed or added again, or that the
    checkpoint names twice. `selected_without_statistics` has, by physical path of a column that the
    predicate needs, the number of selected files without statistics of it: statistics might exclude
    those files.

    >>> why = PlanExplanation(in_commits=3, selected=1, selected_bytes=2048, skipped_by_statistics=2)
    >>> why.considered, why.skipped
    (3, 2)
    >>> print(why)
    considered                                   3 files
    skipped by their statistics                  2 files
    selected                                     1 file, 2.0 KiB
    """

    in_commits: int = 0
    in_checkpoint: int = 0
    row_groups: int = 0
    row_groups_skipped: int = 0
    skipped_by_row_groups: int = 0
    skipped_by_pages: int = 0
    skipped_by_partition: int = 0
    skipped_by_statistics: int = 0
    skipped_by_index: int = 0
    replaced: int = 0
    selected: int = 0
    selected_bytes: int = 0
    selected_without_statistics: Mapping[str, int] | None = None

    kept = renamed_attribute("kept", "selected")
    kept_bytes = renamed_attribute("kept_bytes", "selected_bytes")
    kept_without_statistics = renamed_attribute("kept_without_statistics", "selected_without_statistics")

    @classmethod
    def of(cls, report: records.ScanReport) -> PlanExplanation:
        """Converts the core's report."""
        return cls(**report.to_dict())

    @property
    def considered(self) -> int:
        """Files of the checkpoint and of the commits after it."""
        return self.in_commits + self.in_checkpoint

    @property
    def skipped(self) -> int:
        """Files that were excluded because they can't match."""
        undecoded = self.skipped_by_row_groups + self.skipped_by_pages
        return undecoded + self.skipped_by_partition + self.skipped_by_statistics + self.skipped_by_index

    def __str__(self) -> str:
        groups = f"{self.row_groups_skipped:,} of {self.row_groups:,} row groups, unopened"
        lines = [
            ("considered", self.considered, ""),
            ("skipped by row groups' statistics", self.skipped_by_row_groups, groups),
            ("skipped by pages' statistics", self.skipped_by_pages, "not decoded"),
            ("skipped by their partition values", self.skipped_by_partition, ""),
            ("skipped by their statistics", self.skipped_by_statistics, ""),
            ("skipped by key indexes", self.skipped_by_index, ""),
            ("replaced by later commits", self.replaced, ""),
            ("selected", self.selected, size_text(self.selected_bytes)),
        ]
        shown = [line for line in lines if line[1] or line[0] in ("considered", "selected")]
        for column, files in (self.selected_without_statistics or {}).items():
            shown.append((f"  of which nothing is known of {column}", files, ""))
        return "\n".join(_line(*line) for line in shown)


def _line(what: str, files: int, more: str) -> str:
    text = f"{what:<38}{files:>8,} file{'' if files == 1 else 's'}"
    return f"{text}, {more}" if more else text


def size_text(size_bytes: float) -> str:
    """Formats a number of bytes.

    >>> size_text(0), size_text(3 << 20)
    ('0 bytes', '3.0 MiB')
    """
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if size_bytes < 1024 or unit == "TiB":
            break
        size_bytes /= 1024
    return f"{size_bytes:,.0f} bytes" if unit == "bytes" else f"{size_bytes:,.1f} {unit}"
