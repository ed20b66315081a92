"""The feed of `graphrt run`: JSON lines, read one at a time, as operations on a graph."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorError,
    CalculatorGraph,
    GraphError,
    Packet,
    Registry,
    Timestamp,
    Tracer,
    UnavailableError,
    ValidatedGraph,
)
from graph_runtime.errors import did_you_mean
from servers.cli.json_value import decode_time, decode_value, parse_json


class FeedError(Exception):
    """A line is not an operation, or its operation failed. The text begins with ``file:line``."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class AddPacket:
    """Add a packet to a graph input."""

    stream: str
    packet: Packet

    def __str__(self) -> str:
        return f'stream "{self.stream}" at {self.packet.timestamp}'

    def apply(self, graph: CalculatorGraph) -> None:
        graph.add_packet_to_input_stream(self.stream, self.packet)


@dataclass(frozen=True)
class CloseStream:
    """Close a graph input."""

    stream: str

    def __str__(self) -> str:
        return f'close "{self.stream}"'

    def apply(self, graph: CalculatorGraph) -> None:
        graph.close_input_stream(self.stream)


@dataclass(frozen=True)
class SetBound:
    """Promise that a graph input gets nothing before ``bound``."""

    stream: str
    bound: Timestamp

    def __str__(self) -> str:
        return f'set_bound of "{self.stream}" to {self.bound}'

    def apply(self, graph: CalculatorGraph) -> None:
        graph.set_input_stream_timestamp_bound(self.stream, self.bound)


@dataclass(frozen=True)
class FeedCall:
    """Call a method of the graph that takes no arguments."""

    name: str

    def __str__(self) -> str:
        return self.name

    def apply(self, graph: CalculatorGraph) -> None:
        getattr(graph, self.name)()


Operation = AddPacket | CloseStream | SetBound | FeedCall


@dataclass(frozen=True)
class FeedLine:
    """One operation and its place, ``file:line``."""

    place: str
    operation: Operation


def read_feed(lines: Iterable[bytes], source: str) -> Iterator[FeedLine]:
    """Yield the operations of a feed, each as soon as its line has been read.

    Blank lines and lines that start with ``#`` are skipped.

    Raises:
        FeedError: a line is not UTF-8, not JSON, or no operation.
    """
    for number, raw in enumerate(lines, 1):
        place = f"{source}:{number}"
        try:
            # Editors of Windows begin a file with a byte order mark.
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError as error:
            byte = f"0x{raw[error.start]:02x}"
            raise FeedError(
                f"{place}: the byte {byte} at column {error.start + 1} is not UTF-8"
            ) from None
        if not text or text.startswith("#"):
            continue
        try:
            yield _parse_line(text, place)
        except json.JSONDecodeError as error:
            raise FeedError(
                f"{place}:{error.colno}: this is not JSON: {error.msg}",
                'a line looks like {"stream": "in", "ts": 0, "value": 1}',
            ) from None
        except RecursionError:
            raise FeedError(f"{place}: the JSON is nested too deep") from None
        except ValueError as error:
            raise FeedError(f"{place}: {error}") from None


def _parse_line(text: str, place: str) -> FeedLine:
    fields = parse_json(text)
    if not isinstance(fields, dict):
        raise ValueError(f"a line is a JSON object, not {text[:40]}")
    name = next((key for key in _OPERATIONS if key in fields), None)
    if name is None:
        unknown = next(iter(fields), "")
        raise ValueError(
            f'"{unknown}" is not an operation; one of {", ".join(_OPERATIONS)}'
            f"{did_you_mean(unknown, _OPERATIONS)}"
        )
    return FeedLine(place, _OPERATIONS[name](name, fields))


def _only(fields: dict[str, Any], *allowed: str) -> None:
    """Check that an operation has exactly these fields.

    Raises:
        ValueError: a field is missing, or there is another one.
    """
    for key in fields:
        if key not in allowed:
            raise ValueError(
                f'"{key}" does not belong here, only {", ".join(allowed)}'
                f"{did_you_mean(key, allowed)}"
            )
    for key in allowed:
        if key not in fields:
            raise ValueError(f'"{key}" is missing beside "{next(iter(fields))}"')


def _name(fields: dict[str, Any], key: str) -> str:
    name = fields[key]
    if not isinstance(name, str):
        raise ValueError(f'"{key}" is the name of a stream, not {json.dumps(name)[:40]}')
    return name


def _add(_: str, fields: dict[str, Any]) -> Operation:
    _only(fields, "stream", "ts", "value")
    stream = _name(fields, "stream")
    try:
        time = decode_time(fields["ts"])
        return AddPacket(stream, Packet(decode_value(fields["value"]), time))
    except ValueError as error:
        raise ValueError(f'stream "{stream}" at {fields["ts"]}: {error}') from None


def _close(_: str, fields: dict[str, Any]) -> Operation:
    _only(fields, "close")
    return CloseStream(_name(fields, "close"))


