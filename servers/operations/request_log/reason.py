"""Why a request was refused, as the log may have it: without anything that the client sent."""

from __future__ import annotations

import re
from typing import Final

#: A member of a path that is a word; what else a client calls something is its own business.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}(?:\[\d{1,6}\])*", re.ASCII)
_LONGEST: Final = 200


def reason_for_log(code: str, param: str | None, detail: str) -> str:
    """``temperature: 3 is above the maximum 2``.

    Args:
        code: what is said where there is no ``detail``.
        param: the field at fault as a path; its members that are no words are left out.
        detail: has nothing of the request but numbers.
    """
    said = detail or code
    if param is None:
        return said[:_LONGEST]
    words = (each if _WORD.fullmatch(each) else "..." for each in param[:_LONGEST].split("."))
    return f"{'.'.join(words)}: {said}"[:_LONGEST]
