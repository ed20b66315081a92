"""Colors of the page that meet each other can be told apart, as WCAG 2 wants it.

The drawings on canvases are out of reach for axe, so all pairs are computed from the tokens.
"""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.support.checkout import ROOT

TOKENS: Final = ROOT / "page" / "src" / "look" / "tokens.css"
#: Contrast of text (1.4.3), and of signs and lines that mean something (1.4.11).
TEXT: Final = 4.5
SIGN: Final = 3.0

_TOKEN: Final = re.compile(r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\);")

_SURFACES: Final = ("bg", "canvas", "surface", "raised")
#: Foreground, backgrounds, and the least ratio.
PAIRS: Final = (
    ("text", (*_SURFACES, "accent-soft", "bad-soft", "warn-soft", "ok-soft"), TEXT),
    ("muted", (*_SURFACES, "accent-soft"), TEXT),
    ("faint", ("bg", "canvas", "surface", "raised"), TEXT),
    ("accent", (*_SURFACES, "accent-soft"), TEXT),
    ("accent-ink", ("accent",), TEXT),
    ("ok", ("surface", "bg", "ok-soft"), TEXT),
    ("warn", ("surface", "bg", "warn-soft"), TEXT),
    ("bad", ("surface", "bg", "canvas"), TEXT),
    ("line-strong", ("surface", "bg", "raised"), SIGN),
    ("wire", ("canvas",), SIGN),
    ("wire-live", ("canvas", "surface"), SIGN),
    ("side", ("canvas", "surface"), SIGN),
    ("packet", ("canvas",), SIGN),
    ("bad", ("bad-soft",), SIGN),
    *(
        (f"kind-{kind}", ("surface", "canvas"), SIGN)
        for kind in ("model", "io", "flow", "image", "own", "tensor", "session")
    ),
)


def tokens() -> dict[str, tuple[str, str]]:
    """Return the colors by name: of the light look, and of the dark one."""
    found = _TOKEN.findall(TOKENS.read_text())
    return {name: (light, dark) for name, light, dark in found}


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rrggbb``, as WCAG 2.2 defines it."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the ratio of two colors, from 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_has_the_highest_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@pytest.mark.parametrize("look", ["light", "dark"])
def test_colors_that_meet_can_be_told_apart(look: str) -> None:
    colors = {name: pair[look == "dark"] for name, pair in tokens().items()}
    too_low = [
        f"{front} on {back}: {contrast(colors[front], colors[back]):.2f}, not {least}"
        for front, backs, least in PAIRS
        for back in backs
        if contrast(colors[front], colors[back]) < least
    ]
    assert not too_low
