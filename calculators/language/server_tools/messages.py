"""The messages between the server and the processes that run tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import msgspec

from calculators.kit.child_process.framing import Frame
from calculators.kit.child_process.messages import LoadFailed, Loading, Log, Stop

#: Formats of JSON schemas that pydantic gives to paths.
PATH_FORMATS: Final = frozenset({"path", "file-path", "directory-path"})
#: Deeper arguments are refused before anything looks at them.
_MAX_DEPTH: Final = 64


class PathRefused(Exception):
    """An argument names a path that is not allowed; the text is for the model."""


class PathRules:
    """The allow-list of paths of one server.

    A path may be named if it is one of the allowed ones, or below one, after symbolic links and
    ".." are resolved. Without allowed paths, none may be.
    """

    def __init__(
        self, directory: str, allowed: Sequence[str], argument_patterns: Sequence[str] = ()
    ) -> None:
        """``directory``: relative paths start here. ``argument_patterns``: names of arguments that
        are paths although their schema does not say so."""
        self._directory = Path(directory)
        self._allowed = [Path(path).resolve() for path in allowed]
        self._patterns = tuple(argument_patterns)

    def resolve(self, text: str, argument: str) -> Path:
        """The absolute path that an argument means; ``argument``: its name, if it is known.

        Raises:
            PathRefused: it is not allowed.
        """
        place = f'the path in "{argument}"' if argument else "the path"
        path = text
        if text[:5].lower() == "file:":
            path = unquote(urlsplit(text).path)
        try:
            resolved = (self._directory / path).resolve()
        except (OSError, ValueError, RuntimeError):  # a null character, a circle of links
            raise PathRefused(f"{place} cannot be read") from None
        if any(resolved.is_relative_to(allowed) for allowed in self._allowed):
            return resolved
        raise PathRefused(f"{place} is outside of the allowed directories")

    def check(self, arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
        """Check all paths among the arguments of a call.

        Raises:
            PathRefused: one of them is not allowed.
        """
        for name, text in self._paths(arguments, schema, schema, "", False, 0):
            self.resolve(text, name)

    def _paths(
        self, value: Any, schema: Any, root: Any, name: str, is_path: bool, depth: int
    ) -> Iterator[tuple[str, str]]:
        """Yield (argument, text) of each path in a value."""
        if depth > _MAX_DEPTH:
            raise PathRefused("the arguments are nested too deeply")
        parts = list(_alternatives(schema, root))
        is_path = is_path or any(part.get("format") in PATH_FORMATS for part in parts)
        match value:
            case str():
                if is_path or value[:5].lower() == "file:":
                    yield name, value
            case list():
                items = [part.get("items") for part in parts]
                for item in value:
                    yield from self._paths(item, {"anyOf": items}, root, name, is_path, depth + 1)
            case dict():
                for key, item in value.items():
                    of_key = [_property(part, key) for part in parts]
                    named = any(fnmatchcase(key, pattern) for pattern in self._patterns)
                    yield from self._paths(
                        item, {"anyOf": of_key}, root, key, is_path or named, depth + 1
                    )
            case _:
                pass


def _property(schema: Mapping[str, Any], name: str) -> Any:
    """The schema of a member of an object."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        return properties[name]
    return schema.get("additionalProperties")


def _alternatives(schema: Any, root: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those that it joins, with references resolved."""
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return
    yield schema
    for word in ("anyOf", "oneOf", "allOf"):
        joined = schema.get(word)
        for part in joined if isinstance(joined, list) else ():
            yield from _alternatives(part, root, depth + 1)
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        found = root
        for step in reference[2:].split("/"):
            found = found.get(step) if isinstance(found, dict) else None
        yield from _alternatives(found, root, depth + 1)


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


Question = LoadServers | LoadFunctions | CallTool | Abandon | Stop

encode: Final = msgspec.msgpack.Encoder().encode
_questions: Final[msgspec.msgpack.Decoder[Question]] = msgspec.msgpack.Decoder(Question)
_answers: Final[msgspec.msgpack.Decoder[Any]] = msgspec.msgpack.Decoder(
    ToolsReady | Loading | LoadFailed | Result | Log
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
