"""The page made of result lines: fitted exponents, targets, the selected run, and no need of other
files."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

if TYPE_CHECKING:
    from support.results import Facts, Line


def facts(**others: Any) -> Facts:
    from support.results import Facts

    known: dict[str, Any] = {
        "at": "2026-03-02T10:00:00+00:00",
        "scale": "full",
        "core_version": "0.1.0",
        "build_profile": "release",
        "cpu_model": "A <fast> one",
        "cpus": 2,
        "python": "3.11.7",
        "peers": {"deltalake": "1.6.6"},
    }
    return Facts(**{**known, **others})


def line(contestant: str = "deltaplane", seconds: float = 0.01, **others: Any) -> Line:
    from support.results import Line

    known: dict[str, Any] = {
        "measure": "open",
        "case": "a case",
        "contestant": contestant,
        "series": "",
        "size": None,
        "target": "",
        "answer": 1,
        "failed": 0,
        "runs": 5,
        **dict.fromkeys(("best_s", "median_s", "mean_s", "cpu_s"), seconds),
        **dict.fromkeys(("ratio_best", "ratio_median", "ratio_cpu", "ratio_peak"), 1.0),
        "peak_mb": 100.0,
        "added_mb": 10.0,
        "size_mb": None,
    }
    return Line(**{**known, **others})


def curve(contestant: str, power: float, target: str = "") -> list[Line]:
    """Seconds that grow with this power of the size: 1 ms at 1,000."""
    return [
        line(contestant, 0.001 * (size / 1000) ** power, case=f"{size} files", series="open", size=size, target=target)
        for size in (1_000, 10_000, 100_000, 1_000_000)
    ]


def page_of(*lines: Line) -> str:
    from report import page

    return page([(item, facts()) for item in lines])


def rows_of(text: str) -> list[list[str]]:
    """The texts of every table row's cells, without markup."""
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", text, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.37])
def test_the_exponent_of_a_power_law_is_found(power: float) -> None:
    from support.charts import exponent

    assert exponent([(x, 7 * x**power) for x in (10, 1_000, 2_000, 1e7)]) == pytest.approx(power, abs=1e-9)


def test_two_sizes_and_values_of_zero_are_no_fit() -> None:
    from support.charts import exponent

    assert exponent([(10, 1), (100, 2)]) is None
    assert exponent([(10, 1), (100, 2), (1000, 0), (0, 5)]) is None


def test_the_last_step_is_that_between_the_largest_sizes() -> None:
    from support.charts import last_step

    assert last_step([(1_000, 60), (10, 5), (100, 6)]) == pytest.approx(1)
    assert last_step([(10, 5)]) is None


def test_a_growth_curve_shows_its_exponents() -> None:
    text = page_of(*curve("deltaplane", 0.25), *curve("deltalake", 1.0))
    assert ["deltaplane", "1,000 to 1,000,000", "n0.25", "n0.25", "n0.00"] in rows_of(text)
    assert ["deltalake", "1,000 to 1,000,000", "n1.00", "n1.00", "n0.00"] in rows_of(text)


