"""The interface of output parsers, for authors of parsers, and `TagScanner`.

The scanner reads growing text up to the next tag.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from calculators.language.events import OutputEvent
    from calculators.llm.parsers.families import CallSyntax


class OutputParser(ABC):
    """Reads one answer as it grows.

    Events are final: none is taken back by a later one, and the events of all chunks together do
    not depend on where the text was cut into chunks. Text that the parser does not look for is
    `Content`. No input raises, and no text is lost.

    Attributes:
        special_tokens: texts of the tokenizer's special tokens that the parser needs in its input.
            Other special tokens are removed before, unless the client asked to see them.
    """

    special_tokens: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def feed(self, text: str) -> list[OutputEvent]:
        """Return the events that the next chunk of text makes certain; maybe none."""

    @abstractmethod
    def finish(self) -> list[OutputEvent]:
        """Return the remaining events, at the end of the text."""


class ToolParser(OutputParser):
    """Finds calls of tools in text without reasoning: `Content`, `ToolCall` and `Arguments`.

    Attributes:
        calls: the form of calls, for grammars; None if a model cannot be made to call tools.
        heads: marks with which calls begin, that stand nowhere else.
    """

    calls: ClassVar[CallSyntax | None] = None
    heads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tools: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """``tools``: the JSON schema of the parameters by the tool's name, from the request."""
        self.tools = tools or {}


class ReasoningParser(OutputParser):
    """Takes reasoning out of text: `Reasoning`, and `Content` for all the rest, calls included.

    Attributes:
        start_tags: a prompt that ends in one of these, white space aside, has begun the reasoning.
        end_tag: ends the reasoning.
        turn: the text that the model writes between its reasoning and what follows; None stands for
            white space.
        answer_start: the text that the model writes before an answer that is not a call.
    """

    start_tags: ClassVar[tuple[str, ...]] = ()
    end_tag: ClassVar[str] = ""
    turn: ClassVar[str | None] = None
    answer_start: ClassVar[str] = ""

    def __init__(self, *, is_open: bool = False) -> None:
        """``is_open``: the text begins inside the reasoning. Later, that it is inside."""
        self.is_open = is_open


def beginnings(literal: str) -> str:
    """Return a regular expression that matches the longest beginning of ``literal`` in a text.

    The whole literal and the empty string count as beginnings.
    """
    ends = range(len(literal), -1, -1)
    return "(?:" + "|".join(re.escape(literal[:end]) for end in ends) + ")"


class Tags:
    """A set of tags to look for: fixed strings, none empty. Make one for each state of a parser.

    Attributes:
        first: finds the first letter of any of them.
    """

    __slots__ = ("_beginnings", "_longest", "_tags", "first", "values")

    def __init__(self, *tags: str) -> None:
        if not tags or "" in tags:
            raise ValueError(f"tags have to be strings that are not empty, not {tags!r}")
        self.values: Final = tags
        # Longest first: where two begin at one place the longer one counts.
        longest_first = sorted(tags, key=len, reverse=True)
        self._tags = re.compile("|".join(map(re.escape, longest_first)))
        self.first = re.compile("|".join(re.escape(first) for first in {tag[0] for tag in tags}))
        self._longest = len(longest_first[0])
        self._beginnings = frozenset(tag[:end] for tag in tags for end in range(1, len(tag)))

    def find(self, text: str, start: int, *, more: bool) -> tuple[int, str | None]:
        """Return the place of the first tag in ``text`` from ``start`` on, and the tag.

        ``more``: text may follow. Then (place, None) means that no tag is certain yet and that none
        begins before ``place``, whatever follows. Without ``more``, ``place`` is the text's end.
        """
        first = self.first.search(text, start)
        if first is None:
            return len(text), None
        found = self._tags.search(text, first.start())
        place = found.start() if found is not None else len(text)
        if more:
            # Text from here on may still become a tag, or a longer one than the one found.
            for held in range(max(first.start(), len(text) - self._longest + 1), len(text)):
                if held > place:
                    break
                if text[held:] in self._beginnings:
                    return held, None
        return place, None if found is None else found.group()


@lru_cache(maxsize=256)
def tags_of(*tags: str) -> Tags:
    """Return the `Tags` of ``tags``, each once. It is made once, for readers that live shortly."""
    return Tags(*dict.fromkeys(tags))


class TagScanner:
    """Splits growing text at tags.

    The results of `take` together do not depend on how the text was cut for `feed`. The scanner
    holds back only text that may become a tag, and takes time in proportion to the text, however
    many tags there are and however the text is cut.

    Attributes:
        text: the unread text is ``text[place:]``. A reader that looks for something other than tags
            reads it directly and advances ``place``.
        more: text may follow.
    """

    text: str = ""
    place: int = 0
    more: bool = True

    def feed(self, text: str) -> None:
        """Append ``text``."""
        self.text = self.text[self.place :] + text
        self.place = 0

    def finish(self) -> None:
        """End the text: `take` holds nothing back from now on."""
        self.more = False

    def take(self, tags: Tags) -> tuple[str, str | None]:
        """Take the text before the next tag, and the tag itself.

        The tag is None if none is complete yet; the text is then what certainly precedes the next.
        """
        begin = self.place
        end, tag = tags.find(self.text, begin, more=self.more)
        self.place = end if tag is None else end + len(tag)
        return self.text[begin:end], tag

    def take_one(self, characters: str) -> str | None:
        """Take the next character if it is one of ``characters``: quicker than to look for tags."""
        character = self.text[self.place : self.place + 1]
        if not character or character not in characters:
            return None
        self.place += 1
        return character

    def put_back(self, tag: str) -> None:
        """Undo the taking of ``tag``, which came out of the last `take`."""
        self.place -= len(tag)

    @property
    def is_empty(self) -> bool:
        """True if nothing is left, not even text that was held back."""
        return self.place >= len(self.text)
