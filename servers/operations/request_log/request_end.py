"""How a request came and how it ended, in the nouns of its transport."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """What a front says of a request when it is over.

    Attributes:
        protocol: "http" or "grpc".
        method: GET, POST; of gRPC the whole name, ``inference.GRPCInferenceService/ModelInfer``.
        path: without its query, where people put keys; "" of gRPC.
        route: one of few: the path without what the client chose of it; "" where there is none,
            or nobody wants to know.
        status: 200, 499 for a client that went before its answer; OK, NOT_FOUND.
        is_failure: was it the server's fault?
        is_quiet: is it asked for all the time: health, metrics, a small inference that went well?
        scheme: of HTTP: http or https; "" as above.
        request_bytes, response_bytes: None where they are not known.
    """

    protocol: str
    method: str
    path: str
    route: str
    status: int | str
    is_failure: bool
    is_quiet: bool = False
    scheme: str = ""
    request_bytes: int | None = None
    response_bytes: int | None = None
