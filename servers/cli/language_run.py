"""`graphrt run --text` and ``--chat``: ask a graph with a language model as a server would."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from calculators.kit.graph_directory import GRAPH_DIRECTORY
from calculators.language import (
    Api,
    Arguments,
    CallDone,
    Content,
    Delta,
    Deltas,
    Failed,
    Gained,
    GenerationRequest,
    HttpAnswer,
    HttpPayload,
    OrderCheck,
    OrderError,
    Refused,
    RequestError,
    Submitted,
    ToolCall,
)
from calculators.tensors.openvino.directory_models import MODELS, DirectoryModels
from graph_runtime import (
    CalculatorGraph,
    Code,
    GraphError,
    Packet,
    Registry,
    ResourceSettings,
    RunError,
    ValidatedGraph,
    make_resources,
)
from graph_runtime.engine.drivers.sync import coroutine_loop
from servers.cli.graph_registry import located
from servers.cli.interrupt import INTERRUPTED, Interrupt
from servers.cli.messages import CommandFailed, JsonLines, print_error
from servers.config.entries import GRAPH_FILE
from servers.serving.graph_runs import end_run
from servers.serving.graph_source import request_stream_of, response_stream_of
from servers.serving.text_generation.text_model import Completion, EventReader


@contextmanager
def node_resources(
    path: str, plan: ValidatedGraph, registry: Registry, given: Mapping[str, Any]
) -> Iterator[Mapping[str, Any]]:
    """Make the resources of nodes, yield them as side packets, and close them at the end.

    Args:
        path: the graph's file.
        given: the user's side packets; nothing is made if the graph needs no others.

    Raises:
        CommandFailed: a resource cannot be made.
    """
    missing = [
        name
        for name, (_, is_optional) in plan.side_packet_types.items()
        if not is_optional and name not in given
    ]
    if not missing:
        yield {}
        return
    # The loop that will run the coroutines of the nodes: a resource may belong to one loop.
    loop = coroutine_loop()
    settings = ResourceSettings(Path(path).resolve().parent)
    making = asyncio.run_coroutine_threadsafe(make_resources(plan, settings, registry), loop)
    try:
        resources = making.result()
    except GraphError as error:
        raise CommandFailed(located(path, error)) from error
    try:
        yield resources.side_packets
    finally:
        asyncio.run_coroutine_threadsafe(resources.close(), loop).result()


_REQUEST: Final = "REQUEST"
_DELTAS: Final = "DELTAS"


@dataclass(frozen=True, slots=True)
class LanguagePorts:
    """The streams of a graph that answers.

    Attributes:
        request: the graph input of a request.
        takes_payload: it takes a `calculators.language.HttpPayload`, not a `GenerationRequest`.
        response: the stream of the answer: of HTTP responses if it ``takes_payload``, else of
            `calculators.language.Deltas`.
        deltas: the streams of deltas that the answer is made of, or the answer itself.
        senders: of each stream of deltas in the graph, the name of the node that sends it.
    """

    request: str
    takes_payload: bool
    response: str
    deltas: tuple[str, ...]
    senders: dict[str, str]


def find_language_ports(plan: ValidatedGraph) -> LanguagePorts | None:
    """Return the ports of a graph that answers requests to a language model; None if none does.

    A graph that takes requests under the tag ``REQUEST`` and gives ``DELTAS`` comes first, then one
    from HTTP to HTTP.
    """
    senders = {
        name: node.config.name or node.name
        for node in plan.nodes
        for (tag, _), name in zip(node.outputs.keys, node.outputs.names, strict=True)
        if tag == _DELTAS
    }
    request = next((each.name for each in plan.graph_inputs if each.tag == _REQUEST), "")
    answer = next((name for name in plan.outputs.names if name in senders), "")
    if request and answer:
        return LanguagePorts(request, False, answer, (answer,), senders)
    request, answer = request_stream_of(plan), response_stream_of(plan)
    if not request or not answer:
        return None
    place = plan.producers.get(answer, len(plan.nodes))
    read: tuple[str, ...] = ()
    if place < len(plan.nodes):
        inputs = plan.nodes[place].inputs
        read = tuple(
            name for (tag, _), name in zip(inputs.keys, inputs.names, strict=True) if tag == _DELTAS
        )
    return LanguagePorts(request, True, answer, read, senders)


#: Members that programs use and people cannot read.
_HIDDEN: Final = frozenset({"request", "stop", "prompt_ids"})
_WORDS: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


def delta_fields(item: Delta) -> dict[str, object]:
    """Return an item of `Deltas` as a JSON object: ``kind``, and its members.

    Members with their usual value are left out, and so is the request, which has the prompt.
    """
    return {"kind": _kind(item), **_members(item)}


def _kind(item: object) -> str:
    return _WORDS.sub("_", type(item).__name__).lower()


def _members(item: Struct) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for member in structs.fields(item):
        name, value = member.name, getattr(item, member.name)
        if name in _HIDDEN or value == member.default:
            continue
        if name == "events":
            found[name] = [{"kind": _kind(event), **_members(event)} for event in value]
        else:
            found[name] = _value(value)
    return found


def _value(value: Any) -> Any:
    if isinstance(value, RequestError):
        return {"message": str(value), "code": value.code.name, "param": value.param}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Struct):
        return _members(value)
    if isinstance(value, (list, tuple)):
        return [_value(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): _value(each) for name, each in value.items()}
    if is_dataclass(value):
        members = ((each.name, getattr(value, each.name)) for each in fields(value))
        return {name: _value(member) for name, member in members if member is not None}
    return value


_PATH: Final = "/v3/chat/completions"
#: Flags that are about packets, not about language.
_OF_PACKETS: Final = ("feed", "observe", "observe_bounds", "trace", "video", "write_video")


def is_asked(args: argparse.Namespace) -> bool:
    """Return whether the arguments are about a language model.

    Raises:
        CommandFailed: they are also about something else.
    """
    asked = args.text is not None or args.chat
    if args.deltas and not asked:
        raise CommandFailed("--deltas needs --text or --chat", status=2)
    for name in _OF_PACKETS if asked else ():
        if getattr(args, name):
            flag = name.replace("_", "-")
            raise CommandFailed(f"--{flag} is exclusive with --text and --chat", status=2)
    return bool(asked)


def ask(
    args: argparse.Namespace,
    plan: ValidatedGraph,
    registry: Registry,
    side_packets: Mapping[str, Any],
    output: JsonLines,
) -> int:
    """Print the answers of a graph to ``--text``, or to each line of standard input.

    Raises:
        CommandFailed: the graph takes no such requests, or a resource cannot be made.
    """
    ports = find_language_ports(plan)
    if ports is None:
        raise CommandFailed(
            f"{args.graph}: it takes no requests to a language model",
            hint="--text and --chat need an input stream HTTP_REQUEST_PAYLOAD and an output stream "
            "HTTP_RESPONSE_PAYLOAD, or REQUEST and DELTAS",
        )
    if args.deltas and not ports.deltas:
        raise CommandFailed(
            f"{args.graph}: no stream of deltas leads to its answer",
            hint="HttpLLMCalculator sends events; put GenerationRequestReaderCalculator, "
            "LLMCalculator and GenerationResponseWriterCalculator in its place",
        )
    path = Path(args.graph).resolve()
    name = path.parent.name if path.name == GRAPH_FILE else path.stem
    lines = iter([args.text]) if args.text is not None else _lines_of_input()
    messages: list[dict[str, Any]] = []
    with node_resources(args.graph, plan, registry, side_packets) as resources:
        packets = {key: Packet(value) for key, value in {**resources, **side_packets}.items()}
        for line in lines:
            messages.append({"role": "user", "content": line})
            answer = _PrintedAnswer(ports, output, shows_deltas=args.deltas)
            graph = CalculatorGraph(
                validated_graph=plan,
                registry=registry,
                services={MODELS: DirectoryModels(path.parent), GRAPH_DIRECTORY: path.parent},
            )
            request = _request(ports, name, messages)
            status = _wait_for(_run(graph, ports, request, packets, answer), answer)
            if status:
                return status
            messages.append({"role": "assistant", "content": answer.text})
    return 0


def _request(
    ports: LanguagePorts, name: str, messages: list[dict[str, Any]]
) -> HttpPayload | GenerationRequest:
    if ports.takes_payload:
        body = {"model": name, "messages": messages, "stream": True}
        return HttpPayload(_PATH, {}, json.dumps(body).encode(), body)
    return GenerationRequest(
        api=Api.CHAT,
        model=name,
        messages=tuple(messages),
        stream=True,
        id=f"run-{len(messages)}",
    )


async def _run(
    graph: CalculatorGraph,
    ports: LanguagePorts,
    request: HttpPayload | GenerationRequest,
    side_packets: Mapping[str, Packet],
    answer: _PrintedAnswer,
) -> None:
    """Run the graph once.

    Raises:
        GraphError: it failed, or gave no answer.
    """
    for stream in ports.senders:
        graph.observe_output_stream(stream, answer.take_deltas)
    if ports.takes_payload:
        graph.observe_output_stream(ports.response, answer.take_response)
    try:
        await graph.run_once_async([(ports.request, request)], dict(side_packets))
    except BaseException:
        await end_run(graph)
        raise
    if reason := graph.silence(ports.response, shows_times=True):
        raise GraphError(f"the graph gave no answer: {reason}", code=Code.INTERNAL)
    answer.end()


def _wait_for(running: Coroutine[Any, Any, None], answer: _PrintedAnswer) -> int:
    """Run to the end on the loop of the resources, and return the exit code."""
    started: list[Future[None]] = []

    def cancel() -> None:
        for each in started:
            each.cancel()

    # Before the run begins, so that Ctrl-C is seen from its first moment on.
    with Interrupt(cancel).installed() as interrupt:
        future = asyncio.run_coroutine_threadsafe(running, coroutine_loop())
        started.append(future)
        if interrupt.was_called:
            future.cancel()
        try:
            future.result()
        except CancelledError:
            return INTERRUPTED
        except GraphError as error:
            answer.finish_line()
            print_error(_reason_of(error))
            return INTERRUPTED if interrupt.was_called else 1
    answer.finish_line()
    if answer.failure:
        print_error(answer.failure)
        return 1
    return 0


def _reason_of(error: GraphError) -> str:
    """Return the text of a failed run: a client's error as the client would get it."""
    for each in error.errors if isinstance(error, RunError) else ():
        cause: BaseException | None = each
        while cause is not None:
            if isinstance(cause, RequestError):
                return str(cause)
            cause = cause.__cause__
    return str(error)


