"""Functions and filters that Hugging Face's templates rely on.

``raise_exception``, ``strftime_now`` and ``tojson`` come from `transformers`
(``utils/chat_template_utils.py``), ``from_json`` from OpenVINO Model Server.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, NoReturn

from calculators.llm.prompt.chat_template.errors import ChatTemplateError, clean
from calculators.llm.prompt.chat_template.limits import Budget

_LONGEST_TIME_FORMAT = 256
_WIDEST_INDENT = 32


def raise_exception(message: object = "") -> NoReturn:
    """Refuse the request, in the template's own words."""
    raise ChatTemplateError(clean(str(message)) or "the chat template refuses this request")


def strftime_now(format: str) -> str:
    """Format the local time."""
    if len(format) > _LONGEST_TIME_FORMAT:
        raise ChatTemplateError("the chat template formats the time with an overlong format")
    return datetime.now().strftime(format)


def from_json(text: str) -> Any:
    """Parse a JSON text."""
    return json.loads(text)


def to_json(
    budget: Budget,
    value: Any,
    ensure_ascii: int | str | None = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as `json.dumps` does: no HTML escapes, text outside ASCII as it is.

    A number in the second place is the indentation, as in OpenVINO Model Server. A truth value
    is ``ensure_ascii``, as in `transformers`.
    """
    budget.weigh(value)
    if not isinstance(ensure_ascii, bool):
        ensure_ascii, indent = False, ensure_ascii if indent is None else indent
    if ensure_ascii is False and indent is None and separators is None and not sort_keys:
        return _encode(value)
    width = indent if isinstance(indent, int) else len(indent or "")
    if width > _WIDEST_INDENT or (separators and max(map(len, separators)) > _WIDEST_INDENT):
        raise ChatTemplateError("the chat template writes JSON with an absurd indentation")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    pieces = []
    size = 0
    for piece in encoder.iterencode(value):
        size += len(piece)
        budget.allow(size)
        pieces.append(piece)
    return "".join(pieces)


# Made once: `json.dumps` would make an encoder for each call.
_encode = json.JSONEncoder(ensure_ascii=False).encode
