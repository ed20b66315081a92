"""Paths that functions of authors answer, and the paths that they cannot have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from calculators.kit.tasks.endpoint import PREFIXES
from calculators.kit.tasks.operation import TaskDescription


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorEndpoint:
    """A path that graphs with a node of an author answer; `calculators.language.endpoint` makes it.

    The path decides which graph answers: its requests name no model. It is plain data, so that it
    travels between processes.

    Attributes:
        path: the whole path; a segment in braces, as in ``/v3/items/{item}``, is any one segment.
        methods: of `AUTHOR_METHODS`; GET brings HEAD.
        takes_json: requests have a body of JSON.
        takes_form: requests have a form, ``multipart/form-data``.
        takes_any: requests may have a body of any type, which the graph reads.
        needs_body: a request without a body is refused.
        is_socket: a request with GET becomes a WebSocket.
        description: its part of the OpenAPI document.
    """

    path: str
    methods: tuple[str, ...]
    takes_json: bool = False
    takes_form: bool = False
    takes_any: bool = False
    needs_body: bool = False
    is_socket: bool = False
    description: TaskDescription

    def match(self, path: str) -> dict[str, str] | None:
        """Return the values of the segments in braces; None if ``path`` is another one.

        ``path``: as sent, without its query.
        """
        if path == self.path:
            return {}
        if "{" not in self.path:
            return None
        own, sent = self.path.split("/"), path.split("/")
        if len(own) != len(sent):
            return None
        values: dict[str, str] = {}
        for mine, other in zip(own, sent, strict=True):
            if mine.startswith("{") and other:
                values[mine[1:-1]] = unquote(other)
            elif mine != other:
                return None
        return values


#: The methods that an author's endpoint may have.
AUTHOR_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: The server's own paths, with what is below those that end with a slash.
_SERVERS: Final = (
    *("/", "/health", "/livez", "/metrics", "/openapi.json", "/ping", "/readyz", "/version", "/v2"),
    *("/docs", "/docs/", "/page/", "/v2/", "/v1/live"),
    *("/v1/calculators", "/v1/calculators/", "/v1/config", "/v1/config/"),
    *("/v1/graphs/", "/v1/requests/", "/v1/scratch/"),
    *("/api/version", "/api/tags", "/api/ps", "/api/show", "/api/pull", "/api/push", "/api/copy"),
    *("/api/create", "/api/delete", "/api/blobs/", "/api/v0/models", "/api/v0/models/"),
    *(f"{prefix}/{name}{end}" for prefix in (*PREFIXES, "/v1beta")
      for name in ("models", "files", "batches") for end in ("", "/")),
)  # fmt: skip


_BELOW: Final = tuple(each for each in _SERVERS if each.endswith("/") and each != "/")


def is_servers(path: str) -> bool:
    """Return whether a whole path is one that the server answers itself, whatever it serves."""
    return path in _SERVERS or path.startswith(_BELOW)
