"""`SpecialLetters`: the letters by which rules name special tokens.

They are of Unicode's last plane, which is private: no text of an answer is expected to have them,
and no class of letters contains them (`calculators.llm.grammars.regular_expression.LAST`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

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


NO_SPECIAL_LETTERS: Final = SpecialLetters()
