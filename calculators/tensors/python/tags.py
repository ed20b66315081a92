"""Tags of a Python node's streams with a special meaning."""

from __future__ import annotations

from typing import Final

LOOPBACK: Final = "LOOPBACK"
REQUEST_TAGS: Final = ("HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD")
RESPONSE_TAGS: Final = ("HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD")
