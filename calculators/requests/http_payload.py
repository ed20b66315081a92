"""What an HTTP front puts into a graph, and what a calculator may raise to answer a request.

The streams carry it under the tags ``HTTP_REQUEST_PAYLOAD`` (an `HttpPayload`) and
``HTTP_RESPONSE_PAYLOAD`` (``str`` or ``bytes``: the body of a unary answer, or the events of a
stream, each ``data: ...`` with its blank line), as in OpenVINO Model Server. No transport here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from calculators.requests.request_record import RequestRecord, current_record
from graph_runtime import Code, GraphError

#: From the first quotation mark to the last: what is quoted may have some itself.
_QUOTED: Final = re.compile(r"""(?<!\w)["'`](?:.*["'`]|.*$)""", re.DOTALL)


def without_values(text: str) -> str:
    """An error's text for the log: without what it quotes, and without what follows a colon.

    What clients send stands there; numbers may stay.
    """
    return _QUOTED.sub('"..."', text.partition(":")[0])


class RequestError(GraphError):
    """The request cannot be answered as it is; the text is for the client.

    Attributes:
        param: the field at fault as a path, ``messages[2].content``; None when none is.
        code: INVALID_ARGUMENT unless given: RESOURCE_EXHAUSTED when a queue is full, UNAVAILABLE
            when what answers is down, DEADLINE_EXCEEDED, UNIMPLEMENTED, NOT_FOUND.
        retry_after: seconds after which trying again makes sense; None when it does not.
        reason: a word for programs, such as "thread_unsupported_request", where an API has one.
        detail: what the log may say of it: nothing that the client sent; "" where the text may
            repeat that.
    """

    code = Code.INVALID_ARGUMENT

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: Code | None = None,
        retry_after: float | None = None,
        reason: str | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message, code=code)
        self.detail = detail
        self.param = param
        self.retry_after = retry_after
        self.reason = reason


class ClientConnection(Protocol):
    """The client's side of a request, as far as a calculator may know it."""

    @property
    def is_disconnected(self) -> bool:
        """True from the moment the peer is known to be gone; nobody reads the answer then."""

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, on the event loop, when the peer goes; now if it has gone."""

    @property
    def is_writable(self) -> bool:
        """Has the client taken enough of what was sent to be sent more? True when it is gone."""

    async def writable(self) -> None:
        """Return when `is_writable`."""


class NoClient:
    """A client that is always there and takes everything: for tests and calls from Python."""

    is_disconnected = False
    is_writable = True

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        return

    async def writable(self) -> None:
        return


@dataclass(frozen=True, slots=True, weakref_slot=True)
class HttpPayload:
    """One HTTP request.

    Attributes:
        uri: path and query as sent, ``/v3/chat/completions``.
        headers: names in lower case.
        body: as sent.
        parsed_json: the parsed body, or None when it is not JSON.
        client: tells when the peer goes, and when it is slow.
        record: what answers the request notes here what is worth knowing; that of the task that
            makes the payload.
    """

    uri: str
    headers: Mapping[str, str]
    body: bytes = b""
    parsed_json: Any = None
    client: ClientConnection = field(default_factory=NoClient)
    record: RequestRecord | None = field(default_factory=current_record, repr=False, compare=False)
