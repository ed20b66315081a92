"""`HandlerError`: what a client is told of a handler that failed."""

from __future__ import annotations

from calculators.requests.http_payload import RequestError
from graph_runtime import Code


class HandlerError(RequestError):
    """The handler failed, or gave what cannot be sent. The text is for the client."""

    code = Code.INTERNAL
