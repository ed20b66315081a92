"""API keys in the document, if the server has any."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.tasks import ErrorForm
from servers.access import Access
from servers.fronts.openapi.errors import error_ref

SECURITY_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "The form of OpenAI's clients."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "The form of Anthropic's clients.",
    },
}


class Keys:
    """Adds keys to operations that need one, by `servers.access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.are_needed = access.keys is not None

    def added_to(self, operation: dict[str, Any], path: str, form: ErrorForm) -> dict[str, Any]:
        """Return the operation, with both forms of keys and 401 if it needs a key."""
        if not self.are_needed or self._access.is_open(path):
            return operation
        responses = {**operation["responses"], "401": error_ref(form, 401)}
        security: list[dict[str, list[str]]] = [{name: []} for name in SECURITY_SCHEMES]
        return {**operation, "security": security, "responses": dict(sorted(responses.items()))}
