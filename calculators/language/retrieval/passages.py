"""Documents and their passages: parts of a size that embedding models read well, with their lines.

`find_documents` names the files of an index, and `read_document` reads one. `Outline` cuts its
text. The unit is a line of the text, or a part of a long one. A passage ends where a section ends,
else where a paragraph ends, else where a line ends, else where it is full. The next passage repeats
the end of the one before it, unless a section begins there. The caller counts the tokens.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from graphrt_base.regular_file import read_regular_file

#: The files of a directory that are indexed. A file that is named itself may have any name.
SUFFIXES: Final = (".md", ".markdown", ".rst", ".txt")
_MARKDOWN: Final = (".md", ".markdown")
#: Bytes of a file.
MAX_DOCUMENT_BYTES: Final = 64 << 20


class DocumentError(Exception):
    """A file that cannot be indexed; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that is to be indexed.

    Attributes:
        path: by which it is named as a source, with slashes.
        file: where it is.
    """

    path: str
    file: Path

    @property
    def is_markdown(self) -> bool:
        return self.file.suffix.lower() in _MARKDOWN


def find_documents(names: Iterable[str], root: Path) -> list[Document]:
    """Return the files of names, and those below the names of directories, in order, each once.

    Directories whose names begin with a dot are left out.

    Args:
        root: the directory that paths of sources are relative to. A file elsewhere keeps the path
            by which it was named.

    Raises:
        DocumentError: a name is neither a file nor a directory, or a directory has no such file.
    """
    found: dict[str, Document] = {}
    for name in names:
        path = Path(name)
        if path.is_dir():
            files = sorted(_below(path))
            if not files:
                raise DocumentError(
                    f'"{name}" has no files with the endings {", ".join(SUFFIXES)}; name files '
                    "with other endings themselves"
                )
        elif path.exists():
            files = [path]
        else:
            raise DocumentError(f'"{name}": no such file or directory')
        for file in files:
            shown = _shown(file, root)
            found.setdefault(shown, Document(shown, file))
    return list(found.values())


def read_document(document: Document) -> tuple[str, str]:
    """Return the text of a file, its lines separated by ``"\\n"``, and the digest of its bytes.

    Raises:
        DocumentError: it cannot be read, or is not text.
    """
    try:
        content = read_regular_file(document.file, MAX_DOCUMENT_BYTES)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise DocumentError(f'"{document.path}" cannot be read: {error.strerror}') from None
    except UnicodeDecodeError as error:
        raise DocumentError(
            f'"{document.path}" is not text in UTF-8 (byte {error.start}): convert it first'
        ) from None
    if "\0" in text:
        raise DocumentError(f'"{document.path}" is not text: convert it first')
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return lines, hashlib.sha256(content).hexdigest()


def _below(directory: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(directory):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(folder, name)


def _shown(file: Path, root: Path) -> str:
    try:
        return file.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return file.as_posix()


_HEADING: Final = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE: Final = re.compile(r"[ \t]*(```|~~~)")
#: The places where a long line is divided: ends of sentences in any script, else spaces.
_BREAK: Final = re.compile(r"[.!?;:]\s+|[。！？；]\s*|\s+")  # noqa: RUF001
#: Characters of a part of a line; with at most some 40 tokens in most languages.
_LONGEST_PART: Final = 160
#: Characters of the headings above a passage.
_LONGEST_TITLE: Final = 200


class Passage(NamedTuple):
    """A part of a text.

    Attributes:
        line: the number of its first line, from 1 on.
        title: the headings above it, ``"Serving: Streams"``; "" if there are none.
        text: the part, as it is written.
    """

    line: int
    title: str
    text: str

    @property
    def embedded(self) -> str:
        """The text whose vector is searched: the title, which says the subject, and the text."""
        return f"{self.title}\n{self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True)
class PassageSize:
    """The size of passages, in tokens of the embedding model.

    Attributes:
        least: a passage that has as many may end.
        most: of a passage with its title.
        overlap: the share of a passage that the next one repeats.
    """

    least: int = 200
    most: int = 400
    overlap: float = 0.15

    def within(self, longest: int) -> PassageSize:
        """Return the size for a model that reads at most ``longest`` tokens of a text."""
        most = max(1, min(self.most, longest))
        return PassageSize(min(self.least, (most + 1) // 2), most, self.overlap)


class _Unit(NamedTuple):
    """A line, or a part of a long one.

    Attributes:
        start, end: the characters of the text, the second one after the last.
        is_heading: a heading; the section begins with it.
        ends_paragraph: a blank line follows, or the end of code.
    """

    line: int
    start: int
    end: int
    title: str
    is_heading: bool
    ends_paragraph: bool


class Outline:
    """The lines of a text, with the headings above each of them.

    Attributes:
        texts: the texts whose tokens `passages` needs.
    """

    def __init__(self, text: str, *, is_markdown: bool) -> None:
        self._text = text
        self._units = list(_units(text, is_markdown=is_markdown))
        # With what follows each of them up to the next one: line ends are tokens to many models.
        ends = [*(unit.start for unit in self._units[1:]), len(text)]
        self.texts = [text[unit.start : end] for unit, end in zip(self._units, ends, strict=False)]
        self.texts += [f"{title}\n" for title in self._titles()]

    def passages(self, tokens: Sequence[int], size: PassageSize) -> Iterator[Passage]:
        """Yield the passages, in order.

        Args:
            tokens: the number of tokens of each of `texts`.
        """
        units = self._units
        titles = dict(zip(self._titles(), tokens[len(units) :], strict=True))
        sums = [0, *accumulate(tokens[: len(units)])]
        start = 0
        while start < len(units):
            first = units[start]
            end = _end(units, sums, start, size, titles)
            yield Passage(first.line, first.title, self._text[first.start : units[end - 1].end])
            start = end if end == len(units) else _next_start(units, sums, start, end, size, titles)

    def _titles(self) -> list[str]:
        return sorted({unit.title for unit in self._units} - {""})


def _end(
    units: Sequence[_Unit],
    sums: Sequence[int],
    start: int,
    size: PassageSize,
    titles: Mapping[str, int],
) -> int:
    """Return the place after the last unit of the passage that begins at ``start``."""
    full = _full(units, sums, start, size, titles)
    if full == len(units):
        return full
    places = range(start + 1, full + 1)
    enough = [place for place in places if sums[place] - sums[start] >= size.least]
    for place in enough:
        if _begins_section(units, place):
            return place
    for place in reversed(enough):
        if units[place - 1].ends_paragraph:
            return place
    for place in reversed(enough):
        if units[place - 1].line < units[place].line and not units[place - 1].is_heading:
            return place
    while full - 1 > start and units[full - 1].is_heading:
        full -= 1  # a heading stays with what it is above
    return full


def _full(
    units: Sequence[_Unit],
    sums: Sequence[int],
    start: int,
    size: PassageSize,
    titles: Mapping[str, int],
) -> int:
    """Return the place after the last unit that fits; one always does."""
    most = size.most - titles.get(units[start].title, 0)
    end = start + 1
    while end < len(units) and sums[end + 1] - sums[start] <= most:
        end += 1
    return end


def _begins_section(units: Sequence[_Unit], place: int) -> bool:
    return units[place].is_heading and not units[place - 1].is_heading


def _next_start(
    units: Sequence[_Unit],
    sums: Sequence[int],
    start: int,
    end: int,
    size: PassageSize,
    titles: Mapping[str, int],
) -> int:
    """Return the first unit of the passage after ``end``, which repeats some units before it."""
    if _begins_section(units, end):
        return end
    room = size.overlap * (sums[end] - sums[start])
    found = end
    for place in range(end - 1, start, -1):
        # Repeated text must leave room for something new.
        if sums[end] - sums[place] > room or _full(units, sums, place, size, titles) <= end:
            break
        found = place
    return found


def _units(text: str, *, is_markdown: bool) -> Iterator[_Unit]:
    headings: list[str] = []
    in_code = False
    lines = _lines(text)
    for index, (number, start, end) in enumerate(lines):
        line = text[start:end]
        heading = None if in_code or not is_markdown else _HEADING.match(line)
        if is_markdown and _FENCE.match(line):
            in_code = not in_code
        title = ": ".join(filter(None, headings))[:_LONGEST_TITLE]
        if heading is not None:
            depth = len(heading[1])
            headings = [*headings[: depth - 1], *[""] * (depth - 1 - len(headings)), heading[2]]
            title = ": ".join(filter(None, headings[:-1]))[:_LONGEST_TITLE]
        is_last = index + 1 == len(lines) or lines[index + 1][0] > number + 1
        ends = is_last and heading is None and not in_code
        parts = list(_parts(text, start, end))
        for at, (from_, to) in enumerate(parts):
            ends_paragraph = ends and at + 1 == len(parts)
            yield _Unit(number, from_, to, title, heading is not None, ends_paragraph)


def _lines(text: str) -> list[tuple[int, int, int]]:
    """Return number, start and end of each line that is not blank."""
    found = []
    start = 0
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            found.append((number, start, start + len(line)))
        start += len(line) + 1
    return found


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide a line into parts of at most `_LONGEST_PART` characters."""
    while end - start > _LONGEST_PART:
        place = start + _LONGEST_PART
        sentence = space = 0
        for match in _BREAK.finditer(text, start + 1, place):
            if match[0].strip():
                sentence = match.end()
            else:
                space = match.end()
        # A sentence that ends early is too little for a part.
        cut = sentence if sentence - start > _LONGEST_PART // 4 else space or place
        yield start, cut
        start = cut
    yield start, end
