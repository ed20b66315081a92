"""The message of an error response of a server of the OpenAI API, for its clients."""

from __future__ import annotations

import json


def error_message(body: str | bytes) -> str | None:
    """Return the message in OpenAI's form of errors; None if the body has another form."""
    try:
        error = json.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, KeyError, TypeError):
        return None
