"""The messages between the server and the processes that run tools, and their bounds.

The first message loads (`LoadServers`, `LoadFunctions`), and `ToolsReady` answers it. Each
`CallTool` has a number, which its `Result` repeats; results come in any order.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild, plain


class McpServerSettings(msgspec.Struct, frozen=True, array_like=True):
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

    servers: list[McpServerSettings]
    directory: str
    max_output_bytes: int


class LoadFunctions(msgspec.Struct, frozen=True, tag="load_functions", array_like=True):
    """The first message to a process of Python functions; attributes as in `LoadServers`."""

    modules: list[str]
    directory: str
    allow_paths: list[str]
    max_output_bytes: int


class CallTool(msgspec.Struct, frozen=True, tag="call", array_like=True):
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


class ToolsReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
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


Question = LoadServers | LoadFunctions | CallTool | Abandon | StopChild

encode: Final = msgspec.msgpack.Encoder().encode
_questions: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(Question)
_answers: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(
    ToolsReady | LoadingPhase | LoadFailed | Result | Log
)


def decode_question(frame: Frame) -> Question:
    """Decode a frame that came to a process."""
    return _questions.decode(frame)


def decode_answer(frame: Frame) -> Any:
    """Decode a frame that came from a process."""
    return _answers.decode(frame)


#: Bytes of one message of a server, and of what a function prints: more ends the call.
MAX_MESSAGE: Final = 1024 * 1024
#: Characters of an error that the model gets.
MAX_ERROR: Final = 1000
#: Calls that an MCP server has at a time; further ones wait.
MAX_AT_ONCE: Final = 16
#: Tools that an MCP server may list.
MAX_TOOLS: Final = 512
#: Seconds after a call's limit in which its MCP server must show that it still answers.
ANSWER_SECONDS: Final = 5.0


def cut_output(text: str, limit: int) -> str:
    """The text, or its first ``limit`` bytes of UTF-8 that are whole characters, with a mark."""
    # A character has at least one byte, so no more of a gigabyte is encoded than is needed.
    encoded = text[: limit + 1].encode("utf-8", "replace")
    if len(encoded) <= limit:
        return plain(text)
    kept = encoded[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[cut: the result is longer than {limit} bytes]"


def cut_error(text: str) -> str:
    """An error's text, in one piece that a model can read; never empty."""
    text = plain(text[: MAX_ERROR + 1]).strip() or "the tool failed without a reason"
    return text if len(text) <= MAX_ERROR else f"{text[:MAX_ERROR]}..."
