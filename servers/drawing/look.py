"""The look of drawings: colors as the page has them (`page/src/look/tokens.css`), and signs."""

from __future__ import annotations

from typing import Final, Literal

from servers.drawing.drawing import Family

Theme = Literal["auto", "light", "dark"]

#: Colors on light pages and on dark pages by their names in the page.
COLORS: Final[dict[str, tuple[str, str]]] = {
    "canvas": ("#fafbfc", "#101319"),
    "surface": ("#ffffff", "#171b23"),
    "raised": ("#f4f5f8", "#1e232d"),
    "line": ("#dfe3e9", "#2b313d"),
    "line-strong": ("#7e899c", "#667087"),
    "text": ("#171a21", "#e8eaf0"),
    "muted": ("#535c6d", "#a0a8b8"),
    "faint": ("#626c80", "#8a93a8"),
    "bad": ("#c92a3a", "#ff6b6b"),
    "wire": ("#8590a3", "#5d6880"),
    "wire-live": ("#5b5bd6", "#7d8cf8"),
    "side": ("#8590a3", "#667087"),
    "kind-model": ("#7c4fe0", "#a78bfa"),
    "kind-io": ("#17857b", "#4fb3a9"),
    "kind-flow": ("#a86400", "#e0a458"),
    "kind-image": ("#1f6fd1", "#58a6ff"),
    "kind-own": ("#4d7c21", "#8fbf6a"),
    "kind-tensor": ("#22799f", "#6cb6d9"),
    "kind-session": ("#667084", "#8891a5"),
    "accent": ("#5350cf", "#8b8dfa"),
}
#: Names of colors by family.
TINTS: Final[dict[Family, str]] = {
    "model": "kind-model",
    "image": "kind-image",
    "tensor": "kind-tensor",
    "flow": "kind-flow",
    "own": "kind-own",
    "io": "kind-io",
    "session": "kind-session",
    "subgraph": "accent",
}
#: Strokes of signs, in a square of 16.
SIGNS: Final[dict[Family, str]] = {
    "model": "M8 1.8C8.6 5.6 10.4 7.4 14.2 8 10.4 8.6 8.6 10.4 8 14.2 7.4 10.4 5.6 8.6 1.8 8 "
    "5.6 7.4 7.4 5.6 8 1.8z",
    "image": "M2.5 3.5h11v9h-11zM3 11l3.2-3.4 2.4 2.4 1.6-1.5 2.8 2.6M10.4 6.1h.01",
    "tensor": "M2.5 2.5h4.6v4.6h-4.6zM8.9 2.5h4.6v4.6h-4.6zM2.5 8.9h4.6v4.6h-4.6z"
    "M8.9 8.9h4.6v4.6h-4.6z",
    "flow": "M2 8h4.2c1.8 0 2-4 4-4h3.6M6.2 8c1.8 0 2 4 4 4h3.6M11.8 2l2 2-2 2M11.8 10l2 2-2 2",
    "own": "M5.4 4.2L1.8 8l3.6 3.8M10.6 4.2L14.2 8l-3.6 3.8",
    "io": "M2.5 8h10M9 4.5L12.5 8 9 11.5",
    "session": "M2.5 3h11v3.2h-11zM3.6 6.2v6.8h8.8v-6.8M6.4 9h3.2",
    "subgraph": "M2.3 2.3h11.4v11.4h-11.4zM5 8h1.6M9.4 6h1.8M9.4 10h1.8"
    "M6.6 8c1.4 0 1.4-2 2.8-2M6.6 8c1.4 0 1.4 2 2.8 2",
}

SANS: Final = 'Inter, "Inter Variable", ui-sans-serif, system-ui, "Segoe UI", sans-serif'
MONO: Final = '"JetBrains Mono", "JetBrains Mono Variable", ui-monospace, Menlo, monospace'

#: Selectors, property, name of the color. Written out rule by rule, because viewers outside
#: browsers know neither variables nor media queries.
_RULES: Final[tuple[tuple[str, str, str], ...]] = (
    (".canvas", "fill", "canvas"),
    ("text", "fill", "text"),
    (".sub, .tag", "fill", "muted"),
    (".face", "fill", "surface"),
    (".face, .head", "stroke", "line"),
    (".side_input .face, .session .face", "fill", "raised"),
    (".hatch path", "stroke", "line"),
    (".frame rect", "fill", "raised"),
    (".frame rect", "stroke", "line-strong"),
    (".name text", "stroke", "raised"),
    (".line", "stroke", "wire"),
    (".dot", "fill", "wire"),
    (".side .line", "stroke", "side"),
    (".back .line", "stroke", "wire-live"),
    (".chevron", "fill", "wire-live"),
    (".port", "fill", "surface"),
    (".port", "stroke", "wire"),
    (".port.looped", "fill", "wire-live"),
    (".port.looped", "stroke", "wire-live"),
    (".unknown .face", "stroke", "bad"),
    *((f".{family} .sign path", "stroke", tint) for family, tint in TINTS.items()),
    *((f".{family} .sign rect", "fill", tint) for family, tint in TINTS.items()),
    *((f".{family} .edge", "stroke", tint) for family, tint in TINTS.items()),
)


def color_rules(theme: Theme) -> str:
    """Return the style's colors; "auto" follows the reader's settings."""
    light, dark = (_rules(place) for place in (0, 1))
    if theme == "auto":
        return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"
    return dark if theme == "dark" else light


def _rules(place: int) -> str:
    lines = []
    for selectors, prop, name in _RULES:
        scoped = ", ".join(f".graphrt {each}" for each in selectors.split(", "))
        lines.append(f"{scoped} {{ {prop}: {COLORS[name][place]}; }}\n")
    return "".join(lines)
