"""From an exception to a gRPC status."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import grpc

from calculators.requests.request_record import current_record, note_reason
from graph_runtime import Code
from servers.contract.failure import failure_of
from servers.operations.request_log.reason import reason_for_log

_log: Final = logging.getLogger(__name__)

STATUS: Mapping[Code, grpc.StatusCode] = MappingProxyType(
    {
        **{code: grpc.StatusCode[code.name] for code in Code},
        # Of gRPC's own CANCELLED clients think that they cancelled the call themselves.
        Code.CANCELLED: grpc.StatusCode.UNAVAILABLE,
    }
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """The status that a client gets for ``error``, and its text; total over all exceptions.

    What the client is not told goes to the log, under the request's id, which the text has.
    """
    failure = failure_of(error)
    code = failure.reason or failure.code.name
    note_reason(reason_for_log(code, failure.param, failure.detail))
    if failure.cause is None:
        return STATUS[failure.code], failure.text
    record = current_record()
    reference = secrets.token_hex(8) if record is None else record.request_id
    _log.error("request %s failed", reference, exc_info=failure.cause)
    return STATUS[failure.code], f"internal error (request {reference})"
