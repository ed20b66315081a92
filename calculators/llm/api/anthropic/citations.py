"""Citations of documents: their passages for the model, and the model's marks for the client.

No open model is trained for Anthropic's citations. So the passages of a document that asks for them
stand in the prompt with a number in brackets each, and the model is asked to write the numbers. A
citation is a passage of the document, chosen by a number that the model wrote: its text and its
place are the document's, and no model can make them up. Whether the passage says what the sentence
before the mark says is up to the model.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import check_object
from calculators.language.events import Content, OutputEvent
from calculators.language.generation_request import Source
from calculators.llm.answers.blocks import BlockKind, Blocks, OutputBlock, Step
from calculators.llm.answers.response import quote
from calculators.llm.pdf_messages import PagedText

#: Passages of a request, and characters of the documents that they are of.
MOST_PASSAGES: Final = 10_000
MOST_CHARACTERS: Final = 1_000_000
ASKED: Final = (
    "Parts of the documents have numbers in brackets. Right after each sentence of your answer "
    "that takes something from such a part, write its number in brackets: It is so. [3]"
)
#: The end of a sentence, or of a line.
_END: Final = re.compile(
    r"""[.!?]["'\u201d\u2019)\]]*(?=\s)|[\u3002\uff01\uff1f][\u201d\u300d\uff09]*|\n+"""
)
#: Characters that an end may have before the white space that makes it one.
_OF_ENDS: Final = ".!?\"'\u201d\u2019)]"
#: A shorter piece belongs to the next one: "Dr.", "3."
_SHORTEST: Final = 12


class CitedPassage(Source, frozen=True, kw_only=True):
    """A passage that the answer may cite.

    Attributes:
        kind: "char", "page" or "content_block" of a document, or "search_result".
        index: of the document among the request's documents, or of the result among its results.
        start, end: characters, pages from 1 on, or blocks; the end is not a part.
    """

    kind: str
    index: int
    start: int
    end: int

    @property
    def citation(self) -> str:
        """The citation as JSON."""
        title = quote(self.name) if self.name else "null"
        head = f'{{"type":"{self.kind}_location","cited_text":{quote(self.text)}'
        if self.kind == "search_result":
            return (
                f'{head},"source":{quote(self.id)},"title":{title}'
                f',"search_result_index":{self.index}'
                f',"start_block_index":{self.start},"end_block_index":{self.end}}}'
            )
        unit = {"char": "char_index", "page": "page_number"}.get(self.kind, "block_index")
        return (
            f'{head},"document_index":{self.index},"document_title":{title},"file_id":null'
            f',"start_{unit}":{self.start},"end_{unit}":{self.end}}}'
        )


def asks_for_citations(block: Mapping[str, Any], path: str) -> bool:
    """Return whether a block of a request asks to be cited.

    Raises:
        RequestError: its member is wrong.
    """
    path = f"{path}.citations"
    asked = fields.json_object(block, "citations", path)
    if asked is None:
        return False
    check_object(asked, path, ("enabled",))
    return bool(fields.boolean(asked, "enabled", f"{path}.enabled"))


class Passages:
    """The passages of one request, with numbers from 1 on.

    Attributes:
        found: all so far.
        documents, results: how many documents and search results there were so far.
    """

    def __init__(self) -> None:
        self.found: list[CitedPassage] = []
        self.documents = 0
        self.results = 0
        self._characters = 0

    def numbered(self, text: str, title: str, path: str) -> str:
        """Add the sentences of a document; return its text with their numbers.

        Raises:
            RequestError: there are too many passages, or characters.
        """
        self._count(len(text), path)
        shown: list[str] = []
        done = 0
        for start, end in _sentences(text):
            passage = text[start:end]
            if isinstance(text, PagedText):
                page = text.pages[bisect_right(text.pages, start, key=itemgetter(0)) - 1][1]
                self._add("page", title, passage, page, page + 1, path)
            else:
                self._add("char", title, passage, start, end, path)
            shown += (text[done:start], f"[{len(self.found)}] ", passage)
            done = end
        shown.append(text[done:])
        return "".join(shown)

    def numbered_blocks(
        self, texts: Sequence[str], title: str, path: str, source: str | None = None
    ) -> str:
        """Add the blocks of a document, or of the search result of a ``source``; return the text.

        Raises:
            RequestError: as `numbered`.
        """
        kind = "content_block" if source is None else "search_result"
        shown: list[str] = []
        for place, text in enumerate(texts):
            self._count(len(text), path)
            self._add(kind, title, text, place, place + 1, path, source or "")
            shown.append(f"[{len(self.found)}] {text}")
        return "\n".join(shown)

    def _count(self, characters: int, path: str) -> None:
        self._characters += characters
        if self._characters > MOST_CHARACTERS:
            raise fields.invalid(
                path, f"documents with citations may have {MOST_CHARACTERS} characters together"
            )

    def _add(
        self, kind: str, title: str, text: str, start: int, end: int, path: str, source: str = ""
    ) -> None:
        if len(self.found) >= MOST_PASSAGES:
            raise fields.invalid(path, f"there are more than {MOST_PASSAGES} passages to cite")
        index = self.results if kind == "search_result" else self.documents
        self.found.append(
            CitedPassage(
                len(self.found) + 1,
                title,
                str(text),
                source,
                kind=kind,
                index=index,
                start=start,
                end=end,
            )
        )


