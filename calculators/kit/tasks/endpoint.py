"""Paths that tasks answer, and the form of errors on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

#: Prefixes of the endpoints of tasks. Clients of OpenVINO Model Server use /v3, OpenAI's use /v1.
PREFIXES: Final = ("/v3", "/v3/v1", "/v1")
_LONGEST_FIRST: Final = sorted((f"{prefix}/" for prefix in PREFIXES), key=len, reverse=True)


def without_prefix(path: str) -> str:
    """Return a path without the longest of `PREFIXES` and its slash; whole if it has none."""
    for prefix in _LONGEST_FIRST:
        if path.startswith(prefix):
            return path[len(prefix) :]
    return path


class ErrorForm(Enum):
    """The form of the JSON object of an error."""

    OPENAI = auto()
    #: For the server's own paths under ``/v2``; tasks do not use it.
    KSERVE = auto()
    ANTHROPIC = auto()
    GOOGLE = auto()
    COHERE = auto()
    LLAMA_CPP = auto()
    OLLAMA = auto()
    #: The form of text-generation-inference and text-embeddings-inference.
    HUGGING_FACE = auto()


class StreamForm(Enum):
    """The form of an answer in pieces; the value is its media type."""

    EVENTS = "text/event-stream"
    #: One JSON array, of which each piece is complete items.
    ARRAY = "application/json"
    #: A line of JSON after the other; the last one does not have ``"done":false}`` at its end.
    LINES = "application/x-ndjson"


#: Stands for the name of a model in the path of an endpoint.
MODEL: Final = "{model}"


@dataclass(frozen=True, slots=True)
class TaskEndpoint:
    """A path that graphs with nodes of the task answer.

    Several tasks may have an endpoint of one path; the model that a request names decides which
    graph answers. Such endpoints may differ only in ``aliases`` and ``operation``.

    Attributes:
        path: the end of the path, ``/embeddings``; it is served under each of ``prefixes``. With
            `MODEL` in it, before a last word with a colon, ``/models/{model}:countTokens``, the
            path names the model: the parsed body gets it as ``model``.
        prefixes: ``("",)`` for a path that is whole.
        streams: ``"stream": true`` in a request asks for server-sent events.
        streams_by_default: so does a request that does not have the member.
        always_streams: every answer is a stream; the parsed body gets ``"stream": true``.
        query: the names of the query that the parsed body gets as members.
        stream_form: returns the form of a stream for the members of its request; None: events.
        error_form: the form of its errors.
        operation: the name of the operation in traces (OpenTelemetry's ``gen_ai.operation.name``);
            "" is the path without its first slash.
        methods: POST, GET or both; GET brings HEAD. A request with GET has no body: it names its
            model as ``?model=``.
        aliases: further whole paths, without prefixes: ``/v2/rerank``.
        takes_form: a POST may have a form, ``multipart/form-data``, instead of JSON.
        needs_model: a request with POST must name a model. Without that, one that names none is
            for the only model whose task answers this path. So is a GET request.
        is_socket: a request with GET becomes a WebSocket; ``methods`` must be GET.
        events_of: returns the events for a client that asked for a stream and whose graph answers
            with a whole JSON object. Takes the request's members ``model`` and ``stream_options``
            and the answer's text, and raises `ValueError` if that is none. None: such an answer is
            sent as it is.
        only_loads: returns the answer to a request that asks for nothing but that the model is
            loaded, from its members; None: it asks for more.
    """

    path: str
    prefixes: tuple[str, ...] = PREFIXES
    streams: bool = False
    streams_by_default: bool = False
    always_streams: bool = False
    query: tuple[str, ...] = ()
    stream_form: Callable[[Mapping[str, Any]], StreamForm] | None = None
    error_form: ErrorForm = ErrorForm.OPENAI
    operation: str = ""
    methods: tuple[str, ...] = ("POST",)
    aliases: tuple[str, ...] = ()
    takes_form: bool = False
    needs_model: bool = True
    is_socket: bool = False
    events_of: Callable[[Mapping[str, Any], str], str] | None = None
    only_loads: Callable[[Mapping[str, Any]], str | None] = lambda members: None

    def paths(self) -> tuple[str, ...]:
        """Return all whole paths."""
        return (*(prefix + self.path for prefix in self.prefixes), *self.aliases)

    @property
    def names_model(self) -> bool:
        """True if the path has the name of the model."""
        return MODEL in self.path
