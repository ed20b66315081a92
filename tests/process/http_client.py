"""A plain HTTP client, without anything of an OpenAI client in between."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.support.patience import PATIENCE

CHAT: Final = "/v3/chat/completions"
COMPLETIONS: Final = "/v3/completions"
HELLO: Final = ({"role": "user", "content": "Hello"},)


@dataclass(frozen=True)
class Reply:
    """A whole answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """Return the error object of an OpenAI endpoint."""
        error: dict[str, Any] = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error


class HttpClient:
    """Client that opens a connection for every request."""

    def __init__(self, port: int) -> None:
        self._port = port

    @contextmanager
    def open(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request; yield the response with its headers. Leaving closes the connection."""
        data = body if isinstance(body, str | None) else json.dumps(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
        with closing(
            http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        ) as connection:
            connection.request(method, path, data, headers)
            with connection.getresponse() as response:
                yield response

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        with self.open(method, path, body, headers) as response:
            headers = {name.lower(): value for name, value in response.getheaders()}
            return Reply(response.status, headers, response.read())

    def get(self, path: str) -> Reply:
        return self.ask("GET", path)

    def post(self, path: str, **members: Any) -> Reply:
        """Send a request with these members, by default to the model ``demo``."""
        return self.ask("POST", path, {"model": "demo", **members})

    def send_and_leave(self, path: str, body: object, *, when: Callable[[], bool]) -> None:
        """Send a request; close the connection when a condition holds, reading nothing."""
        with closing(
            http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE)
        ) as connection:
            connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
            deadline = time.monotonic() + PATIENCE
            while not when():
                assert time.monotonic() < deadline
                time.sleep(0.005)

    @contextmanager
    def stream(self, path: str, **members: Any) -> Iterator[http.client.HTTPResponse]:
        """Send a request as `post` does, with ``stream``; return the unread response."""
        body = {"model": "demo", "stream": True, **members}
        with self.open("POST", path, body) as response:
            assert response.status == 200, response.read()
            assert response.headers["Content-Type"] == "text/event-stream"
            yield response
