"""The vectors of redaction, and a redaction of whole texts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.corpora import corpora

#: Another file of vectors may be named.
FILE = Path(os.environ.get("REDACTION_CASES", corpora() / "redaction.jsonl"))


def read_cases() -> list[dict[str, Any]]:
    """Return the vectors."""
    return [json.loads(line) for line in FILE.read_text("utf-8").splitlines()]


def redacted_whole(
    text: str, words: Sequence[str], patterns: Sequence[str], *, mask: str = "*"
) -> str:
    """A text redacted as the documentation says, place by place, by Python's own ``re``."""
    compiled = [re.compile(pattern) for pattern in patterns]
    made = ""
    place = 0
    while place < len(text):
        lengths = [len(word) for word in words if text.startswith(word, place)]
        found = [pattern.match(text, place) for pattern in compiled]
        lengths += [match.end() - place for match in found if match]
        longest = max(lengths, default=0)
        made += mask if longest else text[place]
        place += longest or 1
    return made
