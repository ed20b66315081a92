"""The start and the end of a call, for the log and for traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Self

import grpc

from calculators.kit.requests.client_identity import ClientIdentity
from calculators.kit.requests.request_record import RequestRecord
from servers.access import Access
from servers.access.access import KEY_HEADERS
from servers.operations.request_log import RequestEnd, RequestJournal, request_id_of

REQUEST_ID: Final = "x-request-id"

#: Statuses that are the server's fault, by OpenTelemetry's conventions.
_FAILURES: Final = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)

#: Methods that monitoring polls.
_PROBES: Final = frozenset(
    {
        "grpc.health.v1.Health/Check",
        "grpc.health.v1.Health/Watch",
        "inference.GRPCInferenceService/ServerLive",
        "inference.GRPCInferenceService/ServerReady",
        "inference.GRPCInferenceService/ModelReady",
    }
)


class CallEntry:
    """One call: ``with CallEntry(...) as entry:`` around it.

    Attributes:
        status: CANCELLED until the call sets another: its client has left.
        request_bytes, response_bytes: sizes of messages; None if they are not known.
    """

    __slots__ = ("_access", "_context", "_identify", "_journal", "_method", "_record",
                 "request_bytes", "response_bytes", "status")  # fmt: skip

    def __init__(
        self,
        journal: RequestJournal,
        method: str,
        context: Any,
        access: Access,
        identify: Callable[[str], ClientIdentity],
    ) -> None:
        """``method``: service and method, ``inference.GRPCInferenceService/ModelInfer``.

        ``identify``: returns the client of a peer of grpcio.
        """
        self._journal = journal
        self._method = method
        self._context = context
        self._access = access
        self._identify = identify
        self._record: RequestRecord | None = None
        self.status = grpc.StatusCode.CANCELLED
        self.request_bytes: int | None = None
        self.response_bytes: int | None = None

    def __enter__(self) -> Self:
        # Values of names that end in -bin are bytes; no header here is one of them.
        header = {
            name: value
            for name, value in self._context.invocation_metadata() or ()
            if isinstance(value, str)
        }.get
        request_id = request_id_of(header(REQUEST_ID))
        is_probe = self._method in _PROBES
        self._record = self._journal.begin(request_id, header, is_probe=is_probe)
        if not is_probe:
            keys = map(header, KEY_HEADERS)
            self._record.client = self._access.client(self._identify(self._context.peer()), *keys)
        self._context.set_trailing_metadata(((REQUEST_ID, request_id),))
        return self

    def __exit__(self, *raised: object) -> None:
        assert self._record is not None
        end = RequestEnd(
            protocol="grpc",
            method=self._method,
            path="",
            route=self._method,
            status=self.status.name,
            is_failure=self.status in _FAILURES,
            is_quiet=self.status is grpc.StatusCode.OK or self._method in _PROBES,
            request_bytes=self.request_bytes,
            response_bytes=self.response_bytes,
        )
        self._journal.end(self._record, end)
