"""`graphrt parse-output`: the content, reasoning and tool calls in a model's text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.language.events import (
    Arguments,
    Content,
    OutputEvent,
    Reasoning,
    ToolCall,
    new_call_id,
)
from calculators.llm.parsers.output_parsers import AnswerParser, OutputParsers
from calculators.llm.parsers.registry import (
    UnknownParser,
    parser_problem,
    reasoning_parser_names,
    tool_parser_names,
)
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.tools import read_tools
from graphrt_base.errors import GraphError
from servers.cli.messages import CommandFailed, JsonLines, json_lines_output


def execute(args: argparse.Namespace) -> int:
    """Run the command and return the exit code."""
    if args.jsonl:
        return _parse_answers(args)
    stream = _parsers(args.tool_parser, args.reasoning_parser).start(
        tools={} if args.tools is None else _read_tools(Path(args.tools)) or None,
        prompt="" if args.prompt is None else _read_text(Path(args.prompt)),
    )
    with json_lines_output() as output:
        if args.stream:
            _print_deltas(stream, output)
        else:
            text = _decoded(sys.stdin.buffer.read(), "standard input")
            output.write(_message([*stream.feed(text), *stream.finish()]))
    return 0


def _parsers(tool: str, reasoning: str) -> OutputParsers:
    try:
        return OutputParsers.named(tool, reasoning)
    except UnknownParser as error:
        raise CommandFailed(str(error), status=2) from error


# Answers as lines ---------------------------------------------------------------------------------


class _WrongLine(ValueError):
    """A line that is no answer of a family that is known."""


def _parse_answers(args: argparse.Namespace) -> int:
    """Print the meaning of each answer, or what is wrong with its line."""
    failed = 0
    parsers = _parsers_of(args)
    with json_lines_output() as output:
        for number, line in enumerate(sys.stdin.buffer, start=1):
            if not line.strip():
                continue
            try:
                output.write(_parsed(_answer(line), parsers))
            except (_WrongLine, UnknownParser) as error:
                failed += 1
                output.write({"error": f"line {number}: {error}"})
    return 1 if failed else 0


def _parsers_of(args: argparse.Namespace) -> Callable[[str], OutputParsers]:
    """Return the function from the name of a family to its parsers; "": those of the arguments."""
    own = _parsers(args.tool_parser, args.reasoning_parser)

    @lru_cache(maxsize=256)
    def parsers(family: str) -> OutputParsers:
        tools, thoughts = tool_parser_names(), reasoning_parser_names()
        if not family:
            return own
        if family not in tools and family not in thoughts:
            names = dict.fromkeys((*tools, *thoughts))
            raise UnknownParser(f'"family": {parser_problem(family, [*names])}')
        return OutputParsers.named(
            family if family in tools else "", family if family in thoughts else ""
        )

    return parsers


@lru_cache(maxsize=256)
def _parsers_of_template(source: str) -> OutputParsers:
    """Return the parsers that a chat template asks for, as a server chooses them.

    Raises:
        _WrongLine: it cannot be used.
    """
    # Imported here: names of families need no templates.
    from calculators.llm.prompt.chat_template.chat_renderer import ChatRenderer
    from calculators.llm.prompt.chat_template.chat_template import ChatTemplate

    try:
        chats = ChatRenderer(ChatTemplate.of_source(source))
    except GraphError as error:
        raise _WrongLine(f'"template": {error}') from None
    found = chats.analysis
    return OutputParsers.named(chats.tool_parser, found.reasoning_parser or "", found.made)


def _answer(line: bytes) -> dict[str, Any]:
    """Return the members of a line.

    Raises:
        _WrongLine: a member is missing or of another type.
    """
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise _WrongLine(f"not JSON: {error}") from None
    if not isinstance(answer, dict):
        raise _WrongLine("expected an object")
    if not isinstance(answer.get("model_output"), str):
        raise _WrongLine('"model_output": expected a string')
    for name in ("family", "template", "rendered_prompt", "finish_reason"):
        if not isinstance(answer.get(name), str | None):
            raise _WrongLine(f'"{name}": expected a string')
    tools = answer.get("tools_schemas")
    if tools is not None and not (
        isinstance(tools, dict) and all(isinstance(each, dict) for each in tools.values())
    ):
        raise _WrongLine('"tools_schemas": expected an object of schemas by the tool\'s name')
    return answer


def _parsed(answer: dict[str, Any], parsers: Callable[[str], OutputParsers]) -> dict[str, Any]:
    tools, template = answer.get("tools_schemas"), answer.get("template")
    own = _parsers_of_template(template) if template else parsers(answer.get("family") or "")
    stream = own.start(
        tools={} if tools is None else tools or None, prompt=answer.get("rendered_prompt") or ""
    )
    message = _message([*stream.feed(answer["model_output"]), *stream.finish()])
    # As in answers of the server, where every call has an id.
    calls = [{"id": new_call_id(), **call} for call in message["tool_calls"]]
    return {**message, "tool_calls": calls}


# In -----------------------------------------------------------------------------------------------


def _read_text(path: Path) -> str:
    try:
        return _decoded(path.read_bytes(), str(path))
    except OSError as error:
        raise CommandFailed(f"{path}: {error.strerror}") from error


def _decoded(data: bytes, source: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{source} is not UTF-8 at byte {error.start}") from error


def _read_tools(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the schemas of the parameters by name of the tool."""
    try:
        tools = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise CommandFailed(f"{path} is not JSON: {error}") from error
    if isinstance(tools, dict) and all(isinstance(schema, dict) for schema in tools.values()):
        return tools
    if not isinstance(tools, list):
        raise CommandFailed(
            f"{path}: expected an array of tools, or an object of schemas by the tool's name"
        )
    try:
        return read_tools({"tools": tools}, RequestLimits(max_tools=len(tools))).schemas
    except RequestError as error:
        raise CommandFailed(f"{path}: {error}") from error


