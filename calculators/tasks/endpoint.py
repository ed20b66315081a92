"""Paths that tasks answer, and the form of errors on each."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

#: Prefixes of the endpoints of tasks. Clients of OpenVINO Model Server use /v3, OpenAI's use /v1.
PREFIXES: Final = ("/v3", "/v3/v1", "/v1")


class ErrorForm(Enum):
    """The form of the JSON object of an error."""

    OPENAI = auto()
    #: For the server's own paths under ``/v2``; tasks do not use it.
    KSERVE = auto()
    ANTHROPIC = auto()


@dataclass(frozen=True, slots=True)
class TaskEndpoint:
    """A path that graphs with nodes of the task answer, by POST.

    Attributes:
        path: the end of the path, ``/embeddings``; it is served under each of `PREFIXES`.
        streams: ``"stream": true`` in a request asks for server-sent events.
        error_form: the form of its errors.
        operation: the name of the operation in traces (OpenTelemetry's ``gen_ai.operation.name``);
            "" is the path without its first slash.
    """

    path: str
    streams: bool = False
    error_form: ErrorForm = ErrorForm.OPENAI
    operation: str = ""
