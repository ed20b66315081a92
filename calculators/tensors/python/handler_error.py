"""`HandlerError`: the error that a client gets for a handler that failed."""

from __future__ import annotations

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code


class HandlerError(RequestError):
    """The handler failed, or returned something that cannot be sent. The text is for the client."""

    code = Code.INTERNAL
