# ruff: noqa: RUF001 - marks of all scripts, some of which look alike
"""Sentences of a text, and pieces of sentences that are too long for a model.

The rules need no dictionary but a few abbreviations, and no language to be named. They prefer a
sentence that is too long to one that is cut in the middle: a wrong cut is heard as a pause.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

#: Marks after which a sentence ends only before a blank: full stops, question and exclamation
#: marks, the ellipsis, and marks of Arabic, Armenian, Greek and Ethiopic scripts.
_SPACED_MARKS: Final = ".!?…‼⁇⁈⁉؟۔։\u037e።፧፨"
#: Marks that end a sentence with or without a blank after them: the marks of Chinese, Japanese,
#: Devanagari, Burmese, Khmer and Tibetan.
_PLAIN_MARKS: Final = "。！？．｡।॥။៕༎"
_MARKS: Final = _SPACED_MARKS + _PLAIN_MARKS
#: Quotation marks and brackets that belong to the sentence before them.
_CLOSING: Final = "\"'”’»›)]}」』）】〉》〕"
_OPENING: Final = "\"'“‘„‚«‹([{「『（【〈《〔¿¡*_#-–—•"

# fmt: off
#: Words that are followed by a name or an example, never by a new sentence.
_NEVER_LAST: Final = frozenset(
    {
        "mr", "mrs", "ms", "dr", "prof", "st", "messrs", "mx", "rev", "hon", "gov", "sen",
        "rep", "gen", "col", "maj", "capt", "cpt", "lt", "sgt", "cmdr", "adm", "pres", "mme",
        "mlle", "sra", "srta", "d.h", "z.b", "u.a", "s.o", "vgl", "bzw", "evtl", "ggf", "sog",
        "e.g", "i.e", "cf", "viz", "vs", "ca", "approx", "resp", "hr", "fr", "nr",
    }
)
#: Abbreviations only before a number; otherwise they are words.
_BEFORE_NUMBERS: Final = frozenset(
    {
        "no", "nos", "fig", "figs", "eq", "sec", "ch", "vol", "pp", "p", "art",
    }
)
#: Words that end a sentence only if the next one begins with a capital letter.
_ABBREVIATIONS: Final = frozenset(
    {
        "etc", "inc", "ltd", "co", "corp", "bros", "dept", "est", "jr", "sr", "a.m", "p.m",
        "u.s", "u.k", "e.u", "u.s.a", "ph.d", "m.d", "b.a", "m.a", "usw", "usf", "jan", "feb",
        "mar", "apr", "jun", "jul", "aug", "sep", "sept", "oct", "nov", "dec", "mon", "tue",
        "tues", "wed", "thu", "thur", "thurs", "fri", "sat", "sun", "ave", "blvd", "rd", "mt",
        "ft", "al", "ed", "eds",
    }
)
#: Abbreviations that often stand before a name.
_BEFORE_NAMES: Final = frozenset(
    {
        "u.s", "u.k", "e.u", "jr", "sr",
    }
)
# fmt: on
#: The word before a mark: letters, with full stops inside.
_WORD: Final = re.compile(r"[^\W\d_]+(?:\.[^\W\d_]+)*\Z")
#: The number of a list, alone at the beginning.
_LIST_NUMBER: Final = re.compile(r"\s*[(\[*_#-]*\d{1,3}\Z")
#: A line after which a sentence ends without a mark: before an empty line, a heading, or a list.
_BREAK: Final = r"\n[^\S\n]*(?=\n|[-*•#>]\s|#{2,}\s|\d{1,3}[.)]\s)"
_PARAGRAPH: Final = "\n\n\n"
_END: Final = re.compile(f"{_BREAK}|[{re.escape(_MARKS)}]+")
_CLOSERS: Final = re.compile(f"[{re.escape(_CLOSING)}]*")
_CONTROLS: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\ufeff\ud800-\udfff]"
)
#: Combining marks on one letter for which a cut is moved.
_MOST_COMBINED: Final = 8
#: Places for a pause inside a sentence, best first.
_PAUSES: Final = (";:；：", ",，、،؛", "–—")

#: Characters of a sentence at most; a longer one is cut at a pause. It bounds the time in which a
#: sentence is found.
MAX_SENTENCE: Final = 2000


class SentenceSplitter:
    """Cuts a text into sentences while it arrives in pieces.

    The sentences do not depend on the pieces. A sentence is complete when the text after it shows
    that it has ended, so the last one comes from `finish`. Sentences are found one by one as they
    are asked for, each in a time that does not depend on the length of the text.
    """

    def __init__(self) -> None:
        self._text = ""
        self._begin = 0

    def add(self, piece: str) -> Iterator[str]:
        """Add a piece of the text; yield the sentences that it completes, without outer blanks."""
        self._text = self._text[self._begin :] + piece
        self._begin = 0
        return self._complete()

    def finish(self) -> Iterator[str]:
        """End the text; yield the rest of its sentences. The next piece begins another text."""
        yield from self.add(_PARAGRAPH)
        rest = self._text[self._begin :].strip()
        self._text, self._begin = "", 0
        if rest:
            yield rest

    def _complete(self) -> Iterator[str]:
        while True:
            window = self._text[self._begin : self._begin + MAX_SENTENCE + 1]
            end = _end(window)
            if end is None:
                if len(window) <= MAX_SENTENCE:
                    return
                end = _pause(window, MAX_SENTENCE)
            self._begin += end
            if sentence := window[:end].strip():
                yield sentence


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a whole text, without outer blanks; none is empty."""
    splitter = SentenceSplitter()
    yield from splitter.add(text)
    yield from splitter.finish()


