"""Citations: the numbers in a text that name passages, as annotations of the responses API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from calculators.language.generation_request import Source
from calculators.llm.answers.json_text import quote

#: ``[1]`` and ``[1, 3]``.
_MARKS: Final = re.compile(r"\[(\d{1,4}(?:\s?,\s?\d{1,4})*)\]")


def citations(text: str, sources: Sequence[Source]) -> list[str]:
    """Return an annotation as JSON for each number in brackets that is the mark of a source.

    ``index`` is the character of the text at which the bracket stands, as OpenAI's own answers
    have it.
    """
    by_mark = {source.mark: source for source in sources}
    if not by_mark:
        return []
    return [
        f'{{"type":"file_citation","file_id":{quote(source.id or source.name)}'
        f',"filename":{quote(source.name)},"index":{match.start()}}}'
        for match in _MARKS.finditer(text)
        for mark in match[1].split(",")
        if (source := by_mark.get(int(mark))) is not None
    ]
