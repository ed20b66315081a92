"""Which endpoint a path names, by which methods, and in whose words errors are told there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from urllib.parse import unquote_to_bytes


class ErrorForm(Enum):
    """The form in which errors are told under a path."""

    OPENAI = auto()
    KSERVE = auto()
    ANTHROPIC = auto()


class Endpoint(Enum):
    """What the front answers."""

    LIVE = auto()
    READY = auto()
    SERVER = auto()
    STATUSES = auto()
    METRICS = auto()
    MODELS = auto()
    MODEL = auto()
    GRAPH = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint with its methods, and the model's id when the path has one."""

    endpoint: Endpoint
    methods: tuple[str, ...]
    model: str = ""


_GET = ("GET", "HEAD")
_FIXED = {
    "/v2/health/live": Route(Endpoint.LIVE, _GET),
    "/v2/health/ready": Route(Endpoint.READY, _GET),
    "/v2": Route(Endpoint.SERVER, _GET),
    "/v1/config": Route(Endpoint.STATUSES, _GET),
    "/metrics": Route(Endpoint.METRICS, _GET),
    "/v3/models": Route(Endpoint.MODELS, _GET),
    "/v1/models": Route(Endpoint.MODELS, _GET),
    "/v3/v1/models": Route(Endpoint.MODELS, _GET),
}
_MODEL_PREFIXES = ("/v3/models/", "/v1/models/", "/v3/v1/models/")
_GRAPH_PREFIXES = ("/v3/", "/v1/")
_GRAPH = Route(Endpoint.GRAPH, ("POST",))
# Words in a path whose answers may be streams (OpenVINO Model Server reads `stream` only there).
_STREAMING = ("completions", "responses", "messages")
_COUNT_TOKENS = "/messages/count_tokens"
_ANTHROPIC = ("/messages", _COUNT_TOKENS)


def find_route(path: str) -> Route | None:
    """The route of a path as sent, without its query; None when there is none."""
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    if _has_dot_segment(path):
        return None
    for prefix in _MODEL_PREFIXES:
        if path.startswith(prefix):
            return Route(Endpoint.MODEL, _GET, _unquoted(path[len(prefix) :]))
    if path.startswith(_GRAPH_PREFIXES) and path[4:]:
        return _GRAPH
    return None


def may_stream(path: str) -> bool:
    """Does ``"stream": true`` mean anything to this path?"""
    return any(word in path for word in _STREAMING) and not path.endswith(_COUNT_TOKENS)


def error_form(path: str) -> ErrorForm:
    """Whose clients call this path, as far as errors go."""
    if path in ("/v1/config", "/v2") or path.startswith("/v2/"):
        return ErrorForm.KSERVE
    if path.endswith(_ANTHROPIC) and path.startswith(_GRAPH_PREFIXES):
        return ErrorForm.ANTHROPIC
    return ErrorForm.OPENAI


def _has_dot_segment(path: str) -> bool:
    return "/." in path and any(segment in (".", "..") for segment in path.split("/"))


def _unquoted(text: str) -> str:
    return unquote_to_bytes(text).decode("utf-8", "replace")
