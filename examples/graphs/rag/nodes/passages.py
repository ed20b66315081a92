"""Passages of Markdown files: their sections, and parts of long sections."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_HEADING: Final = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_FENCE: Final = re.compile(r"\s*(```|~~~)")
#: Links and images, of which the text is kept.
_LINK: Final = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
#: The signs of Markdown that say nothing about a subject.
_SIGNS: Final = re.compile(r"[`*|#>]+|^\s*[-:]{3,}\s*$", re.MULTILINE)
#: Characters of a passage; a longer section is divided between its lines.
_LONGEST: Final = 900
#: Characters; a shorter section, such as one with a figure only, answers nothing.
_SHORTEST: Final = 60


@dataclass(frozen=True)
class Passage:
    """A part of a document.

    Attributes:
        source: the file, relative to the directory of the documents.
        title: the headings above it, "Serving: Streams".
        text: its text, as it is written.
    """

    source: str
    title: str
    text: str

    @property
    def searched(self) -> str:
        """Title and text without Markdown's signs, for models that search and rank."""
        return f"{self.title}. {plain_text(self.text)}"


def plain_text(markdown: str) -> str:
    """Return a text without Markdown's signs and the addresses of links, in one line."""
    return " ".join(_SIGNS.sub(" ", _LINK.sub(r"\1", markdown)).split())


def read_passages(files: Iterable[Path], root: Path) -> list[Passage]:
    """Return the passages of files below ``root``, in their order."""
    return [
        Passage(file.relative_to(root).as_posix(), title, part)
        for file in files
        for title, text in sections(file.read_text(encoding="utf-8"))
        for part in parts(text)
        if len(part) >= _SHORTEST
    ]


def sections(markdown: str) -> Iterator[tuple[str, str]]:
    """Yield the headings and the text of each section. A ``#`` in code is not a heading."""
    headings: list[str] = []
    lines: list[str] = []
    in_code = False
    for line in markdown.splitlines():
        if _FENCE.match(line):
            in_code = not in_code
        heading = None if in_code else _HEADING.match(line)
        if heading is None:
            lines.append(line)
            continue
        yield ": ".join(filter(None, headings)), "\n".join(lines).strip()
        depth = len(heading[1])
        headings = [*headings[: depth - 1], *[""] * (depth - 1 - len(headings))]
        headings.append(plain_text(heading[2]))
        lines = []
    yield ": ".join(filter(None, headings)), "\n".join(lines).strip()


def parts(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `_LONGEST` characters, divided between lines if possible."""
    part = ""
    for line in text.splitlines():
        while len(line) > _LONGEST:
            if part:
                yield part
                part = ""
            yield line[:_LONGEST]
            line = line[_LONGEST:]
        if part and len(part) + len(line) + 1 > _LONGEST:
            yield part
            part = ""
        part = f"{part}\n{line}" if part else line
    if part:
        yield part
