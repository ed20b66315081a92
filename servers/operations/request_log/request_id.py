"""The name of a request in answers, logs and metadata."""

from __future__ import annotations

import re
import secrets

_ACCEPTED = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)


def request_id_of(sent: str | None) -> str:
    """The client's ``x-request-id`` if it is harmless to repeat, else a new one."""
    if sent is not None and _ACCEPTED.fullmatch(sent):
        return sent
    return secrets.token_hex(16)
