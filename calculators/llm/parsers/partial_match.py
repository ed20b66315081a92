"""Regular expressions for text that has come only in part."""

from __future__ import annotations

import re


def beginnings(literal: str) -> str:
    """A regular expression for every beginning of ``literal``, the longest there is first.

    All of it, and nothing, are beginnings, too.
    """
    ends = range(len(literal), -1, -1)
    return "(?:" + "|".join(re.escape(literal[:end]) for end in ends) + ")"
