"""`server_secret`: a key that the processes of one server share, for texts that come back to it."""

from __future__ import annotations

import os
from typing import Final

#: Environment variable with the secret, for servers that have to read each other's texts.
SECRET_VARIABLE: Final = "GRAPHRT_SECRET"


def server_secret() -> bytes:
    """Return the secret; one that is made here is inherited by processes that start later."""
    return os.environ.setdefault(SECRET_VARIABLE, os.urandom(32).hex()).encode()
