"""The ids of calls of tools."""

from __future__ import annotations

import secrets
import string
from typing import Final

_CHARACTERS: Final = string.ascii_letters + string.digits
#: Mistral's templates take ids of exactly this length, and all others take any.
_LENGTH: Final = 9


def new_call_id() -> str:
    """Return nine random letters and digits."""
    return "".join(secrets.choice(_CHARACTERS) for _ in range(_LENGTH))
