"""The figures of a run as a page of HTML that needs no network: a table, and charts in SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from servers.load.figures import MEASURES, Figures, Run, table

_WIDTH: Final = 560
_HEIGHT: Final = 220
_LEFT: Final = 56
_BOTTOM: Final = 34
_COLORS: Final = {"ttft": "#2563eb", "tpot": "#059669", "itl": "#d97706", "e2el": "#7c3aed"}

_STYLE: Final = """\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem;
       background: Canvas; color: CanvasText; }
pre { overflow-x: auto; font-size: 13px; }
main { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } text { font: 11px system-ui, sans-serif; fill: CanvasText; }
.axis { stroke: GrayText; stroke-width: 1; } .grid { stroke: GrayText; stroke-opacity: .25; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dd { margin: 0; }
"""


def page(*runs: Run) -> str:
    """Make the page of one run, or of one server's and another's."""
    models = " and ".join(dict.fromkeys(str(each.get("model_id")) for _, each in runs))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>Benchmark of {escape(models)}</title>\n<style>\n{_STYLE}</style>\n"
        f"<h1>Benchmark of {escape(models)}</h1>\n"
        + "".join(_section(figures, settings) for figures, settings in runs)
        + "</html>\n"
    )


def _section(figures: Figures, settings: Mapping[str, Any]) -> str:
    values = {
        "ttft": [each.ttft for each in figures.good],
        "tpot": [each.tpot for each in figures.good if each.tpot is not None],
        "itl": [gap for each in figures.good for gap in each.gaps],
        "e2el": [each.e2el for each in figures.good],
    }
    charts = [
        _figure(f"{title} ({name.upper()})", _distribution(values[name], _COLORS[name]))
        for name, title in MEASURES.items()
    ]
    charts.append(_figure("Requests over time", _timeline(figures)))
    shown = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in settings.items()
        if value is not None
    )
    return (
        f"<dl>{shown}</dl>\n<main>\n{''.join(charts)}</main>\n<pre>{escape(table(figures))}</pre>\n"
    )


def _figure(title: str, chart: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>\n"


def _distribution(seconds: Sequence[float], color: str) -> str:
    """Draw the cumulative distribution of values over milliseconds."""
    if not seconds:
        return "<p>nothing was measured</p>"
    ordered = sorted(value * 1e3 for value in seconds)
    most = ordered[-1] or 1.0
    # One point per pixel is enough.
    step = max(1, len(ordered) // _WIDTH)
    shares = [(value, (place + 1) / len(ordered)) for place, value in enumerate(ordered)]
    chosen = [*shares[::step], shares[-1]]
    line = " ".join(f"{_x(value / most):.1f},{_y(share):.1f}" for value, share in chosen)
    return _chart(
        f'<polyline fill="none" stroke="{color}" stroke-width="2" '
        f'points="{_x(0):.1f},{_y(0):.1f} {line}"/>',
        [f"{most * part / 4:.4g} ms" for part in range(5)],
        ["0 %", "50 %", "100 %"],
    )


def _timeline(figures: Figures) -> str:
    """Draw a line per request from sending to its end, dark from the first token on."""
    good = sorted(figures.good, key=lambda each: each.sent)
    if not good:
        return "<p>nothing was measured</p>"
    start = good[0].sent
    most = max(each.arrivals[-1] for each in good) - start or 1.0
    color = _COLORS["ttft"]
    lines: list[str] = []
    for place, each in enumerate(good):
        height = _y((place + 0.5) / len(good))
        sent, first, last = (
            _x((moment - start) / most)
            for moment in (each.sent, each.arrivals[0], each.arrivals[-1])
        )
        width = max(0.6, min(6.0, 0.7 * (_HEIGHT - _BOTTOM) / len(good)))
        for begin, end, opacity in ((sent, first, 0.3), (first, last, 1.0)):
            lines.append(
                f'<line x1="{begin:.1f}" x2="{end:.1f}" y1="{height:.1f}" y2="{height:.1f}" '
                f'stroke="{color}" stroke-opacity="{opacity}" stroke-width="{width:.1f}"/>'
            )
    return _chart(
        "".join(lines),
        [f"{most * part / 4:.3g} s" for part in range(5)],
        ["1", str(-(-len(good) // 2)), str(len(good))],
    )


def _chart(content: str, below: Sequence[str], beside: Sequence[str]) -> str:
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">']
    for place, text in enumerate(below):
        x = _x(place / (len(below) - 1))
        parts.append(f'<text x="{x:.1f}" y="{_HEIGHT - 12}" text-anchor="middle">{text}</text>')
    for place, text in enumerate(beside):
        y = _y(place / (len(beside) - 1))
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_x(1)}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    axis = f"{_LEFT},{_y(1):.1f} {_LEFT},{_y(0):.1f} {_x(1)},{_y(0):.1f}"
    parts.append(f'<polyline class="axis" fill="none" points="{axis}"/>')
    return "".join([*parts, content, "</svg>"])


def _x(share: float) -> float:
    return _LEFT + share * (_WIDTH - _LEFT - 24)


def _y(share: float) -> float:
    return (1 - share) * (_HEIGHT - _BOTTOM - 10) + 10
