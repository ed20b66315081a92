"""The end of a request, in the terms of its transport."""

from __future__ import annotations

from msgspec import Struct


class RequestEnd(Struct, frozen=True):
    """A front's account of a request that is over.

    Attributes:
        protocol: "http" or "grpc".
        method: GET, POST; for gRPC the full name, ``inference.GRPCInferenceService/ModelInfer``.
        path: the path without its query, where people put keys; "" for gRPC.
        route: the path with placeholders for names that clients choose; "" if nothing is served
            there.
        status: 200, 499 for a client that left before its answer; OK, NOT_FOUND.
        is_failure: the server failed.
        is_quiet: the request is frequent: health, metrics, a small inference that succeeded.
        is_watching: it was a stream of what runs, which lasts as long as its client looks.
        scheme: http or https; "" for gRPC, and without a trace.
        request_bytes, response_bytes: sizes of bodies; None if they are not known.
    """

    protocol: str
    method: str
    path: str
    route: str
    status: int | str
    is_failure: bool
    is_quiet: bool = False
    is_watching: bool = False
    scheme: str = ""
    request_bytes: int | None = None
    response_bytes: int | None = None
