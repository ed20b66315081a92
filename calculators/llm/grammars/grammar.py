"""`AnswerForm`, the form of an answer that a client asks for, and `Grammar`, its rules.

Rules name special tokens by `SpecialLetters`. These belong to Unicode's last plane, which is
private: no text of an answer is expected to have them, and no class of letters contains them
(`calculators.llm.grammars.regular_expression.LAST`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import msgspec

#: The first letter.
FIRST: Final = 0x100000


@dataclass(frozen=True, slots=True)
class SpecialLetters:
    """The special tokens of a model.

    Attributes:
        letters: the letter of each token by the token's text.
        ends: the letters of tokens that end an answer, beside the one that every form ends with.
    """

    letters: dict[str, str] = field(default_factory=dict)
    ends: str = ""

    def written(self, text: str) -> str:
        """Return a text of a form's frame with the letters of the special tokens in it."""
        if not self.letters or not text:
            return text
        longest_first = sorted((each for each in self.letters if each), key=len, reverse=True)
        found = [each for each in longest_first if each in text]
        if not found:
            return text
        return re.sub("|".join(map(re.escape, found)), lambda match: self.letters[match[0]], text)

    def others(self, written: str) -> list[str]:
        """Return the letters of the tokens that are not in a text of letters."""
        return [letter for letter in self.letters.values() if letter not in written]


NO_SPECIAL_LETTERS: Final = SpecialLetters()


class AnswerForm(msgspec.Struct, frozen=True, array_like=True):
    """The JSON text of a format of `calculators.llm.grammars.formats`.

    Equal forms are equal values, and are checked once.
    """

    text: str


class Grammar(msgspec.Struct, frozen=True, array_like=True):
    """A grammar for the engine, made and proven by the grammar process.

    Attributes:
        text: rules in the notation of the engine's library (EBNF).
        begins_with_space: white space at the beginning of the answer may belong to the form.
    """

    text: str
    begins_with_space: bool = False
