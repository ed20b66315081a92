"""Exceptions as HTTP statuses and error objects."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from types import MappingProxyType

from calculators.kit.requests.http_payload import without_values
from calculators.kit.tasks import ErrorForm
from graph_runtime import Code
from servers.contract.failure import failure_of

STATUS: Mapping[Code, int] = MappingProxyType(
    {
        Code.INVALID_ARGUMENT: 400,
        Code.FAILED_PRECONDITION: 412,
        Code.OUT_OF_RANGE: 400,
        Code.UNAUTHENTICATED: 401,
        Code.PERMISSION_DENIED: 403,
        Code.NOT_FOUND: 404,
        Code.ALREADY_EXISTS: 409,
        Code.RESOURCE_EXHAUSTED: 429,
        Code.UNKNOWN: 500,
        Code.INTERNAL: 500,
        Code.DATA_LOSS: 500,
        Code.UNIMPLEMENTED: 501,
        Code.ABORTED: 503,
        Code.CANCELLED: 503,
        Code.UNAVAILABLE: 503,
        Code.DEADLINE_EXCEEDED: 504,
    }
)

_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
#: Names of google.rpc.Code.
_GOOGLE_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    412: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_CODES = {429: "rate_limit_exceeded", 503: "service_unavailable", 504: "timeout"}


class HttpError(Exception):
    """An answer with an error status.

    Attributes:
        message: the text for the client.
        details: further members of the body, in KServe's form.
        cause: the exception for the log; None when the client's text says everything.
        headers: headers of this answer besides the usual ones.
        detail: the text for the log, without anything that the client sent.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
        details: Mapping[str, object] | None = None,
        cause: BaseException | None = None,
        detail: str = "",
    ) -> None:
        super().__init__(message)
        self.detail = detail
        self.status = status
        self.message = message
        self.param = param
        self.code = _CODES.get(status) if code is None else code
        self.headers = dict(headers or {})
        self.details = dict(details or {})
        self.cause = cause

    @property
    def type(self) -> str:
        """The ``type`` of OpenAI's error object."""
        if self.status >= 500:
            return "server_error"
        return _TYPES.get(self.status, "invalid_request_error")

    def body(self, form: ErrorForm, request_id: str) -> bytes:
        """Return the JSON body in the form of a path."""
        match form:
            case ErrorForm.OPENAI:
                return self.openai_body()
            case ErrorForm.KSERVE:
                return self.kserve_body()
            case ErrorForm.OLLAMA:
                return self.ollama_body()
            case ErrorForm.ANTHROPIC:
                return self.anthropic_body(request_id)
            case ErrorForm.GOOGLE:
                return self.google_body()
            case ErrorForm.COHERE:
                return json.dumps({"id": request_id, "message": self.message}).encode()
            case ErrorForm.LLAMA_CPP:
                return self.llama_cpp_body()
            case ErrorForm.HUGGING_FACE:
                return self.hugging_face_body()

    def openai_body(self) -> bytes:
        """Return ``{"error": {"message", "type", "param", "code"}}``."""
        error = {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}).encode()

    def kserve_body(self) -> bytes:
        """Return ``{"error": text}``, as in KServe's v2 protocol."""
        return json.dumps({"error": self.message, **self.details}).encode()

    def ollama_body(self) -> bytes:
        """Return ``{"error": text}``, where only the text can name the member at fault."""
        text = self.message
        if self.param is not None and self.param not in text:
            text = f"{self.param}: {text}"
        return json.dumps({"error": text}).encode()

    def anthropic_body(self, request_id: str) -> bytes:
        """Return ``{"type": "error", "error": {"type", "message"}, "request_id"}``.

        A code that says more than the status is in ``error.details.error_code``.
        """
        kind = "api_error" if self.status >= 500 else "invalid_request_error"
        error: dict[str, object] = {
            "type": _ANTHROPIC_TYPES.get(self.status, kind),
            "message": self.message,
        }
        if self.code != _CODES.get(self.status):
            error["details"] = {"error_code": self.code}
        return json.dumps({"type": "error", "error": error, "request_id": request_id}).encode()

    def google_body(self) -> bytes:
        """Return ``{"error": {"code", "message", "status", "details"}}``: google.rpc.Status.

        The details name the member at fault, and the time after which a client should try again.
        """
        kind = "INTERNAL" if self.status >= 500 else "INVALID_ARGUMENT"
        details: list[dict[str, object]] = []
        if self.param is not None:
            violation = {"field": self.param, "description": self.message}
            details.append(_google("BadRequest", fieldViolations=[violation]))
        if "Retry-After" in self.headers:
            details.append(_google("RetryInfo", retryDelay=f"{self.headers['Retry-After']}s"))
        error = {
            "code": self.status,
            "message": self.message,
            "status": _GOOGLE_STATUS.get(self.status, kind),
        }
        return json.dumps({"error": error | ({"details": details} if details else {})}).encode()

    def hugging_face_body(self) -> bytes:
        """Return ``{"error": text, "error_type"}``."""
        kind = "generation" if self.status >= 500 else "validation"
        kind = "overloaded" if self.status in (429, 503) else kind
        return json.dumps({"error": self.message, "error_type": kind}).encode()

    def llama_cpp_body(self) -> bytes:
        """Return ``{"error": {"code", "message", "type"}}``; the code is the status."""
        error = {"code": self.status, "message": self.message, "type": self.type}
        return json.dumps({"error": error}).encode()


def _google(kind: str, **members: object) -> dict[str, object]:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **members}


def http_error(error: BaseException, request_id: str) -> HttpError:
    """Return the answer to a request that failed with ``error``, for any exception."""
    if isinstance(error, HttpError):
        # The front's own texts quote whatever they repeat of a request.
        error.detail = error.detail or without_values(error.message)
        return error
    failure = failure_of(error)
    if failure.cause is not None:
        reply = HttpError(500, failure.internal_text(request_id), cause=failure.cause)
    else:
        detail = failure.detail or failure.reason or failure.code.name
        reply = HttpError(STATUS[failure.code], failure.text, detail=detail)
    if reply.status == 500:
        reply.code = "internal_error"
    if failure.is_unknown_model:
        reply.param, reply.code = "model", "model_not_found"
    else:
        reply.param = failure.param
    if failure.reason is not None:
        reply.code = failure.reason
    if reply.status == 401:
        reply.headers["WWW-Authenticate"] = 'Bearer realm="graphrt"'
    if failure.retry_after is not None:
        reply.headers["Retry-After"] = str(max(0, math.ceil(failure.retry_after)))
    return reply
