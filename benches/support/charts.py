"""Growth curves on two logarithmic axes as inline SVG, and the exponent that fits a curve.

Uses numbers and names only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 460, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 28, 40
COLOURS = ("#0b6bcb", "#c4501b", "#2b8a3e", "#8e44ad", "#b8860b", "#555f6b")
# Minimum number of points for a fit.
LEAST_POINTS = 3


def exponent(points: Points) -> float | None:
    """The k of the best fit of `y = c · x^k` (least squares of the logarithms); None for fewer than
    three sizes.

    >>> round(exponent([(10, 2), (100, 20), (1000, 200)]), 3)
    1.0
    """
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    return _slope(logs) if len({x for x, _ in logs}) >= LEAST_POINTS else None


def last_step(points: Points) -> float | None:
    """The k between the two largest sizes; None for fewer than two.

    >>> round(last_step([(10, 2), (100, 2), (1000, 20)]), 3)
    1.0
    """
    logs = sorted((math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0)[-2:]
    return _slope(logs) if len({x for x, _ in logs}) == 2 else None


def _slope(logs: Points) -> float:
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    return sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)


def log_log(title: str, curves: Mapping[str, Points], x_label: str, y_label: str) -> str:
    """Draws one chart. Points that aren't positive are left out."""
    shown = {name: sorted((x, y) for x, y in points if x > 0 and y > 0) for name, points in curves.items()}
    x_axis = _Axis([x for points in shown.values() for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = _Axis([y for points in shown.values() for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f'<text class="title" x="{LEFT}" y="16">{escape(title)}</text>',
        *_grid(x_axis, y_axis),
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text transform="translate(12 {(TOP + HEIGHT - BOTTOM) / 2:.0f}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>",
    ]
    for number, (name, points) in enumerate(shown.items()):
        places = [(x_axis.place(x), y_axis.place(y)) for x, y in points]
        colour = colour_of(number)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (size, value) in zip(places, points, strict=True):
            note = f"{escape(name)}: {value:.4g} at {size:,.0f}"
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{note}</title></circle>')
    return "\n".join([*parts, "</svg>"])


def colour_of(number: int) -> str:
    """The colour of a chart's n-th curve."""
    return COLOURS[number % len(COLOURS)]


class _Axis:
    """Whole decades around the values, from pixel `start` to pixel `end`."""

    def __init__(self, values: Iterable[float], start: float, end: float) -> None:
        logs = [math.log10(value) for value in values] or [0.0]
        self.low = math.floor(min(logs))
        self.high = max(math.ceil(max(logs)), self.low + 1)
        self._start, self._end = start, end

    def place(self, value: float) -> float:
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self._start + part * (self._end - self._start)

    def decades(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    parts = []
    for value in x_axis.decades():
        x = x_axis.place(value)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{_short(value)}</text>')
    for value in y_axis.decades():
        y = y_axis.place(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    return parts


def _short(value: float) -> str:
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g}{letter}"
    return f"{value:g}"
