"""The change that "Did you mean" proposes."""

from __future__ import annotations

import re
from typing import Final

_MEANT: Final = re.compile(r'[Dd]id you mean ["`]([^"`\n]{1,200})["`]')


def suggested(message: str, hint: str | None) -> str | None:
    """Return the word that a finding proposes; None if it proposes none."""
    match = _MEANT.search(message) or _MEANT.search(hint or "")
    return None if match is None else match[1]


def replacement(written: str, word: str) -> str:
    """Return a text with the proposed word in place of the wrong one.

    ``written``: a field's name, or a value as it stands in the text, with quotes.
    """
    if written[:1] not in ("'", '"'):
        return word
    quote, value = written[0], written.strip("'\"")
    tag, colon, name = value.rpartition(":")
    if not colon or ":" in word:
        return f"{quote}{word}{quote}"
    # Tags are upper case, names of streams are not.
    return f"{quote}{word}:{name}{quote}" if word.isupper() else f"{quote}{tag}:{word}{quote}"
