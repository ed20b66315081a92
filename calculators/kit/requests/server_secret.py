"""`signature`: marks texts that come back to a server, by a key that its processes share."""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final

#: Environment variable with the secret, for servers that have to read each other's texts.
SECRET_VARIABLE: Final = "GRAPHRT_SECRET"


def server_secret() -> bytes:
    """Return the secret; one that is made here is inherited by processes that start later."""
    return os.environ.setdefault(SECRET_VARIABLE, os.urandom(32).hex()).encode()


#: Bytes of a signature.
SIGNATURE_BYTES: Final = 16


def signature(content: bytes) -> bytes:
    """Return what only this server can have written beside ``content``."""
    return hmac.digest(server_secret(), content, hashlib.sha256)[:SIGNATURE_BYTES]
