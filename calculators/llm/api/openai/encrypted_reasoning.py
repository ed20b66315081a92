"""The opaque text by which a client without stored responses gives reasoning back.

``include: ["reasoning.encrypted_content"]`` asks for it: a stateless client keeps the item and
sends it again, and the model sees its reasoning as before. The text is authenticated with a key of
this server, so that what comes back is what was sent. It is not secret: the summary beside it says
the same.

Another server, also the same one after a restart, cannot read the text unless its environment has
the same secret (`calculators.kit.requests.server_secret`); it takes the summary.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import zlib
from typing import Final

from calculators.kit.requests.server_secret import server_secret

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
    return hmac.digest(server_secret(), content, hashlib.sha256)[:_TAG_BYTES]
