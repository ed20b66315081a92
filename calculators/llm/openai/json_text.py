"""JSON as a text: literals that are safe inside server-sent events, and values that are Unicode."""

from __future__ import annotations

import json
import re
from json.encoder import encode_basestring
from typing import Any, Final

# Half of a surrogate pair cannot be encoded as UTF-8. The three line ends are harmless in JSON and
# in SSE, but clients that split the stream with their language's idea of lines break there.
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")

# What JSON writes such a half as, or one half of a whole pair.
_ESCAPED_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class NotUnicode(ValueError):
    """Half of a surrogate pair: JSON can write it as an escape, and nobody can encode it."""


def parsed_text(text: str) -> Any:
    """The value of a JSON text inside a request.

    Raises:
        NotUnicode: a text in it, or a name, has half of a surrogate pair.
        ValueError: it is no JSON, or nested too deeply.
    """
    try:
        value = json.loads(text)
        if _ESCAPED_HALF.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeEncodeError:
        raise NotUnicode("half of a surrogate pair") from None
    return value


def quote(text: str) -> str:
    """The JSON literal of a text, quotes included; what UTF-8 cannot encode becomes U+FFFD."""
    quoted = encode_basestring(text)
    if quoted.isascii() or not _UNSAFE.search(quoted):
        return quoted
    return _UNSAFE.sub(_escape, quoted)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
