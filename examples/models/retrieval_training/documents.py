"""The project's Markdown as pairs of a question and the text that answers it."""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.graphs.rag.nodes.passages import plain_text, sections

ROOT: Final = Path(__file__).parents[3]
#: Folders with Markdown, and what is not text of the project.
_PATTERNS: Final = (
    "*.md",
    "docs/**/*.md",
    "calculators/**/*.md",
    "examples/**/*.md",
    "bench/*.md",
    "deploy/**/*.md",
)
#: One of so many sections is held out, by its title: the same ones whatever else is written.
_HELD_OUT: Final = 8
_SENTENCE: Final = re.compile(r"(?<=[.:;])\s+")


@dataclass(frozen=True)
class Section:
    """A section of a document: its title with the document's, and its plain text."""

    title: str
    text: str

    @property
    def is_held_out(self) -> bool:
        """True for sections that are never trained on."""
        return zlib.crc32(self.title.encode()) % _HELD_OUT == 0


def read_sections(root: Path = ROOT) -> list[Section]:
    """Return the sections with a title and some text, of all Markdown files."""
    files = sorted({file for pattern in _PATTERNS for file in root.glob(pattern)})
    return [
        Section(f"{_subject(file)} {title}".strip(), text)
        for file in files
        for title, markdown in sections(file.read_text(encoding="utf-8"))
        if title and len(text := plain_text(markdown)) > 120
    ]


def _subject(file: Path) -> str:
    """Return the words of a file's name, or of its folder's for a README."""
    name = file.parent.name if file.stem == "README" else file.stem
    return re.sub(r"[\d_.-]+", " ", name).strip()


def training_pair(section: Section, source: random.Random) -> tuple[str, str]:
    """Return a question and a part of the section that answers it.

    The question is the title, or one of the text's sentences, which the part then lacks.
    """
    sentences = _SENTENCE.split(section.text)
    question = _some_words(section.title, source)
    if len(sentences) > 2 and source.random() < 0.6:
        place = source.randrange(len(sentences))
        question = _some_words(sentences[place], source)
        sentences = sentences[:place] + sentences[place + 1 :]
    text = " ".join(sentences)
    start = source.randrange(max(1, len(text) - 300))
    return question, text[start : start + 500]


def _some_words(text: str, source: random.Random) -> str:
    """Return a text of at most 12 words, from which a few are missing."""
    words = text.split()
    start = source.randrange(max(1, len(words) - 11))
    kept = [word for word in words[start : start + 12] if source.random() > 0.15]
    return " ".join(kept or words[:3])


def texts_of(sections: Iterable[Section]) -> Sequence[str]:
    """Return all texts, for the tokenizer."""
    return [f"{each.title} {each.text}" for each in sections]
