"""What the document says of API keys, where the server has some."""

from __future__ import annotations

from typing import Any, Final

from calculators.tasks import ErrorForm
from servers.access import Access
from servers.fronts.openapi.errors import error_ref

SECURITY_SCHEMES: Final[dict[str, dict[str, str]]] = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "OpenAI's clients send it so."},
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "Anthropic's clients send it so.",
    },
}


class Keys:
    """Who needs one, by `servers.access`."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self.are_needed = access.keys is not None

    def added_to(self, operation: dict[str, Any], path: str, form: ErrorForm) -> dict[str, Any]:
        """The operation, with either of the keys and 401 where one is needed."""
        if not self.are_needed or self._access.is_open(path):
            return operation
        responses = {**operation["responses"], "401": error_ref(form, 401)}
        security: list[dict[str, list[str]]] = [{name: []} for name in SECURITY_SCHEMES]
        return {**operation, "security": security, "responses": dict(sorted(responses.items()))}
