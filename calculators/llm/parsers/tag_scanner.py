"""`TagScanner`: reads growing text up to the next tag."""

from __future__ import annotations

import re
from typing import Final


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

    @property
    def is_empty(self) -> bool:
        """True if nothing is left, not even text that was held back."""
        return self.place >= len(self.text)
