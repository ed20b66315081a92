"""`make bench-quick`: the verdict on a ratio beside the committed one; and the plots of figures."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime

import pytest

pytest.importorskip("openvino_genai")

from bench.quick import (
    FOLDER,
    PAGE,
    PLOTS,
    Point,
    Ratio,
    draw,
    ratio_row,
    read_committed,
    verdict,
)
from calculators.llm.tuning.arena import Interval
from tests.support.markdown import text_of


def ratio(low: float, middle: float, high: float, *, is_less_better: bool = False) -> Ratio:
    return Ratio("tokens / the engine", Interval(low, middle, high), is_less_better)


COMMITTED = Interval(0.95, 0.97, 0.99)


@pytest.mark.parametrize(
    ("now", "words"),
    [
        (ratio(0.94, 0.95, 0.96), "as before"),
        (ratio(0.86, 0.873, 0.9), "WORSE by 10%"),
        (ratio(1.0, 1.067, 1.1), "BETTER by 10%"),
        (ratio(1.0, 1.067, 1.1, is_less_better=True), "WORSE by 10%"),
    ],
)
def test_a_ratio_has_moved_when_the_intervals_have_nothing_in_common(
    now: Ratio, words: str
) -> None:
    assert verdict(now, COMMITTED) == words
    assert verdict(now, None) == "new"


def test_a_written_row_is_read_again() -> None:
    text = f"| {ratio(0.95, 0.97, 0.99).name} | 0.970 (0.950 to 0.990) |\n"
    assert read_committed(text) == {"tokens / the engine": COMMITTED}
    shown = ratio_row(ratio(0.95, 0.97, 0.99), COMMITTED)
    assert shown.endswith("| 0.970 (0.950 to 0.990) | 0.970 (0.950 to 0.990) | as before |")


def test_the_committed_page_has_ratios() -> None:
    assert read_committed(PAGE.read_text(encoding="utf-8"))


def test_each_plot_is_committed_and_shown() -> None:
    page = text_of("docs/performance.md")
    for plot in PLOTS:
        assert f"pictures/{plot.file}" in page
        drawing = ElementTree.parse(FOLDER / plot.file).getroot()
        assert drawing.tag.endswith("svg")


def test_a_plot_has_each_curve_and_each_commit() -> None:
    points = [
        Point(commit, datetime(2026, 11, day, tzinfo=UTC), value)
        for day, (commit, value) in enumerate([("aaa", 2.0), ("bbb", 1.5)], 1)
    ]
    text = draw(PLOTS[0], [("one", points), ("two", points[1:])])
    drawing = ElementTree.fromstring(text)
    circles = [each for each in drawing.iter() if each.tag.endswith("circle")]
    assert len(circles) == 3
    assert "one: 1.5" in text
    assert "aaa, 2026-11-01" in text
