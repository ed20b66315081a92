"""The checkout's documents: their pages, and the code blocks that tests run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.support.checkout import ROOT

DOCS: Final = ROOT / "docs"
#: All pages about the whole project.
PAGES: Final = (
    *(path for path in sorted(ROOT.glob("*.md")) if path.name != "CHANGELOG.md"),
    *sorted(DOCS.rglob("*.md")),
)

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.S | re.M)


def text_of(page: str | Path) -> str:
    """Return the text of a page, by its path from the checkout's root."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str | Path) -> list[tuple[str, str]]:
    """Return the language ("" for none) and the text of each code block of a page."""
    return _BLOCK.findall(text_of(page))


def block(page: str | Path, language: str, containing: str) -> str:
    """Return the only code block of a page in a language that contains a text.

    Raises:
        AssertionError: there is none, or several.
    """
    found = [text for name, text in blocks(page) if name == language and containing in text]
    assert len(found) == 1, f"{page}: {len(found)} {language} blocks with {containing!r}"
    return found[0]


def commands(page: str | Path, containing: str) -> list[str]:
    """Return the commands, each after a ``$``, of a page's console block that contains a text."""
    lines = block(page, "console", containing).splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