def _chunks(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            chunk = json.loads(line)
        except (ValueError, RecursionError):
            chunk = None
        if not isinstance(chunk, str):
            raise CommandFailed(f"line {number} of standard input is not a JSON string")
        yield chunk


# Out ----------------------------------------------------------------------------------------------


def _message(events: Iterable[OutputEvent]) -> dict[str, Any]:
    said: list[str] = []
    thought: list[str] = []
    calls: list[dict[str, str]] = []
    for event in events:
        match event:
            case Content(text):
                said.append(text)
            case Reasoning(text):
                thought.append(text)
            case ToolCall(name, call_id):
                own = {"id": call_id} if call_id else {}
                calls.append({**own, "name": name, "arguments": ""})
            case Arguments(text):
                calls[-1]["arguments"] += text
    return {
        "content": "".join(said),
        "reasoning_content": "".join(thought),
        "tool_calls": calls,
    }


def _print_deltas(stream: AnswerParser, output: JsonLines) -> None:
    deltas = _Deltas()
    for chunk in _chunks(sys.stdin.buffer):
        output.write(deltas.of(stream.feed(chunk)))
    output.write(deltas.of(stream.finish()))


class _Deltas:
    """Makes deltas, as in OpenAI's streams, from events: one for all events of a chunk."""

    def __init__(self) -> None:
        self._calls = 0

    def of(self, events: Iterable[OutputEvent]) -> dict[str, object] | None:
        """Return the delta of these events; None if it would be empty."""
        delta: dict[str, Any] = {}
        for event in events:
            match event:
                case Content(text):
                    delta["content"] = delta.get("content", "") + text
                case Reasoning(text):
                    delta["reasoning_content"] = delta.get("reasoning_content", "") + text
                case ToolCall(name, call_id):
                    delta.setdefault("tool_calls", []).append(self._begun(name, call_id))
                case Arguments(text):
                    function = self._function(delta)
                    function["arguments"] = function.get("arguments", "") + text
        order = ("content", "reasoning_content", "tool_calls")
        return {key: delta[key] for key in order if key in delta} or None

    def _begun(self, name: str, call_id: str) -> dict[str, Any]:
        index = self._calls
        self._calls += 1
        return {
            "index": index,
            "id": call_id or new_call_id(),
            "type": "function",
            "function": {"name": name},
        }

    def _function(self, delta: dict[str, Any]) -> dict[str, Any]:
        """Return ``function`` of the call that began last; add its entry if the delta has none."""
        index = self._calls - 1
        entries: list[dict[str, Any]] = delta.setdefault("tool_calls", [])
        if not entries or entries[-1]["index"] != index:
            entries.append({"index": index, "function": {}})
        function: dict[str, Any] = entries[-1]["function"]
        return function
