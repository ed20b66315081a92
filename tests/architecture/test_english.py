"""Phrases that made sentences hard to read do not come back; each bound only shrinks.

CONTRIBUTING has the reasons and what to write instead. Docstrings, comments and other strings of
the product are counted, and the pages in ``docs/`` without decisions, whose history stays as it is.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from bench.house import Module
from tests.support.checkout import ROOT

#: By name: the phrase, the most in the code, and the most in pages.
PHRASES: Final = {
    "behind, for after": (r"\bbehind\b", 12, 9),
    "anew": (r"\banew\b", 0, 1),
    "those of": (r"\b[Tt]hose of\b", 20, 4),
    "whoever": (r"\b[Ww]hoever\b", 0, 0),
    "is told": (r"\b(?:is|are|was|were) told\b", 0, 1),
    "a look, for a poll": (r"\b(?:first|next|last|two|each|every) looks?\b", 1, 0),
    "to that end": (r"\b[Tt]o that end\b", 0, 0),
    "one's own": (r"\bone's own\b", 0, 1),
    "is no JSON": (r"(?<!there )\bis no (?:[A-Z]|file|number|list|object|sound|token)\b", 2, 0),
    "a docstring without a subject": (r'^"""(?:What|Whether|Of|Where|Those|Whose)\b', 0, 0),
}


@pytest.fixture(scope="module")
def texts(modules: Mapping[str, Module]) -> Mapping[str, list[str]]:
    """The comments and strings of each module."""
    return {name: list(_texts(module)) for name, module in modules.items()}


@pytest.fixture(scope="module")
def pages() -> Mapping[str, str]:
    return {
        str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
        for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        if "decisions" not in page.parts and "reference" not in page.parts
    }


def _texts(module: Module) -> Iterator[str]:
    """Yield the comments and strings of a module, docstrings among them."""
    for token in tokenize.generate_tokens(io.StringIO(module.text).readline):
        name = tokenize.tok_name[token.type]
        if name in ("COMMENT", "STRING") or name.startswith("FSTRING"):
            yield token.string


@pytest.mark.parametrize("name", PHRASES)
def test_a_phrase_does_not_come_back(
    name: str, texts: Mapping[str, list[str]], pages: Mapping[str, str]
) -> None:
    phrase, most_in_code, most_in_pages = PHRASES[name]
    pattern = re.compile(phrase)
    in_code = {
        module: found
        for module, said in texts.items()
        if (found := sum(len(pattern.findall(text)) for text in said))
    }
    in_pages = {
        page: found for page, text in pages.items() if (found := len(pattern.findall(text)))
    }
    assert sum(in_code.values()) <= most_in_code, in_code
    assert sum(in_pages.values()) <= most_in_pages, in_pages