def _set_bound(_: str, fields: dict[str, Any]) -> Operation:
    _only(fields, "set_bound")
    bound = fields["set_bound"]
    if not isinstance(bound, dict):
        raise ValueError('"set_bound" is an object: {"stream": NAME, "ts": TIME}')
    _only(bound, "stream", "ts")
    stream = _name(bound, "stream")
    try:
        return SetBound(stream, decode_time(bound["ts"]))
    except ValueError as error:
        raise ValueError(f'set_bound of "{stream}": {error}') from None


def _call(name: str, fields: dict[str, Any]) -> Operation:
    _only(fields, name)
    if fields[name] is not True:
        raise ValueError(f'"{name}" takes no argument: write {{"{name}": true}}')
    return FeedCall(name)


_OPERATIONS: dict[str, Callable[[str, dict[str, Any]], Operation]] = {
    "stream": _add,
    "close": _close,
    "set_bound": _set_bound,
    "wait_until_idle": _call,
    "close_all_packet_sources": _call,
    "cancel": _call,
}


def observed_streams(asked: list[str], plan: ValidatedGraph) -> list[str]:
    """Return the streams whose packets are shown, each once.

    They are those ``asked`` for, else the graph's outputs, else what nodes make and none reads.
    """
    if asked:
        return list(dict.fromkeys(asked))
    inputs = {each.name for each in plan.graph_inputs}
    outputs = [name for name in plan.outputs.names if name in plan.producers]
    return outputs or [
        name for name in plan.producers if name not in plan.consumers and name not in inputs
    ]


class FeedRunner:
    """Runs a graph step by step, in the calling thread and in a repeatable order.

    If the graph declares a default executor of several threads (``num_threads`` or
    ``executor {}``), calculators are called there instead.

    ``on_packet(stream, packet)`` receives the packets of the observed streams, and
    ``on_error(error)`` every error of the graph, with its cause, as it is recorded. ``resources``
    are added to the side packets of the run.

    Attributes:
        blamed: the line whose packet a receiver refused, or None. A later call raises that error
            (MediaPipe checks at the receiver), and its line is not where a person should look.
    """

    def __init__(
        self,
        plan: ValidatedGraph,
        registry: Registry,
        streams: list[str],
        on_packet: Callable[[str, Packet], object],
        *,
        observe_bounds: bool = False,
        on_error: Callable[[GraphError], object] | None = None,
        tracer: Tracer | None = None,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph = CalculatorGraph(validated_graph=plan, registry=registry)
        self._resources = dict(resources or {})
        self.blamed: FeedLine | None = None
        self._current: FeedLine | None = None
        self._on_error = on_error
        if not plan.executors[""].type or plan.executors[""].num_threads == 1:
            # Calls are then made one after the other inside the feed's waits, so each run prints
            # the same lines in the same order.
            self.graph.set_executor("", ApplicationThreadExecutor())
        for stream in streams:
            self.graph.observe_output_stream(stream, on_packet, observe_bounds)
        self.graph.set_error_callback(self._take_error)
        if tracer is not None:
            self.graph.trace(tracer)

    def start(self, side_packets: Mapping[str, Any]) -> None:
        """Start the run.

        Raises:
            GraphError: side packets are missing or of the wrong type.
        """
        self.graph.start_run({**self._resources, **side_packets})

    def apply(self, line: FeedLine) -> None:
        """Do one operation.

        Raises:
            FeedError: the operation, or an earlier one that was not checked until now, failed.
        """
        self._current = line
        try:
            line.operation.apply(self.graph)
        except GraphError as error:
            text = str(error)
            cause = self.blamed or line
            raise FeedError(f"{cause.place}: {cause.operation}: {text}") from error
        finally:
            self._current = None

    def finish(self) -> None:
        """Close everything and wait for the end.

        Raises:
            GraphError: the graph has failed.
        """
        self.graph.wait_until_idle()
        self.graph.close_all_packet_sources()
        self.graph.wait_until_done()

    def abandon(self) -> None:
        """End a run whose result no longer counts: nodes are closed, errors are dropped."""
        self.graph.cancel()
        with contextlib.suppress(GraphError):
            self.graph.wait_until_done()

    def output_side_packets(self) -> list[tuple[str, Any]]:
        """Return the side packets that nodes made, as names and values, in the nodes' order.

        Those inside subgraphs, such as the bytes of their models, are left out.
        """
        found = []
        for name in self.graph.plan.side_producers:
            if "__" in name:
                continue
            try:
                found.append((name, self.graph.get_output_side_packet(name).value))
            except UnavailableError:
                continue
        return found

    def _take_error(self, error: GraphError) -> None:
        line = self._current
        if line is not None and isinstance(line.operation, AddPacket) and self.blamed is None:
            is_own = not isinstance(error, CalculatorError)
            if is_own and f'"{line.operation.stream}"' in str(error):
                self.blamed = line
        if self._on_error is not None:
            self._on_error(error)
