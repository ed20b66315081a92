"""The messages between the server and the processes that run tools."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild


class ServerSettings(msgspec.Struct, frozen=True, array_like=True):
    """One MCP server; it has a command or a url.

    Attributes:
        env: the variables that the command gets besides the usual ones.
        bearer_token: sent to the url; "" for none.
        allow: names and patterns of the tools that may be called.
        allow_paths: absolute paths that arguments may name, with all below them.
        path_arguments: names and patterns of arguments that are paths.
        start_seconds: time that it may take to list its tools.
    """

    label: str
    command: list[str]
    url: str
    env: dict[str, str]
    bearer_token: str
    allow: list[str]
    allow_paths: list[str]
    path_arguments: list[str]
    start_seconds: float


class ToolSpec(msgspec.Struct, frozen=True, array_like=True):
    """A tool as it is offered to models.

    Attributes:
        server: the server's label; of a function, the last part of its module's name.
        parameters: the JSON schema of its arguments, an object.
    """

    server: str
    name: str
    description: str
    parameters: dict[str, Any]


# To the processes ---------------------------------------------------------------------------------


class LoadServers(msgspec.Struct, frozen=True, tag="load_servers", array_like=True):
    """The first message to the process of MCP sessions.

    Attributes:
        directory: of the graph; commands run there.
        max_output_bytes: a longer result is cut.
    """

    servers: list[ServerSettings]
    directory: str
    max_output_bytes: int


class LoadFunctions(msgspec.Struct, frozen=True, tag="load_functions", array_like=True):
    """The first message to a process of Python functions; attributes as in `LoadServers`."""

    modules: list[str]
    directory: str
    allow_paths: list[str]
    max_output_bytes: int


class Call(msgspec.Struct, frozen=True, tag="call", array_like=True):
    """Request for a call. Answer: the `Result` of the same number.

    Attributes:
        arguments: a JSON object, as the model wrote it.
        seconds: limit of the time that the call may take.
    """

    number: int
    server: str
    tool: str
    arguments: str
    seconds: float


class Abandon(msgspec.Struct, frozen=True, tag="abandon", array_like=True):
    """The result of a call is no longer wanted; it may still come."""

    number: int


# From the processes -------------------------------------------------------------------------------


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """Everything is loaded; ``tools`` are those that may be called, in the order of the options."""

    tools: list[ToolSpec]


class Result(msgspec.Struct, frozen=True, tag="result", array_like=True):
    """The end of a call.

    Attributes:
        output: the text for the model, cut if it was too long; "" if the call failed.
        error: why the call failed, for the model; None if it did not.
    """

    number: int
    output: str
    error: str | None


Question = LoadServers | LoadFunctions | Call | Abandon | StopChild

encode: Final = msgspec.msgpack.Encoder().encode
_questions: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(Question)
_answers: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(
    Ready | LoadingPhase | LoadFailed | Result | Log
)


def decode_question(frame: Frame) -> Question:
    """Decode a frame that came to a process."""
    return _questions.decode(frame)


def decode_answer(frame: Frame) -> Any:
    """Decode a frame that came from a process."""
    return _answers.decode(frame)


def plain(text: str) -> str:
    """The text without halves of surrogate pairs, which no message can hold."""
    return text.encode("utf-8", "replace").decode()