def _lines_of_input() -> Iterator[str]:
    """Yield the lines of standard input that are not empty, until its end."""
    while True:
        if sys.stdin.isatty():
            print("> ", end="", file=sys.stderr, flush=True)
        line = sys.stdin.buffer.readline()
        if not line:
            return
        if text := line.decode(errors="replace").strip():
            yield text


class _PrintedAnswer:
    """Takes the packets of an answer, checks their order, and prints them as they come.

    Attributes:
        text: of the first choice so far.
        failure: why the answer failed; "" if it has not.
    """

    def __init__(self, ports: LanguagePorts, output: JsonLines, *, shows_deltas: bool) -> None:
        self._ports = ports
        self._output = output
        self._shows_deltas = shows_deltas
        self._checks = {name: OrderCheck(node) for name, node in ports.senders.items()}
        self._events = EventReader()
        self.text = ""
        self.failure = ""

    def take_deltas(self, stream: str, packet: Packet) -> None:
        items: Deltas = packet.value
        if self._checks[stream].is_done and items and isinstance(items[0], Submitted):
            # A model in a loop: its next answer.
            self._checks[stream] = OrderCheck(self._ports.senders[stream])
        try:
            self._checks[stream].feed(items)
        except OrderError as error:
            self.failure = self.failure or str(error)
        if self._shows_deltas and stream in self._ports.deltas:
            for item in items:
                self._output.write({"stream": stream, **delta_fields(item)})
        if stream == self._ports.response:
            self._read(items)

    def take_response(self, stream: str, packet: Packet) -> None:
        value = packet.value
        if isinstance(value, HttpAnswer):
            self.failure = f"the answer is not text: {value.content_type}"
            return
        for data in self._events.read(value):
            try:
                completion = Completion.of(data)
            except GraphError as error:
                self.failure = self.failure or str(error)
                return
            for choice in completion.choices:
                if choice.index == 0:
                    self._write(choice.text)

    def end(self) -> None:
        """Check that the answer is complete."""
        if self._ports.takes_payload or self.failure:
            return
        try:
            self._checks[self._ports.response].finish()
        except OrderError as error:
            self.failure = str(error)

    def finish_line(self) -> None:
        """Let what is printed next begin a line."""
        if self.text and not self.text.endswith("\n") and not self._shows_deltas:
            self._output.write_text("\n")

    def _read(self, items: Deltas) -> None:
        for item in items:
            if isinstance(item, Failed):
                self.failure = str(item.error)
            elif isinstance(item, Gained) and item.choice == 0:
                for event in item.events:
                    self._write(_shown(event))

    def _write(self, text: str) -> None:
        self.text += text
        if text and not self._shows_deltas:
            self._output.write_text(text)


def _shown(event: object) -> str:
    """Return the text of an event for people: a call is a line, reasoning is left out."""
    match event:
        case Content(text) | Refused(text) | Arguments(text):
            return text
        case ToolCall(name):
            return f"\n{name}("
        case CallDone():
            return ")\n"
        case _:
            return ""
