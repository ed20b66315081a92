"""The opaque text by which a client without stored responses gives reasoning back.

``include: ["reasoning.encrypted_content"]`` asks for it: a stateless client keeps the item and
sends it again, and the model sees its reasoning as before. The text is authenticated with a key of
this server, so that what comes back is what was sent. It is not secret: the summary beside it says
the same.

Workers of a server and its children have the key by their environment. Another server, also the
same one after a restart, cannot read the text unless its environment has the key; it takes the
summary.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import zlib
from typing import Final

#: Environment variable with the key, for servers that have to read each other's texts.
KEY_VARIABLE: Final = "GRAPHRT_REASONING_KEY"
_MARK: Final = "grt1."
_TAG_BYTES: Final = 16
#: More than any reasoning: a text that claims more is not unpacked.
_MOST_BYTES: Final = 16 << 20


def seal(text: str) -> str:
    """Return the opaque text of reasoning."""
    packed = zlib.compress(text.encode())
    return _MARK + base64.urlsafe_b64encode(_tag(packed) + packed).decode()


def opened(sealed: str) -> str | None:
    """Return the reasoning of an opaque text; None: it is not of this server, or is changed."""
    if not sealed.startswith(_MARK):
        return None
    try:
        content = base64.b64decode(sealed[len(_MARK) :], altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return None
    tag, packed = content[:_TAG_BYTES], content[_TAG_BYTES:]
    if not hmac.compare_digest(tag, _tag(packed)):
        return None
    return zlib.decompressobj().decompress(packed, _MOST_BYTES).decode()


def _tag(content: bytes) -> bytes:
    return hmac.digest(shared_key(), content, hashlib.sha256)[:_TAG_BYTES]


def shared_key() -> bytes:
    """Return the key; one that is made here is inherited by processes that start later."""
    return os.environ.setdefault(KEY_VARIABLE, os.urandom(32).hex()).encode()