def _sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the sentences of a text, without the white space around them."""
    start = 0
    for match in _END.finditer(text):
        end = match.end()
        if end - start < _SHORTEST and "\n" not in match[0]:
            continue
        yield from _stripped(text, start, end)
        start = end
    yield from _stripped(text, start, len(text))


def _stripped(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    if start < end:
        yield start, end


#: Numbers in brackets: ``[3]``, ``[3, 4]``, ``[3-5]``.
_MARK: Final = re.compile(r"\[(\d{1,5}(?:\s?[,;\u2013-]\s?\d{1,5}){0,19})\]")
#: Code in a line, which has no marks, or a mark with the space before it.
_MARKED: Final = re.compile(rf"`[^`\n]*`|[ \t]*{_MARK.pattern}")
#: Marks right after a sentence.
_AFTER: Final = re.compile(rf"(?:[ \t]*{_MARK.pattern})+")
#: White space and the beginning of a mark, at the end of what has come.
_MAY_BE_MARK: Final = re.compile(r"[ \t]*(?:\[[\d\s,;\u2013-]*)?")
_FENCE: Final = re.compile(r"[ \t]*(?:```|~~~)")
#: A longer sentence goes out before its end.
_LONGEST: Final = 2000
#: Passages of one mark.
_MOST_CITED: Final = 20


class MarkReader:
    """Turns marks in a text that grows into citations.

    A mark cites passages for the sentence that it stands in, or right after. Sentences wait until
    they are complete, and whether a mark follows is known.
    """

    __slots__ = ("_in_fence", "_passages", "_seen", "_waiting")

    def __init__(self, passages: Sequence[CitedPassage]) -> None:
        self._passages = {each.mark: each for each in passages}
        self._waiting = ""
        #: Characters before which no sentence ends.
        self._seen = 0
        self._in_fence = False

    def feed(self, text: str) -> Iterator[tuple[str, Sequence[CitedPassage]]]:
        """Add text; yield the pieces that are complete, each with what it cites."""
        self._waiting += text
        while (end := self._sentence()) is not None:
            yield self._read(end)
        if len(self._waiting) > _LONGEST:
            yield self._read(len(self._waiting))

    def rest(self) -> Iterator[tuple[str, Sequence[CitedPassage]]]:
        """Yield what waits: nothing follows."""
        while self._waiting:
            match = _END.search(self._waiting)
            end = len(self._waiting) if match is None else match.end()
            after = None if match is None or "\n" in match[0] else _AFTER.match(self._waiting, end)
            yield self._read(end if after is None else after.end())

    def _sentence(self) -> int | None:
        """Return the end of the first sentence with its marks; None: it may not be complete."""
        waiting = self._waiting
        match = _END.search(waiting, self._seen)
        if match is None:
            # What may still be an end is searched again, and nothing else.
            self._seen = len(waiting.rstrip(_OF_ENDS))
            return None
        self._seen = match.start()
        end = match.end()
        if "\n" in match[0]:
            return end
        if (after := _AFTER.match(waiting, end)) is not None:
            end = after.end()
        may_be = _MAY_BE_MARK.match(waiting, end)
        return None if may_be is not None and may_be.end() == len(waiting) else end

    def _read(self, end: int) -> tuple[str, Sequence[CitedPassage]]:
        sentence, self._waiting = self._waiting[:end], self._waiting[end:]
        self._seen = 0
        if _FENCE.match(sentence):
            self._in_fence = not self._in_fence
            return sentence, ()
        if self._in_fence:
            return sentence, ()
        cited: dict[int, CitedPassage] = {}

        def take(match: re.Match[str]) -> str:
            numbers = match[1] and [n for n in _numbers(match[1]) if n in self._passages]
            if not numbers:
                return match[0]
            for number in numbers[:_MOST_CITED]:
                cited[number] = self._passages[number]
            return ""

        text = _MARKED.sub(take, sentence)
        # A line of marks alone is about nothing.
        return (text, tuple(cited.values())) if text.strip() else (sentence, ())


def _numbers(mark: str) -> list[int]:
    numbers: list[int] = []
    for part in re.split(r"[,;]", mark):
        ends = [int(each) for each in re.split(r"[-\u2013]", part)]
        numbers += range(ends[0], min(ends[-1], ends[0] + _MOST_CITED) + 1)
    return numbers


class CitedBlocks(Blocks):
    """`Blocks` whose texts cite passages: a sentence that does is a block of its own."""

    __slots__ = ("_reader",)

    def __init__(self, passages: Sequence[CitedPassage]) -> None:
        super().__init__()
        self._reader = MarkReader(passages)

    def add(self, event: OutputEvent) -> Sequence[Step]:
        if isinstance(event, Content):
            return self._pieces(self._reader.feed(event.text))
        return [*self._flush(), *super().add(event)]

    def beside(self, kind: BlockKind) -> tuple[Sequence[Step], OutputBlock]:
        before = self._flush()
        steps, block = super().beside(kind)
        return [*before, *steps], block

    def finish(self, *, is_cut: bool = False) -> Sequence[Step]:
        return [*self._flush(), *super().finish(is_cut=is_cut)]

    def _flush(self) -> list[Step]:
        return self._pieces(self._reader.rest())

    def _pieces(self, pieces: Iterable[tuple[str, Sequence[CitedPassage]]]) -> list[Step]:
        steps: list[Step] = []
        for text, cited in pieces:
            if cited:
                steps += self.cite(text, [each.citation for each in cited])
            elif text:
                steps += self._grow(BlockKind.CONTENT, text)
        return steps