def split_to_limit(sentence: str, limit: int) -> list[str]:
    """Return a sentence in pieces of at most ``limit`` characters, in the sentence's order.

    It is cut at semicolons, else at commas, else at dashes, else at blanks, and a word that is
    too long between characters. Characters are counted in Unicode's form NFKC, in which tokenizers
    read them.
    """
    pieces = []
    rest = sentence.strip()
    while _length(rest) > limit:
        most = _fitting(rest, limit)
        end = _pause(rest, most)
        pieces.append(rest[:end].strip())
        rest = rest[end:].strip()
    return [piece for piece in [*pieces, rest] if piece]


def has_words(text: str) -> bool:
    """Return whether a text has a letter, a digit or a symbol: something that can be spoken."""
    return any(unicodedata.category(character)[0] in "LNS" for character in text)


def spoken_text(text: str) -> str:
    """Return a text with blanks for control characters and for halves of surrogate pairs."""
    return _CONTROLS.sub(" ", text)


def _end(text: str) -> int | None:
    """Return the place after the first sentence; None if the text does not show its end yet."""
    for mark in _END.finditer(text):
        if mark.group().startswith("\n"):
            return mark.end()
        closed = _CLOSERS.match(text, mark.end())
        assert closed is not None
        after = closed.end()
        if after == len(text):
            return None  # more marks or brackets may follow
        if mark.group()[-1] in _PLAIN_MARKS:
            return after
        if not text[after].isspace():
            continue
        following = _following(text, after)
        if not following:
            return None
        if _ends(text, mark, following):
            return after
    return None


def _following(text: str, place: int) -> str:
    """Return the first character after blanks and opening brackets.

    A line feed stands for the end of a paragraph; "" is unknown, as the text ends there.
    """
    for at in range(place, len(text)):
        if text.startswith("\n\n", at):
            return "\n"
        if not text[at].isspace() and text[at] not in _OPENING:
            return text[at]
    return ""


def _ends(text: str, mark: re.Match[str], following: str) -> bool:
    """Return whether a sentence ends at a mark before a blank and the character ``following``."""
    if following == "\n":
        return True
    if following.islower():
        return False
    if mark.group() != ".":
        return True
    if _LIST_NUMBER.match(text, 0, mark.start()):
        return False
    word = _WORD.search(text, max(mark.start() - 24, 0), mark.start())
    if word is None:
        return True
    found, lowered = word.group(), word.group().lower()
    if len(found) == 1 and found.isupper() and found != "I":
        return False  # an initial
    if lowered in _BEFORE_NUMBERS:
        return not following.isdigit()
    if lowered in _NEVER_LAST:
        return False
    if lowered in _ABBREVIATIONS or "." in found:
        return following.isupper() and lowered not in _BEFORE_NAMES
    return True


def _length(text: str) -> int:
    return len(unicodedata.normalize("NFKC", text))


def _fitting(text: str, limit: int) -> int:
    """Return the number of characters from the beginning that fit into the limit; at least 1."""
    low, high = 1, min(len(text), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if _length(text[:middle]) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def _pause(text: str, most: int) -> int:
    """Return the best place for a cut, after at most ``most`` characters."""
    head = text[:most]
    for marks in _PAUSES:
        place = max(
            (head.rfind(mark) + 1 for mark in marks if _is_pause(text, head.rfind(mark))), default=0
        )
        if place > most // 3:
            return place
    blank = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t"))
    if most < len(text) and text[most].isspace():
        return most
    if blank > 0:
        return blank + 1
    # Marks that combine with the letter before them stay with it.
    for end in range(most, max(most - _MOST_COMBINED, 0), -1):
        if end == len(text) or not unicodedata.combining(text[end]):
            return end
    return most


def _is_pause(text: str, place: int) -> bool:
    """Return whether the mark at ``place`` makes a pause: not inside 1,000 or 12:30."""
    if place < 0:
        return False
    return text[place] not in ",:" or not text[place + 1 : place + 2].strip()
