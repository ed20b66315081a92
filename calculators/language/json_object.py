"""`is_object`: the check of the arguments of a call."""

from __future__ import annotations

import json


def is_object(text: str) -> bool:
    """Return True if a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