def test_charts_are_well_formed_and_hold_each_point() -> None:
    text = page_of(*curve("deltaplane", 0.25), *curve("<deltalake>", 1.0))
    charts = [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    assert len(charts) == 2
    assert [len(chart.findall("circle")) for chart in charts] == [8, 8]
    heights = [float(circle.get("cy", "")) for circle in charts[0].findall("circle")][4:]
    steps = [above - below for above, below in pairwise(heights)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2), "a power law is a straight line"


def test_the_page_needs_nothing_else_and_escapes_what_it_is_told() -> None:
    text = page_of(line(case="<b>bold</b> & more"))
    assert not re.search(r"(?:src|href)\s*=|@import|url\(|<script", text)
    assert "<b>bold" not in text
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; more" in text
    assert "A &lt;fast&gt; one" in text


def target_rows(text: str, id: str) -> list[list[str]]:
    return [row for row in rows_of(text) if row[:1] == [id]]


def test_targets_are_judged_at_their_size() -> None:
    peers = [replace(item, median_s=5.0, cpu_s=5.0) for item in curve("deltalake", 0.0, "T1 own")]
    ours = curve("deltaplane", 0.5, "T1 own")
    # A size outside of the target's range, at which the target would be missed.
    larger = [replace(item, size=10_000_000, cpu_s=item.cpu_s * 20, case="larger") for item in (ours[-1], peers[-1])]
    (missed,) = [row for row in target_rows(page_of(*larger), "T1") if row[2] == "0.01x" and row[-1] != "not measured"]
    assert missed[4] == "10,000,000"
    assert target_rows(page_of(*ours, *peers, *larger), "T1")[-2][3:] == ["0.00632x", "1,000,000", "met"]
    ratio, growth = target_rows(page_of(*ours, *peers), "T1")[-2:]
    # 1 ms · √1000 over 5 s; from 1,000 to 1,000,000 the figure grows by √1000.
    assert ratio[2:] == ["0.01x", "0.00632x", "1,000,000", "met"]
    assert growth[2:] == ["2x", "31.6x", "1,000,000", "missed"]


def test_a_target_that_was_measured_too_small_says_so() -> None:
    lines = [
        line(name, s, size=1_000, target="T6 own", case="c") for name, s in (("deltaplane", 0.001), ("deltalake", 9))
    ]
    verdicts = {row[1]: row[-1] for row in target_rows(page_of(*lines), "T6")}
    assert verdicts["refresh, own checkpoint: 5 ms"] == "met, but the target is for 1,000,000"
    assert verdicts["refresh, foreign checkpoint: 5 ms"] == "not measured"


def test_a_difference_and_a_count_are_targets_too() -> None:
    imports = [
        line(name, s, measure="start", target="T13 import") for name, s in (("deltaplane", 0.06), ("bare Python", 0.01))
    ]
    writers = line(measure="concurrent", target="T12 8", size=8, failed=3)
    text = page_of(*imports, writers)
    assert target_rows(text, "T13")[0][2:] == ["30 ms", "50 ms", "", "missed"]
    assert target_rows(text, "T12")[0][2:] == ["0", "3", "8", "missed"]


def test_a_target_over_many_cases_is_their_worst_or_their_geometric_mean() -> None:
    lines = []
    for case, ours, size in (("a", 0.5, 10), ("b", 2.0, 10), ("c", 9.0, 1)):
        for target in ("spark tpcds", "spark merge"):
            lines += [
                line(name, s, case=f"{case} {target}", size=size, target=target, measure=target)
                for name, s in (("deltaplane", ours), ("delta-spark", 1.0))
            ]
    text = page_of(*lines)
    assert target_rows(text, "S6")[0][2:] == ["1x", "2x", "10", "missed"]
    (mean, *_) = [row for row in target_rows(text, "S5") if "delta-spark" in row[1]]
    assert mean[2:] == ["1x", "1x", "10", "met, but the target is for 2,880,404"]


def test_the_newest_run_of_a_release_build_counts() -> None:
    from report import newest

    old, new = facts(at="2026-03-01T00:00:00+00:00"), facts(at="2026-03-02T00:00:00+00:00")
    dev = facts(at="2026-03-03T00:00:00+00:00", build_profile="dev")
    results = [
        (line(seconds=1), old),
        (line(seconds=2), new),
        (line(seconds=3), dev),
        (line(case="other", seconds=4), dev),
    ]
    assert [item.median_s for item, _ in newest(results)] == [2, 4]


def test_figures_of_a_dev_build_are_called_so() -> None:
    from report import page

    assert "mean nothing" in page([(line(), facts(build_profile="dev"))])
    assert "mean nothing" not in page([(line(), facts())])


def test_the_page_says_what_was_measured_and_on_what() -> None:
    from report import page

    text = page([(line(), facts(commit="1a2b3c4")), (line(case="other"), facts(at="2026-03-05T08:00:00+00:00"))])
    assert "2026-03-02 to 2026-03-05; A &lt;fast&gt; one, 2 CPUs; " in text
    assert (
        "deltaplane 0.1.0 (release build); deltaplane 0.1.0 1a2b3c4 (release build); Python 3.11.7; deltalake 1.6.6."
        in text
    )


def test_the_summary_has_the_targets_and_the_figures_that_are_judged() -> None:
    from summary import summary

    judged = [
        line(name, s, measure="spark merge", case="merge | spread", size=10, target="spark merge")
        for name, s in (("deltaplane", 0.5), ("delta-spark", 1.0))
    ]
    text = summary([(item, facts()) for item in [*judged, line(case="a case without a target")]])
    assert "| S6 | MERGE on Spark: no slower than delta-spark (CPU) | 1x | 0.5x | met |" in text
    assert "| T6 |" not in text
    assert "Targets without figures: F1, F2, F3, F4, H1, K1, M1, M2, " in " ".join(text.split())
    assert "| merge ¦ spread | deltaplane | 500 | 500 | 100 |  | 1.00x | 1.00x | 1.00x |" in text
    assert "|  | delta-spark | 1,000 | 1,000 | 100 |" in text
    assert "a case without a target" not in text
    assert "A <fast> one, 2 CPUs" in " ".join(text.split())


def test_the_summary_keeps_what_nobody_measured_again() -> None:
    from summary import summary

    def measured(measure: str, target: str, case: str, ours: float) -> list[tuple[Line, Facts]]:
        contestants = ((name, s) for name, s in (("deltaplane", ours), ("delta-spark", 1.0)))
        lines = [line(name, s, measure=measure, case=case, size=10, target=target) for name, s in contestants]
        return [(item, facts(at=f"2026-03-0{len(case)}T10:00:00+00:00")) for item in lines]

    first = summary(
        [*measured("spark merge", "spark merge", "a", 0.5), *measured("spark load", "spark load", "b", 0.5)]
    )
    again = summary(measured("spark merge", "spark merge", "cc", 2.0), first)
    assert "| S6 | MERGE on Spark: no slower than delta-spark (CPU) | 1x | 2x | missed |" in again
    assert "| S4 | loading store_sales: no slower than delta-spark (CPU) | 1x | 0.5x | met |" in again
    assert again.count("## Spark load") == again.count("## Spark merge") == 1
    assert "Measured on 2026-03-01;" in again
    assert "Measured on 2026-03-02;" in again
    assert "| a | deltaplane |" not in again
    assert "| b | deltaplane |" in again
    assert summary(measured("spark merge", "spark merge", "cc", 2.0), again) == again


def test_the_summary_fits_the_growth_of_a_series() -> None:
    from summary import summary

    lines = [
        line(seconds=n / 1000, cpu_s=0.1, measure="open", case=f"{n}", series="open", size=n, target="T1 own")
        for n in (1_000, 10_000, 100_000)
    ]
    text = summary([(item, facts()) for item in lines])
    assert "| open | deltaplane | 1,000 to 100,000 | n^1.00 | n^0.00 | n^0.00 | n^0.00 |" in text


def test_lines_are_kept_and_loaded_again(tmp_path: Path) -> None:
    from support.results import keep, load

    keep(tmp_path, [line(), line("deltalake")], facts())
    keep(tmp_path, [line(seconds=2, size_mb=1.5)], facts(scale="small"))
    assert load([tmp_path / "open.jsonl"]) == [
        (line(), facts()),
        (line("deltalake"), facts()),
        (line(seconds=2, size_mb=1.5), facts(scale="small")),
    ]


@pytest.mark.parametrize("text", ["not JSON", "[]", "{}", json.dumps({"measure": "open"})])
def test_a_line_that_is_no_result_is_named(tmp_path: Path, text: str) -> None:
    from support.results import keep, load

    keep(tmp_path, [line()], facts())
    path = tmp_path / "open.jsonl"
    path.write_text(path.read_text() + text)
    with pytest.raises(ValueError, match=r"open\.jsonl, line 2"):
        load([path])


def test_a_line_with_an_unknown_figure_is_no_result(tmp_path: Path) -> None:
    from support.results import load

    path = tmp_path / "open.jsonl"
    path.write_text(json.dumps({**asdict(line()), **asdict(facts()), "more": 1}))
    with pytest.raises(ValueError, match="line 1"):
        load([path])
