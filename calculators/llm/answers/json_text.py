"""JSON literals of texts, safe inside server-sent events."""

from __future__ import annotations

import re
from json.encoder import encode_basestring
from typing import Final

# Half of a surrogate pair cannot be encoded as UTF-8. The three line ends are harmless in JSON and
# in SSE, but clients that split the stream with their language's idea of lines break there.
_UNSAFE: Final = re.compile("[\x85\u2028\u2029\ud800-\udfff]")


def quote(text: str) -> str:
    """Return the JSON literal of a text, with quotes. Lone surrogates become U+FFFD."""
    quoted = encode_basestring(text)
    if quoted.isascii() or not _UNSAFE.search(quoted):
        return quoted
    return _UNSAFE.sub(_escape, quoted)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return "\ufffd" if 0xD800 <= code <= 0xDFFF else f"\\u{code:04x}"
