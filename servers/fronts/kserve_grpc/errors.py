"""Exceptions as gRPC statuses."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import grpc

from calculators.kit.requests.request_record import current_record, note_reason
from graph_runtime import Code
from servers.contract.failure import failure_of
from servers.operations.request_log import reason_for_log

_log: Final = logging.getLogger(__name__)

STATUS: Mapping[Code, grpc.StatusCode] = MappingProxyType(
    {
        **{code: grpc.StatusCode[code.name] for code in Code},
        # Clients take CANCELLED for their own cancellation.
        Code.CANCELLED: grpc.StatusCode.UNAVAILABLE,
    }
)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return status and text for a call that failed with ``error``, for any exception.

    The cause of an internal error is logged with the request's id, which the text contains.
    """
    failure = failure_of(error)
    code = failure.reason or failure.code.name
    note_reason(reason_for_log(code, failure.param, failure.detail))
    if failure.cause is None:
        return STATUS[failure.code], failure.text
    record = current_record()
    reference = secrets.token_hex(8) if record is None else record.request_id
    _log.error("request %s failed", reference, exc_info=failure.cause)
    return STATUS[failure.code], failure.internal_text(reference)
